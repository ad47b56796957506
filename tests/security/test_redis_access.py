"""The Redis rights that the operations page lists are sufficient and necessary, on real servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import redis
from redis.credentials import UsernamePasswordCredentialProvider

from monitor.config.derive_parameters import derive_parameters
from monitor.config.load import load_config
from monitor.config.registry import load_registry
from monitor.errors import StoreError, UnreachableError
from monitor.kinds.facts_and_questions import OffsetRange, Question
from monitor.kinds.parameters import Parameters
from monitor.operate.servers import EmbeddedValkey
from monitor.store.redis_client import RedisAddress, create_client
from monitor.store.redis_store import RedisStore
from tests.security.rights import REDIS_COMMANDS, REDIS_SECRET, list_redis_rules
from tests.store.packed import pack_shard_facts

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
USER = "location-monitor"


def _read_cluster_rules() -> list[str]:
    found = re.search(r"add `((?:\+[a-z|]+ ?)+)`", (ROOT / "docs/operations.md").read_text(encoding="utf-8"))
    assert found is not None
    return found[1].split()


@contextmanager
def _open_user(url: str, rules: list[str]) -> Iterator[redis.Redis]:
    with closing(redis.Redis.from_url(url, decode_responses=True)) as client:
        client.execute_command("ACL", "SETUSER", USER, *rules)  # type: ignore[no-untyped-call]  # redis-py gives it no types
        client.acl_log_reset()
        try:
            yield client
        finally:
            client.acl_deluser(USER)
            client.flushall()


def _use(url: str, parameters: Parameters, *, cluster: bool) -> None:
    """Use every operation of the store that the service uses."""
    client = create_client(RedisAddress(url, UsernamePasswordCredentialProvider(USER, REDIS_SECRET), cluster))
    windows = RedisStore(parameters, "0123456789abcdef", client)
    row = int(parameters.watched_rows[0])
    shard = int(parameters.registry.shard[row])
    packed = [pack_shard_facts(stamp, {row: [(b"p" * 16, 5)]}, {1_000_000: [(row, b"p" * 16)]}) for stamp in (5, 10**7)]
    try:
        windows.check()
        assert windows.is_empty()
        windows.begin(0, 0, 0)
        windows.write([OffsetRange(0, 0, 1)], {shard: [*packed[0], *packed[1]]})
        assert windows.read_progress()[shard] == {0: 1}
        reading = windows.read({shard: Question(((0, [row]),), (1_000_000,))})[shard]
        assert reading.counts[0].tolist() == [1]
        windows.restart(0, 0, 0)
        windows.evict([shard], 1, [999_999], [1_000_000])
    finally:
        windows.close()


def _load_parameters() -> Parameters:
    """Return the parameters of city.yaml. The access list names that service."""
    config = load_config(ROOT / "config/city.yaml", {})
    return derive_parameters(config, load_registry(config.locations.file).ids)


def _list_refused(client: redis.Redis) -> set[str]:
    """Return the refused commands, except for the one that sends the client's name, which does no harm."""
    return {str(entry["object"]) for entry in client.acl_log()} - {"client|setinfo"}


def _refusal(command: str) -> str:
    return rf"refused the command {re.escape(command)} \(NOPERM\): check the permissions of its user"


@pytest.mark.promise(38)
def test_access_list_suffices_on_server(any_redis: str) -> None:
    """With the rights of the operations page the service can use a single server; the server refuses nothing."""
    with _open_user(any_redis, list_redis_rules()) as client:
        _use(any_redis, _load_parameters(), cluster=False)
        assert _list_refused(client) == set()


@pytest.mark.promise(38)
def test_access_list_suffices_on_cluster(valkey_cluster: EmbeddedValkey) -> None:
    """With the additional rights for a cluster the service can use a cluster; the cluster refuses nothing."""
    with _open_user(valkey_cluster.url, [*list_redis_rules(), *_read_cluster_rules()]) as client:
        _use(valkey_cluster.url, _load_parameters(), cluster=True)
        assert _list_refused(client) == set()


@pytest.mark.promise(38)
def test_each_listed_command_is_needed(any_redis: str) -> None:
    """Without any one command of the list the service fails, and the error names the command.

    Only `replay` fails after facts have been written.
    """
    parameters = _load_parameters()
    assert len(REDIS_COMMANDS) > 15
    for command in REDIS_COMMANDS:
        with _open_user(any_redis, [*list_redis_rules(), f"-{command}"]) as client:
            with pytest.raises(
                StoreError, match=rf"refused the command {command} \(NOPERM\): check the permissions of its user"
            ):
                _use(any_redis, parameters, cluster=False)
            assert command == "scan" or not client.keys(), command


def test_missing_key_right_is_named(any_redis: str) -> None:
    """If the user may not access the service's keys, the error says that a key was refused, and what to check."""
    with (
        _open_user(any_redis, [*list_redis_rules(), "resetkeys", "~{town:*"]),
        pytest.raises(StoreError, match=r"refused a key of this service \(NOPERM\): check the permissions of its user"),
    ):
        _use(any_redis, _load_parameters(), cluster=False)


@pytest.mark.parametrize("command", ["command", "cluster|slots"])
def test_each_cluster_command_is_needed(valkey_cluster: EmbeddedValkey, command: str) -> None:
    """A cluster refuses the service without these commands.

    `asking` is not checked: it is for keys that move to another node, and this cluster has one node.
    """
    more = _read_cluster_rules()
    assert f"+{command}" in more
    rules = [rule for rule in more if rule != f"+{command}"]
    with (
        _open_user(valkey_cluster.url, [*list_redis_rules(), *rules]),
        pytest.raises(StoreError, match=_refusal(command)),
    ):
        _use(valkey_cluster.url, _load_parameters(), cluster=True)


def test_wrong_cluster_password_is_named(valkey_cluster: EmbeddedValkey) -> None:
    """If a cluster refuses the password, the error says that it requires a user and a password."""
    with (
        _open_user(valkey_cluster.url, list_redis_rules()),
        pytest.raises(UnreachableError, match="it requires a user and a passw"),
    ):
        create_client(RedisAddress(valkey_cluster.url, UsernamePasswordCredentialProvider(USER, "wrong"), cluster=True))
