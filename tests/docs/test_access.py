"""The access list that the operations page gives suffices, and no command of it can be spared, on real servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from monitor.config import load_config, load_registry
from monitor.config.derive_parameters import derive_parameters
from monitor.errors import UnreachableError, WindowsError
from monitor.public.parameters import Parameters
from monitor.tools.embedded import EmbeddedValkey
from monitor.windows.facts import Question, Span
from monitor.windows.packing import pack_shard_facts
from monitor.windows.redis_client import RedisAddress, redis_client
from monitor.windows.redis_store import RedisWindows
from tests.security.rights import REDIS_COMMANDS, REDIS_SECRET, redis_rules

USER = "location-monitor"


def _more_for_a_cluster(named: dict[str, Any]) -> list[str]:
    found = re.search(r"add `((?:\+[a-z|]+ ?)+)`", named["docs/operations.md"].text)
    assert found is not None
    return found[1].split()


@contextmanager
def _user(url: str, rules: list[str]) -> Iterator[redis.Redis]:
    with closing(redis.Redis.from_url(url, decode_responses=True)) as client:
        client.execute_command("ACL", "SETUSER", USER, *rules)  # type: ignore[no-untyped-call]  # redis-py gives it no types
        client.acl_log_reset()
        try:
            yield client
        finally:
            client.acl_deluser(USER)
            client.flushall()


def _use(url: str, parameters: Parameters, *, cluster: bool) -> None:
    """Everything that the service asks of its store."""
    client = redis_client(RedisAddress(url, USER, REDIS_SECRET, None, cluster))
    windows = RedisWindows(parameters, "0123456789abcdef", client)
    row = int(parameters.watched_rows[0])
    shard = int(parameters.registry.shard[row])
    facts = [pack_shard_facts(stamp, {row: [(b"p" * 16, 5)]}, {1_000_000: [(row, b"p" * 16)]}) for stamp in (5, 10**7)]
    try:
        windows.check()
        assert windows.is_empty()
        windows.begin(0, 0, 0)
        windows.write([Span(0, 0, 1)], {shard: facts})
        assert windows.progress()[shard] == {0: 1}
        reading = windows.read({shard: Question(((row, 0),), (1_000_000,))})[shard]
        assert reading.counts == {(row, 0): 1}
        windows.restart(0, 0, 0)
        windows.evict([shard], 1, [999_999], [1_000_000])
    finally:
        windows.close()


def _parameters(root: Path) -> Parameters:
    """That of city.yaml, whose name the access list has."""
    config = load_config(root / "config/city.yaml", {})
    return derive_parameters(config, load_registry(config.locations.file))


def _refused(client: redis.Redis) -> set[str]:
    """What was refused but for the client's telling its name, which is said to be of no consequence."""
    return {str(entry["object"]) for entry in client.acl_log()} - {"client|setinfo"}


def _refusal(command: str) -> str:
    return rf"refused the command {re.escape(command)} \(NOPERM\): check the permissions of its user"


@pytest.mark.promise(38)
def test_the_access_list_suffices_on_one_server(root: Path, any_redis: str) -> None:
    with _user(any_redis, redis_rules()) as client:
        _use(any_redis, _parameters(root), cluster=False)
        assert _refused(client) == set()


@pytest.mark.promise(38)
def test_with_what_is_added_it_suffices_on_a_cluster(
    named: dict[str, Any], root: Path, valkey_cluster: EmbeddedValkey
) -> None:
    with _user(valkey_cluster.url, [*redis_rules(), *_more_for_a_cluster(named)]) as client:
        _use(valkey_cluster.url, _parameters(root), cluster=True)
        assert _refused(client) == set()


@pytest.mark.promise(38)
def test_no_command_of_the_access_list_can_be_spared_and_each_is_named_where_it_lacks(
    root: Path, any_redis: str
) -> None:
    """One at a time; and all but those for transactions and `replay` are missed before anything is done."""
    parameters, late = _parameters(root), {"multi", "exec", "scan"}
    assert len(REDIS_COMMANDS) > 15
    for command in REDIS_COMMANDS:
        with _user(any_redis, [*redis_rules(), f"-{command}"]) as client:
            with pytest.raises(
                WindowsError, match=rf"refused the command {command} \(NOPERM\): check the permissions of its user"
            ):
                _use(any_redis, parameters, cluster=False)
            assert command in late or not client.keys(), command


def test_keys_that_are_not_granted_are_said_to_be(root: Path, any_redis: str) -> None:
    with (
        _user(any_redis, [*redis_rules(), "resetkeys", "~{town:*"]),
        pytest.raises(
            WindowsError, match=r"refused a key of this service \(NOPERM\): check the permissions of its user"
        ),
    ):
        _use(any_redis, _parameters(root), cluster=False)


@pytest.mark.parametrize("command", ["command", "cluster|slots"])
def test_what_is_added_for_a_cluster_is_needed_there(
    named: dict[str, Any], root: Path, valkey_cluster: EmbeddedValkey, command: str
) -> None:
    """`asking` is for keys that move to another node; this cluster has one."""
    more = _more_for_a_cluster(named)
    assert f"+{command}" in more
    rules = [rule for rule in more if rule != f"+{command}"]
    with (
        _user(valkey_cluster.url, [*redis_rules(), *rules]),
        pytest.raises(WindowsError, match=_refusal(command)),
    ):
        _use(valkey_cluster.url, _parameters(root), cluster=True)


def test_a_cluster_that_refuses_the_password_says_so(valkey_cluster: EmbeddedValkey) -> None:
    with (
        _user(valkey_cluster.url, redis_rules()),
        pytest.raises(UnreachableError, match="it requires a user and a passw"),
    ):
        redis_client(RedisAddress(valkey_cluster.url, USER, "wrong", None, cluster=True))
