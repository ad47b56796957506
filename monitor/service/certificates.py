"""Read when the certificates of the connections to Kafka and Redis expire: those in files, and those of the servers.

This module does not verify certificates. The connections do.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from monitor.config import Config

log = logging.getLogger(__name__)

FILES_SECONDS: Final = 60.0
SERVERS_SECONDS: Final = 600.0
_ANSWER_SECONDS: Final = 5.0
_REDIS_PORT: Final = 6379

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME, _GENERALIZED_TIME = 0xA0, 0x17, 0x18  # tags of DER
_BEFORE_VALIDITY: Final = 3  # serial number, algorithm, issuer


def read_expiry(certificate: bytes) -> float:
    """Return when a certificate in DER expires, in seconds since 1970.

    The standard library decodes only certificates that it has verified, so it cannot decode an expired one.

    Raises:
        ValueError: the bytes are not a certificate.
    """
    try:
        _, body, _ = _read_element(certificate, 0)
        _, at, _ = _read_element(certificate, body)
        if certificate[at] == _VERSION:
            _, _, at = _read_element(certificate, at)
        for _ in range(_BEFORE_VALIDITY):
            _, _, at = _read_element(certificate, at)
        _, first, _ = _read_element(certificate, at)
        _, _, second = _read_element(certificate, first)
        tag, start, end = _read_element(certificate, second)
    except IndexError:
        raise ValueError("the certificate is cut off") from None
    return _parse_time(tag, certificate[start:end].decode("ascii"))


def _read_element(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag of an element of DER, and where its content begins and ends."""
    tag, length, start = data[at], data[at + 1], at + 2
    if length & 0x80:
        digits = length & 0x7F
        length, start = int.from_bytes(data[start : start + digits]), start + digits
    if start + length > len(data):
        raise IndexError
    return tag, start, start + length


def _parse_time(tag: int, text: str) -> float:
    if tag not in {_UTC_TIME, _GENERALIZED_TIME}:
        raise ValueError("the certificate has no time of expiry")
    century = "" if tag == _GENERALIZED_TIME else "20" if text < "50" else "19"  # RFC 5280, section 4.1.2.5.1
    return datetime.strptime(century + text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def read_file(path: Path) -> float:
    """Return the earliest expiry of the certificates in a PEM file, in seconds since 1970.

    Raises:
        OSError: the file cannot be read.
        ValueError: it contains no certificate, or one that cannot be decoded.
    """
    found = _PEM.findall(path.read_text(encoding="ascii", errors="replace"))
    if not found:
        raise ValueError("no certificate in PEM")
    return min(read_expiry(ssl.PEM_cert_to_DER_cert(pem)) for pem in found)


def read_server(host: str, port: int, own: tuple[Path, Path] | None = None) -> float:
    """Return when the certificate of a server expires, in seconds since 1970.

    `own`: the client's certificate and key, for a server that requires them. Nothing else is sent.

    Raises:
        OSError: the server does not answer.
        ValueError: its certificate cannot be decoded.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # an expired certificate must be readable too
    if own is not None:
        context.load_cert_chain(*own)
    with (
        socket.create_connection((host, port), _ANSWER_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        return read_expiry(connection.getpeercert(binary_form=True) or b"")


class ExpiryObserver(Protocol):
    """The metrics of certificates."""

    def set_certificate(self, certificate: str, expires_seconds: float | None) -> None:
        """Set the time at which a certificate expires; None if it is not known."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """How to read each certificate, by its name in the metrics: the files, and functions that ask the servers."""

    files: Mapping[str, Path]
    servers: Mapping[str, Callable[[], float]]


def list_certificates(config: Config) -> Certificates:
    """Return the certificates of the configured connections; none if they do not use TLS."""
    kafka, redis = config.kafka, config.redis
    files: dict[str, Path | None] = {}
    servers: dict[str, Callable[[], float]] = {}
    if kafka.uses_tls:
        files = {"kafka_ca_file": kafka.ca_file, "kafka_certificate_file": kafka.certificate_file}
        own = (kafka.certificate_file, kafka.key_file) if kafka.certificate_file and kafka.key_file else None
        servers["kafka_server"] = partial(_read_first, [_split(address) for address in kafka.bootstrap_servers], own)
    parts = redis.parts
    if parts.scheme == "rediss":
        files["redis_ca_file"] = redis.ca_file
        servers["redis_server"] = partial(read_server, parts.hostname or "", parts.port or _REDIS_PORT)
    return Certificates({name: path for name, path in files.items() if path is not None}, servers)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _read_first(addresses: Iterable[tuple[str, int]], own: tuple[Path, Path] | None) -> float:
    """Return the earliest expiry of some servers' certificates (seconds). Servers that do not answer are left out.

    Raises:
        OSError: no server answers.
        ValueError: the certificate of a server cannot be decoded.
    """
    found: list[float] = []
    failure = OSError("no server")
    for host, port in addresses:
        try:
            found.append(read_server(host, port, own))
        except OSError as error:
            failure = error
    if not found:
        raise failure
    return min(found)


class CertificateWatch:
    """A repeated look at the certificates, for one thread. `monotonic` returns seconds.

    A file that cannot be read has no time of expiry. A server that does not answer keeps its last known one.
    """

    def __init__(self, certificates: Certificates, observer: ExpiryObserver, monotonic: Callable[[], float]) -> None:
        self._certificates, self._observer, self._monotonic = certificates, observer, monotonic
        self._files_due = self._servers_due = monotonic()
        self._unreadable: set[str] = set()

    def look(self) -> None:
        """Read the files and ask the servers, if that is due."""
        now = self._monotonic()
        if now >= self._files_due:
            self._files_due = now + FILES_SECONDS
            for name, path in self._certificates.files.items():
                self._observer.set_certificate(name, self._read_file(name, path))
        if now >= self._servers_due:
            self._servers_due = now + SERVERS_SECONDS
            for name, read in self._certificates.servers.items():
                self._ask(name, read)

    def _read_file(self, name: str, path: Path) -> float | None:
        """Return when a file expires; None if it cannot be read, which is logged once."""
        try:
            expires = read_file(path)
        except (OSError, ValueError) as error:
            if name not in self._unreadable:
                log.warning("the time at which %s (%s) expires is not known: %s", name, path, error)
            self._unreadable.add(name)
            return None
        self._unreadable.discard(name)
        return expires

    def _ask(self, name: str, read: Callable[[], float]) -> None:
        try:
            self._observer.set_certificate(name, read())
        except (OSError, ValueError) as error:
            log.debug("the certificate of %s cannot be read now: %s", name, error)
