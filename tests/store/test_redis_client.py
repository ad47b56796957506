"""Connections to servers and clusters, and their errors: transient or permanent, without commands and credentials."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
import redis
from redis import exceptions
from redis.cluster import RedisCluster
from redis.credentials import UsernamePasswordCredentialProvider

from monitor.errors import FailedError, StoreError, UnreachableError
from monitor.kinds.facts_and_questions import OffsetRange
from monitor.kinds.parameters import Parameters
from monitor.operate.servers import EmbeddedValkey, ValkeySettings
from monitor.operate.servers.ports import LOOPBACK
from monitor.store.redis_client import (
    RedisAddress,
    create_client,
    describe_client,
    find_error_code,
    read_server_time,
    translate_error,
)
from monitor.store.redis_store import RedisStore
from tests.store.packed import pack_shard_facts

ANN = b"a" * 16
COMMAND = "Command # 3 (ZADD {tokyo:f:2}:w:17 GT 5 secret) of pipeline caused error: "
ERRORS: list[tuple[Exception, type[FailedError], str]] = [
    (exceptions.OutOfMemoryError(f"{COMMAND}command not allowed"), UnreachableError, "out of memory"),
    (exceptions.ReadOnlyError(f"{COMMAND}You can't write"), UnreachableError, "replica"),
    (exceptions.ResponseError(f"{COMMAND}MISCONF Redis is"), UnreachableError, "cannot save"),
    (exceptions.ResponseError("NOREPLICAS Not enough"), UnreachableError, "replicas"),
    (exceptions.ResponseError("BUSY Redis is busy"), UnreachableError, "busy"),
    (exceptions.ClusterError("TTL exhausted."), UnreachableError, "moving"),
    (AttributeError("'NoneType' object has no attribute 'redis_connection'"), UnreachableError, "moving"),
    (exceptions.ResponseError("LOST a key of this shard is missing"), UnreachableError, "lacks keys"),
    (exceptions.BusyLoadingError("Redis is loading"), UnreachableError, "loading"),
    (exceptions.MasterDownError("Link with MASTER"), UnreachableError, "lost its primary"),
    (exceptions.ClusterDownError("Hash slot"), UnreachableError, "cluster is down"),
    (exceptions.TryAgainError("Multiple keys"), UnreachableError, "moving"),
    (exceptions.MovedError("3999 127.0.0.1:6381"), UnreachableError, "moved"),
    (exceptions.AuthenticationError("secret"), UnreachableError, "password"),
    (exceptions.TimeoutError("secret"), UnreachableError, "did not answer within 5 s"),
    (
        exceptions.TimeoutError("Timeout connecting to server"),
        UnreachableError,
        "whether the port uses TLS (rediss://)",
    ),
    (
        exceptions.ResponseError("DENIED Redis is running in protected mode"),
        UnreachableError,
        "is in protected mode, in",
    ),
    (exceptions.ConnectionError("redis://:secret@host"), UnreachableError, "it closed the connection: if this lasts"),
    (exceptions.ConnectionError("Error 111 connecting. Connection refused."), UnreachableError, "nothing listens"),
    (
        exceptions.ConnectionError("Error -2. Name or service not known."),
        UnreachableError,
        "host name: check redis.url",
    ),
    (ConnectionResetError("secret"), UnreachableError, "cannot be reached"),
    (exceptions.RedisClusterException("secret"), UnreachableError, "RedisClusterException"),
    (exceptions.NoPermissionError(f"{COMMAND}no"), StoreError, "NOPERM"),
    (exceptions.ResponseError("The user executing the script can't run this command"), StoreError, "of a script"),
    (
        exceptions.ResponseError("ACL failure in script: u has no permissions to run the 'zadd' command"),
        StoreError,
        "command zadd",
    ),
    (exceptions.ResponseError(f"{COMMAND}ERR unknown command 'secret'"), StoreError, "ERR"),
    (exceptions.ResponseError("secret"), StoreError, "ResponseError"),
]


@pytest.mark.parametrize(("error", "kind", "text"), ERRORS)
def test_translate_error(error: Exception, kind: type[FailedError], text: str) -> None:
    """An error is translated without the command that was sent."""
    translated = translate_error(error, "Redis at host:6379")
    assert type(translated) is kind
    assert str(translated).startswith("Redis at host:6379")
    assert text in str(translated)
    for hidden in ("secret", "ZADD", "tokyo"):
        assert hidden not in str(translated)


def test_wrong_type_code() -> None:
    """The code WRONGTYPE is found inside and outside a pipeline."""
    assert find_error_code(exceptions.ResponseError("WRONGTYPE Operation against a key")) == "WRONGTYPE"
    assert find_error_code(exceptions.ResponseError(f"{COMMAND}WRONGTYPE Operation against a key")) == "WRONGTYPE"


@pytest.mark.promise(23)
def test_description_without_credentials() -> None:
    """The description of a client has no credentials."""
    client = create_client(RedisAddress("redis://someone:secret@10.0.0.7:7000/2"))
    assert describe_client(client) == "Redis at 10.0.0.7:7000"
    assert describe_client(create_client(RedisAddress("unix:///run/redis.sock"))) == "Redis at /run/redis.sock"


def test_description_of_a_cluster(valkey_cluster: EmbeddedValkey) -> None:
    """The description of a cluster lists its nodes."""
    client = create_client(RedisAddress(valkey_cluster.url, cluster=True))
    assert isinstance(client, RedisCluster)
    assert describe_client(client) == f"Redis cluster {valkey_cluster.url.removeprefix('redis://').removesuffix('/0')}"
    client.close()


def test_sentinels_that_name_no_primary() -> None:
    """If no Sentinel names a primary, the error says which settings to check, without credentials."""
    address = RedisAddress("redis://someone:secret@town/0", sentinels=("127.0.0.1:9", "[::1]:9"))
    with closing(create_client(address)) as client:
        assert describe_client(client) == "Redis primary town, by Sentinel"
        with pytest.raises(UnreachableError, match=r"by Sentinel: no Sentinel names a primary: check redis\.sentinels"):
            read_server_time(client)


def test_time_limits() -> None:
    """Connections and responses have time limits, also of Sentinels.

    Only a command whose connection was lost is sent once more.
    """
    primary: Any = create_client(RedisAddress("redis://town", sentinels=("sentinel:1",)))
    for client in (create_client(RedisAddress("redis://host")), *primary.connection_pool.sentinel_manager.sentinels):
        options = client.get_connection_kwargs()
        assert (options["socket_timeout"], options["socket_connect_timeout"]) == (5.0, 2.0)
        for error, calls in ((exceptions.ConnectionError, 2), (exceptions.TimeoutError, 1)):
            command = Mock(side_effect=error)
            with pytest.raises(error):
                options["retry"].call_with_retry(command, Mock())
            assert command.call_count == calls, error


def test_socket_of_the_file_system(valkey: EmbeddedValkey, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A server is reached by `unix://`, and a socket that does not exist is named as the reason."""
    del valkey  # it skips the test where no server is available
    path = tmp_path_factory.mktemp("s") / "socket"
    with closing(create_client(RedisAddress(f"unix://{path}"))) as client:
        with EmbeddedValkey(ValkeySettings(arguments=("--unixsocket", str(path)))):
            assert client.ping()
        with pytest.raises(UnreachableError, match=r"there is no such socket: check redis\.url"):
            read_server_time(client)


def test_replica(valkey: EmbeddedValkey, open_windows: Callable[..., RedisStore]) -> None:
    """A replica is refused, and the error names the cause."""
    port = valkey.url.removesuffix("/0").rpartition(":")[2]
    with EmbeddedValkey(ValkeySettings(arguments=("--replicaof", LOOPBACK, port))) as replica:
        windows = open_windows(replica)
        with pytest.raises(UnreachableError, match="replica"):
            windows.write([OffsetRange(0, 0, 10)], {0: pack_shard_facts(5, seen={0: [(ANN, 5)]})})
        with pytest.raises(UnreachableError, match="replica"):
            windows.begin(0, 0, 0)


def test_server_restart(open_windows: Callable[..., RedisStore]) -> None:
    """A stopped server is unreachable, and works after a restart."""
    with EmbeddedValkey(ValkeySettings(appendonly=True)) as server:
        windows = open_windows(server)
        windows.begin(0, 0, 0)
        windows.write([OffsetRange(0, 0, 10)], {})
        server.restart()
        assert windows.write([OffsetRange(0, 10, 20)], {}) == {0: 20}
        server.stop()
        with pytest.raises(UnreachableError, match="cannot be reached"):
            windows.write([OffsetRange(0, 20, 30)], {})
        with pytest.raises(UnreachableError, match="cannot be reached"):
            windows.check()
        with pytest.raises(UnreachableError, match="cannot be reached"):
            windows.is_empty()


@pytest.mark.servers
def test_stopped_cluster() -> None:
    """A stopped cluster is unreachable."""
    with EmbeddedValkey(ValkeySettings(cluster=True)) as server:
        url = server.url
    with pytest.raises(UnreachableError, match="Redis cluster"):
        create_client(RedisAddress(url, cluster=True))


def test_wrong_password(parameters: Parameters) -> None:
    """The error of a wrong password does not contain the password."""
    with EmbeddedValkey(ValkeySettings(arguments=("--requirepass", "the-right-one"))) as server:
        wrong, right = "hunter2", "the-right-one"
        address = RedisAddress(server.url, UsernamePasswordCredentialProvider(password=wrong))
        windows = RedisStore(parameters, "f" * 16, create_client(address))
        with pytest.raises(UnreachableError, match="refused them") as refusal:
            windows.check()
        windows.close()
        assert wrong not in "".join(traceback.format_exception(refusal.value))
        assert wrong not in repr(address)
        windows = RedisStore(
            parameters,
            "f" * 16,
            create_client(replace(address, credentials=UsernamePasswordCredentialProvider(password=right))),
        )
        windows.check()
        windows.close()


def test_missing_permission(parameters: Parameters, valkey: EmbeddedValkey) -> None:
    """The error of a missing permission names the command without its arguments."""
    firsts = [int(rows[0]) for rows in parameters.registry.by_shard]
    facts = {shard: pack_shard_facts(5, seen={row: [(ANN, 5)]}) for shard, row in enumerate(firsts)}
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
        client.acl_setuser(
            "reader", enabled=True, passwords=["+secret"], categories=["+@all"], commands=["-zadd"], keys=["*"]
        )
        windows = RedisStore(
            parameters,
            "f" * 16,
            create_client(RedisAddress(valkey.url, UsernamePasswordCredentialProvider("reader", "secret"))),
        )
        with pytest.raises(StoreError, match="NOPERM") as refusal:
            windows.begin(0, 0, 0)
        with closing(RedisStore(parameters, "f" * 16, create_client(RedisAddress(valkey.url)))) as permitted:
            permitted.begin(0, 0, 0)
        with pytest.raises(StoreError, match="NOPERM"):
            windows.write([OffsetRange(0, 0, 10)], facts)
        assert windows.read_progress() == [{0: 0}] * 4
        windows.close()
        client.acl_deluser("reader")
    assert "aaaa" not in "".join(traceback.format_exception(refusal.value))
