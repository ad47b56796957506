"""Windows in Redis or Valkey: sets of facts with their progress, one transaction a shard (runtime, section 3).

Data is written and read by plain commands, grouped by key, in a MULTI whose last command is a script: it lets progress
follow, or tells it. All else is a script alone, which is a transaction too. Scripts are sent as their text each time
(EVAL), so that a SCRIPT FLUSH changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any, Final

import numpy as np
from redis.cluster import RedisCluster

from monitor.errors import EvictionError, WindowsError
from monitor.scheme import Scheme
from monitor.times import SECOND
from monitor.windows.facts import NEVER, SINCE_EVER, Question, Reading, ShardFacts, Span
from monitor.windows.keys import PROGRESS, Keys, service_pattern
from monitor.windows.members import count_members
from monitor.windows.redis_client import REFUSALS, Client, cluster_nodes, error_code, failure, passes, where

Command = tuple[Any, ...]
"""One command of a transaction, as redis-py takes it: the name, then strings, bytes and integers."""

_LEAST_EXPIRY: Final = 3_600
_CHUNK: Final = 10_000  # members to a command: a server is busy with one for a few milliseconds at most


@cache
def _script(name: str) -> str:
    return files("monitor.windows").joinpath(f"{name}.lua").read_text(encoding="utf-8")


def _eval(script: str, keys: Sequence[str], *arguments: str | int) -> Command:
    return ("EVAL", _script(script), len(keys), *keys, *arguments)


class RedisWindows:
    """`Windows` in Redis, Valkey or a Redis Cluster; thread-safe, as its client is.

    On one server all shards share a transaction, and so a round trip; on a cluster each shard has its own. Needs
    Valkey, or Redis 7.
    """

    def __init__(self, scheme: Scheme, fingerprint: str, client: Client) -> None:
        self._name = scheme.name
        self._keys = Keys(scheme.name, fingerprint)
        self._rows = scheme.registry.by_shard
        self._all = range(scheme.registry.shards)
        watched = scheme.watched_rows
        self._watched = [[int(row) for row in np.intersect1d(watched, rows)] for rows in self._rows]
        # Twice what may be asked about, from F slots ahead on: one that just fits would let a jump of Redis's clock
        # delete live facts. The scripts keep facts twice as long as the progress that claims them.
        self._expiry = max(_LEAST_EXPIRY, 2 * (scheme.lookback + scheme.ahead) * scheme.slots.length // SECOND)
        self._client = client

    def progress(self) -> list[dict[int, int]]:
        """By shard: the next offset by input partition, for those that were begun."""
        replies = self._run({shard: _eval("read", [self._keys.meta(shard)]) for shard in self._all})
        return [_progress(_fields(replies[shard][0])) for shard in self._all]

    def begin(self, partition: int, offset: int, since: int) -> None:
        """Where a shard has no progress for the partition, start at an offset and raise its `since`, in one step."""
        self._place("begin", partition, offset, since)

    def restart(self, partition: int, offset: int, since: int) -> None:
        """Set the partition's progress in every shard, also back, and raise `since`, in one step."""
        self._place("restart", partition, offset, since)

    def _place(self, script: str, partition: int, offset: int, since: int) -> None:
        arguments = (f"{PROGRESS}{partition}", offset, since, self._expiry)
        self._run({shard: _eval(script, [self._keys.meta(shard)], *arguments) for shard in self._all})

    def write(self, spans: Sequence[Span], facts: Mapping[int, ShardFacts]) -> dict[int, int]:
        """Add a batch's facts and advance each shard's progress, in one transaction a shard.

        Returns, by partition, the lowest progress of all shards afterwards, -1 where one has none.
        """
        nothing = ShardFacts()
        replies = self._transact({shard: self._writing(shard, spans, facts.get(shard, nothing)) for shard in self._all})
        lowest = np.array([replies[shard][-1] for shard in self._all]).astype(np.int64).min(axis=0).tolist()
        return {span.partition: reached for span, reached in zip(spans, lowest, strict=True)}

    def _writing(self, shard: int, spans: Sequence[Span], facts: ShardFacts) -> list[Command]:
        windows = {self._keys.window(shard, row): seen for row, seen in facts.seen.items() if seen[0]}
        times = {self._keys.time(shard, instant): members for instant, members in facts.present.items() if members}
        advance = [part for span in spans for part in (f"{PROGRESS}{span.partition}", span.start, span.end)]
        keys = [self._keys.meta(shard), *windows, *times]
        return [
            *(command for key, seen in windows.items() for command in _zadds(key, *seen)),
            *(("SADD", key, *chunk) for key, members in times.items() for chunk in _chunks(members)),
            _eval("progress", keys, self._expiry, len(windows), *advance),
        ]

    def read(self, questions: Mapping[int, Question]) -> dict[int, Reading]:
        """By shard, everything that a tick needs, read together."""
        replies = self._transact({shard: self._asking(shard, question) for shard, question in questions.items()})
        return {shard: self._reading(shard, question, replies[shard]) for shard, question in questions.items()}

    def _asking(self, shard: int, question: Question) -> list[Command]:
        return [
            *(("ZCOUNT", self._keys.window(shard, row), first, "+inf") for row, first in question.windows),
            *(("SMEMBERS", self._keys.time(shard, instant)) for instant in question.times),
            _eval("read", [self._keys.meta(shard)]),
        ]

    def _reading(self, shard: int, question: Question, replies: list[Any]) -> Reading:
        *data, (meta, (seconds, microseconds)) = replies
        counts, members = data[: len(question.windows)], data[len(question.windows) :]
        fields = _fields(meta)
        return Reading(
            progress=_progress(fields),
            since=int(fields.get("since", SINCE_EVER)),
            trimmed=int(fields.get("trimmed", SINCE_EVER)),
            dropped=int(fields.get("dropped", NEVER)),
            time=int(seconds) * SECOND + int(microseconds),
            counts=dict(zip(question.windows, counts, strict=True)),
            present={
                instant: count_members(found, self._rows[shard])
                for instant, found in zip(question.times, members, strict=True)
            },
        )

    def tidy(self, shards: Sequence[int], trim_before: int, drop: Sequence[int], keep: Sequence[int]) -> None:
        """Cut off what lies before a slot, drop designated times, and renew the expiry of the rest."""
        dropped = [len(drop), trim_before, *([max(drop)] if drop else [])]
        work: dict[int, Command] = {}
        for shard in shards:
            windows = [self._keys.window(shard, row) for row in self._watched[shard]]
            times = [self._keys.time(shard, instant) for instant in (*drop, *keep)]
            keys = [self._keys.meta(shard), *windows, *times]
            work[shard] = _eval("tidy", keys, self._expiry, len(windows), *dropped)
        self._run(work)

    def empty(self) -> bool:
        """Whether the store holds nothing under this service's name, of any fingerprint."""
        with self._plainly():
            found = self._client.scan_iter(match=service_pattern(self._name), count=1_000)
            return next(iter(found), None) is None

    def check(self) -> None:
        """See that the store is there, evicts nothing, and lets this user run every command that is needed.

        A state that passes (a replica, no memory) is left to whoever writes: counting may go on in it.

        Raises:
            EvictionError: if a server's `maxmemory-policy` is other than `noeviction`.
            WindowsError: if a command, or these keys, are not granted.
        """
        with self._plainly():
            self._client.ping()
            policies = _eviction_policies(self._client)
            told = self._execute([_eval("rights", [self._keys.rights])], transaction=False)[0]
        if isinstance(told, Exception) and not passes(told):
            raise failure(told, where(self._client))
        for place, policy in policies.items():
            if policy != "noeviction":
                raise EvictionError(
                    f"{place}: maxmemory-policy is {policy}: expected noeviction, for a fact that is evicted makes a "
                    'false "safe". Run `CONFIG SET maxmemory-policy noeviction` there, and set it in the server\'s '
                    "configuration file."
                )

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    def _transact(self, work: Mapping[int, Sequence[Command]]) -> dict[int, list[Any]]:
        """Run each shard's commands in a transaction; replies by shard.

        Raises:
            UnreachableError: if a transaction was refused, or its outcome is not known.
            WindowsError: if a key holds what is not ours.
        """
        with self._plainly():
            if isinstance(self._client, RedisCluster):
                replies = {shard: self._execute(commands) for shard, commands in work.items()}
            else:
                together = iter(self._execute(chain.from_iterable(work.values())))
                replies = {shard: [next(together) for _ in commands] for shard, commands in work.items()}
        for shard, answered in replies.items():
            self._accept(shard, answered)
        return replies

    def _execute(self, commands: Iterable[Command], *, transaction: bool = True) -> list[Any]:
        with self._client.pipeline(transaction=transaction) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return pipeline.execute(raise_on_error=False)

    def _run(self, work: Mapping[int, Command]) -> dict[int, Any]:
        """Run a script for each shard, which needs no MULTI (and Redis 7 refuses any MULTI when out of memory).

        Raises:
            UnreachableError: if one did not run, or its outcome is not known.
            WindowsError: if a key holds what is not ours.
        """
        with self._plainly():
            replies = dict(zip(work, self._execute(work.values(), transaction=False), strict=True))
        for shard, reply in replies.items():
            self._accept(shard, [reply])
        return replies

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        try:
            yield
        except REFUSALS as error:
            raise failure(error, where(self._client)) from None

    def _accept(self, shard: int, replies: Sequence[Any]) -> None:
        """See that no command failed. One that failed for good is taken for a fact that is missing.

        Then the shard's progress is dropped, so that nothing is claimed, also after someone deletes a foreign key.
        """
        error = next((reply for reply in replies if isinstance(reply, Exception)), None)
        if error is None:
            return
        if passes(error):
            raise failure(error, where(self._client))
        with self._plainly():
            dropped = self._execute([_eval("forget", [self._keys.meta(shard)], PROGRESS)], transaction=False)[0]
        if isinstance(dropped, Exception):
            raise failure(dropped, where(self._client))
        if error_code(error) != "WRONGTYPE":
            raise failure(error, where(self._client))
        tag = self._keys.tag(shard)
        raise WindowsError(
            f"{where(self._client)}: a key that begins with {tag} holds what is not ours, so facts are missing: "
            f"expected only what this service writes. Delete all keys that begin with {tag}; the facts are read again "
            "from the input."
        )


def _zadds(key: str, persons: list[bytes], slots: list[int]) -> Iterator[Command]:
    for begin in range(0, len(persons), _CHUNK):
        end = begin + _CHUNK
        pairs = zip(slots[begin:end], persons[begin:end], strict=True)
        yield ("ZADD", key, "GT", *chain.from_iterable(pairs))


def _chunks(members: list[bytes]) -> Iterator[list[bytes]]:
    for begin in range(0, len(members), _CHUNK):
        yield members[begin : begin + _CHUNK]


def _fields(flat: Sequence[bytes]) -> dict[str, str]:
    texts = [text.decode() for text in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _progress(fields: Mapping[str, str]) -> dict[int, int]:
    begun = ((field.removeprefix(PROGRESS), offset) for field, offset in fields.items() if field.startswith(PROGRESS))
    return {int(partition): int(offset) for partition, offset in begun}


def _eviction_policies(client: Client) -> dict[str, str]:
    if isinstance(client, RedisCluster):
        servers = {node.name: client.get_redis_connection(node) for node in cluster_nodes(client)}
        return {f"Redis at {name}": server.info("memory")["maxmemory_policy"] for name, server in servers.items()}
    return {where(client): client.info("memory")["maxmemory_policy"]}
