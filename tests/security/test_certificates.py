"""When certificates expire: of files, and of a real Kafka and Redis with TLS. The certificates are created here."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from monitor.config import load_valid_config
from monitor.observe.metrics import Metrics
from monitor.service.certificates import (
    FILES_SECONDS,
    SERVERS_SECONDS,
    CertificateWatch,
    list_certificates,
    read_expiry,
    read_file,
    read_server,
)
from monitor.tools.servers import EmbeddedKafka
from monitor.tools.servers.ports import LOOPBACK
from tests.security.conftest import Certificates, GuardedRedis

METRIC = "location_monitor_certificate_expiry_timestamp_seconds"
SOON = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
TIMES = [datetime(1999, 12, 31, tzinfo=UTC), datetime(2049, 12, 31, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC), SOON]


def issue(expires: datetime) -> tuple[bytes, bytes]:
    """Return a certificate that signs itself and expires then, and its key, both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "planted")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7).not_valid_before(expires - timedelta(days=400))
    certificate = builder.not_valid_after(expires).sign(key, hashes.SHA256())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), secret


def decode_expiry(path: str) -> float:
    """Return when the first certificate of a file expires, by another library."""
    found = x509.load_pem_x509_certificates(Path(path).read_bytes())
    return min(certificate.not_valid_after_utc for certificate in found).timestamp()


@dataclass
class Watched:
    """A watch of a configuration's certificates with its metrics. `now` is its clock."""

    config: Path
    now: float = 0.0
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        certificates = list_certificates(load_valid_config(self.config, {}).config)
        self.watch = CertificateWatch(certificates, self.metrics, lambda: self.now)

    def look(self) -> dict[str, float]:
        """Return the series after a look."""
        self.watch.look()
        families = (family for family in self.metrics.registry.collect() if family.name == METRIC)
        return {sample.labels["certificate"]: sample.value for family in families for sample in family.samples}


@pytest.mark.parametrize("expires", TIMES, ids=str)
def test_expiry_is_decoded(expires: datetime) -> None:
    """The time of expiry is the one in the certificate, in both forms of times; a part of a certificate is refused."""
    certificate, _ = issue(expires)
    der = ssl.PEM_cert_to_DER_cert(certificate.decode())
    assert read_expiry(der) == expires.timestamp()
    for length in range(0, len(der), 7):
        with pytest.raises(ValueError, match="the certificate is cut off"):
            read_expiry(der[:length])


def test_first_certificate_of_a_file_counts(tmp_path: Path) -> None:
    """Of several certificates, the first to expire counts; text between them, and keys, are ignored."""
    authority = trustme.CA()
    leaf = authority.issue_cert(LOOPBACK, not_after=datetime(2030, 1, 2, tzinfo=UTC))
    several = b"# ours\n".join([authority.cert_pem.bytes(), leaf.private_key_and_cert_chain_pem.bytes()])
    (tmp_path / "several.pem").write_bytes(several)
    assert read_file(tmp_path / "several.pem") == datetime(2030, 1, 2, tzinfo=UTC).timestamp()
    (tmp_path / "none.pem").write_bytes(leaf.private_key_pem.bytes())
    with pytest.raises(ValueError, match="no certificate in PEM"):
        read_file(tmp_path / "none.pem")


def test_servers_and_files_are_watched(
    mutual_kafka: EmbeddedKafka,
    guarded_redis: GuardedRedis,
    certificates: Certificates,
    configure: Callable[..., Path],
    tmp_path: Path,
) -> None:
    """Each configured file and each server with TLS has its series, with the time that another library decodes."""
    certificate, key = certificates.of("client")
    kafka = {
        "bootstrap_servers": [f"{LOOPBACK}:1", mutual_kafka.secure_bootstrap_servers],  # the first does not answer
        "security_protocol": "SSL",
        "ca_file": certificates.authority,
        "certificate_file": certificate,
        "key_file": key,
    }
    redis = {"url": guarded_redis.url, "ca_file": certificates.authority}
    server = decode_expiry(certificates.of("server")[0])
    assert Watched(configure(tmp_path, kafka, redis)).look() == {
        "kafka_ca_file": decode_expiry(certificates.authority),
        "kafka_certificate_file": decode_expiry(certificate),
        "kafka_server": server,
        "redis_ca_file": decode_expiry(certificates.authority),
        "redis_server": server,
    }


def test_no_tls_has_no_series(configure: Callable[..., Path], tmp_path: Path) -> None:
    """Without TLS there is no series, and nothing is asked."""
    config = configure(tmp_path, {"bootstrap_servers": [f"{LOOPBACK}:1"]}, {"url": f"redis://{LOOPBACK}:1/0"})
    assert Watched(config).look() == {}


def test_files_are_read_again(configure: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A renewed file counts within a minute, without a restart. A file that cannot be read has no series, and a log."""
    file = tmp_path / "authority.pem"
    file.write_bytes(issue(TIMES[0])[0])
    kafka: dict[str, Any] = {"bootstrap_servers": [f"{LOOPBACK}:1"], "security_protocol": "SSL", "ca_file": str(file)}
    watched = Watched(configure(tmp_path / "city", kafka, {"url": f"redis://{LOOPBACK}:1/0"}))
    assert watched.look() == {"kafka_ca_file": TIMES[0].timestamp()}
    file.write_bytes(issue(SOON)[0])
    assert watched.look() == {"kafka_ca_file": TIMES[0].timestamp()}
    watched.now += FILES_SECONDS
    assert watched.look() == {"kafka_ca_file": SOON.timestamp()}
    file.unlink()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            watched.now += FILES_SECONDS
            assert watched.look() == {}
    assert len(caplog.records) == 1
    assert "kafka_ca_file" in caplog.text


@contextmanager
def _serve(folder: Path, expires: datetime) -> Iterator[int]:
    """Serve TLS with a certificate that expires then, and yield the port."""
    certificate, key = issue(expires)
    (folder / "own.pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "own.pem")
    listening = socket.create_server((LOOPBACK, 0))

    def answer() -> None:
        while True:
            try:
                plain, _ = listening.accept()
                with plain, context.wrap_socket(plain, server_side=True) as connection:
                    connection.recv(1)
            except ssl.SSLError:
                continue
            except OSError:
                return

    thread = threading.Thread(target=answer)
    thread.start()
    with closing(listening):
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_expired_server_is_read(tmp_path: Path) -> None:
    """The certificate of a server is read also after it has expired, when nothing can connect any more."""
    with _serve(tmp_path, TIMES[0]) as port:
        assert read_server(LOOPBACK, port) == TIMES[0].timestamp()


def test_silent_server_keeps_the_last_time(configure: Callable[..., Path], tmp_path: Path) -> None:
    """A server is asked every ten minutes. If it does not answer, the last time stays."""
    with _serve(tmp_path, SOON) as port:
        redis = {"url": f"rediss://{LOOPBACK}:{port}/0"}
        watched = Watched(configure(tmp_path / "city", {"bootstrap_servers": [f"{LOOPBACK}:1"]}, redis))
        assert watched.look() == {"redis_server": SOON.timestamp()}
    watched.now += SERVERS_SECONDS
    assert watched.look() == {"redis_server": SOON.timestamp()}
