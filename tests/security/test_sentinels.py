"""Sentinels that require TLS, client certificates and a password of their own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import pytest

from monitor.config.load import load_config
from monitor.errors import UnreachableError
from monitor.operate.servers import EmbeddedValkey, ValkeySettings
from monitor.operate.servers.ports import LOOPBACK, ReservedPort
from monitor.service.wiring import build_redis_address
from monitor.store.redis_client import RedisAddress, create_client, read_server_time
from tests.kit.waiting import until
from tests.security.guarded import Certificates, write_configuration

pytestmark = pytest.mark.long

_SECRETS: Final = ("planted-for-redis", "planted-for-sentinels")


class Server(EmbeddedValkey):
    """Debian's Redis with TLS on `tls_port` and a password; with `watched`, a Sentinel of the primary on that port."""

    def __init__(self, certificates: Certificates, password: str, watched: int | None = None) -> None:
        self._tls, self._watched = ReservedPort(), watched
        self.tls_port = self._tls.number
        certificate, key = certificates.of("server")
        tls = {"cert-file": certificate, "key-file": key, "ca-cert-file": certificates.authority, "replication": "yes"}
        options = {f"tls-{name}": value for name, value in tls.items()} | {"requirepass": password}
        self._options = options | {"tls-port": str(self.tls_port)}
        super().__init__(ValkeySettings(binary=Path(str(shutil.which("redis-server"))), arguments=self._arguments))

    @property
    def _arguments(self) -> tuple[str, ...]:
        return tuple(word for name, value in self._options.items() for word in (f"--{name}", value))

    def _prepare(self) -> None:
        if self._watched is not None:
            lines = (f"monitor town {LOOPBACK} {self._watched} 1", f"auth-pass town {_SECRETS[0]}")
            text = "".join(f"sentinel {line}\n" for line in lines)
            (self.folder / "sentinel.conf").write_text(text, encoding="utf-8")

    def _make_command(self) -> list[str]:
        binary, *options = super()._make_command()
        if self._watched is None:
            return [binary, *options]
        port = ("--port", str(self._ports["client"].number), "--bind", LOOPBACK, "--dir", str(self.folder))
        return [binary, str(self.folder / "sentinel.conf"), "--sentinel", *port, *self._arguments]

    def stop(self) -> None:
        super().stop()
        self._tls.release()


@pytest.fixture
def sentinel(redis_server: EmbeddedValkey, certificates: Certificates) -> Iterator[Server]:
    with ExitStack() as stack:
        primary = stack.enter_context(Server(certificates, _SECRETS[0]))
        yield stack.enter_context(Server(certificates, _SECRETS[1], primary.tls_port))


def test_sentinels_require_a_password(sentinel: Server, certificates: Certificates, tmp_path: Path) -> None:
    """The service finds the primary by Sentinels that require TLS and a password. What they refuse is named."""
    (tmp_path / "sentinel.password").write_text(_SECRETS[1], encoding="utf-8")
    (tmp_path / "empty").touch()
    certificate, key = certificates.of("client")
    usual = {
        "url": "rediss://town/0",
        "password_file": str(tmp_path / "redis.password"),
        "sentinels": [f"{LOOPBACK}:{sentinel.tls_port}"],
        "sentinel_password_file": str(tmp_path / "sentinel.password"),
        "ca_file": certificates.authority,
        "certificate_file": certificate,
        "key_file": key,
    }

    def find(**changes: Any) -> RedisAddress:
        kafka = {"bootstrap_servers": ["localhost:9"]}
        return build_redis_address(load_config(write_configuration(tmp_path, kafka, usual | changes), {}))

    until(lambda: isinstance(read(find()), int), 20, "the Sentinel knows that the primary answers")
    files = {"absent": None, "wrong": str(tmp_path / "redis.password"), "empty": str(tmp_path / "empty")}
    refused = [find(sentinel_password_file=file) for file in files.values()]
    nameless = [find(ca_file=certificates.stranger), find(url="rediss://city/0")]
    with ThreadPoolExecutor() as threads:  # each is tried for seconds
        answers = list(threads.map(read, [*refused, *nameless]))
    for answer in answers[: len(refused)]:
        assert "a Sentinel requires a user and a password, or refused them: check redis.sentinel" in str(answer)
    for answer in answers[len(refused) :]:
        assert "no Sentinel names a primary: check redis.sentinels, their certificates" in str(answer)


def read(address: RedisAddress) -> int | str:
    """Return the primary's time, or the error."""
    try:
        with closing(create_client(address)) as client:
            return read_server_time(client)
    except UnreachableError as error:
        return str(error)
