"""Windows in Redis or Valkey: sets of facts with their progress, one transaction for each shard.

Facts are written by one script for each shard, which unpacks them and lets progress follow. Counts are read by plain
commands in a MULTI that begins with a script, which lets the windows hold what the tick counts. All else is a script
alone, which is a transaction too. Scripts are sent as their text each time (EVAL), so that a SCRIPT FLUSH changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any, Final

import numpy as np
from redis.cluster import RedisCluster

from monitor.errors import EvictionError, WindowsError
from monitor.public.instants import SECOND
from monitor.public.parameters import Parameters
from monitor.windows.facts import COMPLETE_FROM_START, NEVER, Question, Reading, ShardFacts, Span
from monitor.windows.keys import PROGRESS, Keys, service_pattern
from monitor.windows.members import count_members
from monitor.windows.packing import PRESENT, SEEN
from monitor.windows.redis_client import REFUSALS, Client, cluster_nodes, error_code, failure, instant_of, passes, where

Command = tuple[Any, ...]
"""One command of a transaction, as redis-py takes it: the name, then strings, bytes and integers."""

_LEAST_EXPIRY: Final = 3_600
_PORTION: Final = 10_000  # facts that wait together: what is merged at a time is bounded by them
_SHARED: Final = "slots"
_BY_ITSELF: Final = ("read", "forget", "rights")  # scripts that need nothing of what the others share


def _text(name: str) -> str:
    return files("monitor.windows").joinpath(f"{name}.lua").read_text(encoding="utf-8")


@cache
def _script(name: str) -> str:
    """A script's text; what several share stands behind its first line, which has its flags."""
    if name in _BY_ITSELF:
        return _text(name)
    flags, _, text = _text(name).partition("\n")
    return f"{flags}\n{_text(_SHARED)}{text}"


def _eval(script: str, keys: Sequence[str], *arguments: str | int | bytes) -> Command:
    return ("EVAL", _script(script), len(keys), *keys, *arguments)


class RedisWindows:
    """`Windows` in Redis, Valkey or a Redis Cluster; thread-safe, as its client is.

    Each shard's writes and counts are atomic by themselves. Needs Valkey, or Redis 7. `simulated` tells the present
    instant where the public clock is simulated; without it the server's clock says which slot it is.
    """

    def __init__(
        self, parameters: Parameters, fingerprint: str, client: Client, simulated: Callable[[], int] | None = None
    ) -> None:
        self._name = parameters.name
        self._parameters = parameters
        self._keys = Keys(parameters.name, fingerprint)
        self._rows = parameters.registry.by_shard
        self._all = range(parameters.registry.shards)
        watched = parameters.watched_rows
        self._watched = [[int(row) for row in np.intersect1d(watched, rows)] for rows in self._rows]
        # Twice what may be asked about, from F slots ahead on: one that just fits would let a jump of Redis's clock
        # delete live facts. The scripts keep facts twice as long as the progress that claims them.
        self._expiry = max(
            _LEAST_EXPIRY, 2 * (parameters.history_slots + parameters.max_lead) * parameters.grid.length // SECOND
        )
        self._client = client
        self._simulated = simulated

    def progress(self) -> list[dict[int, int]]:
        """By shard: the next offset by input partition, for those that were begun."""
        replies = self._run({shard: _eval("read", [self._keys.meta(shard)]) for shard in self._all})
        return [_progress(_fields(replies[shard][0])) for shard in self._all]

    def begin(self, partition: int, offset: int, complete_from: int) -> None:
        """Where a shard has no progress for the partition, start at an offset and raise its `since`, in one step."""
        self._place("begin", partition, offset, complete_from)

    def restart(self, partition: int, offset: int, complete_from: int) -> None:
        """Set the partition's progress in every shard, also back, and raise `since`, in one step."""
        self._place("restart", partition, offset, complete_from)

    def _place(self, script: str, partition: int, offset: int, complete_from: int) -> None:
        arguments = (*self._grid(), f"{PROGRESS}{partition}", offset, complete_from)
        times = self._times_that_may_be_there()
        self._run({shard: _eval(script, self._every_key(shard, times), *arguments) for shard in self._all})

    def _grid(self) -> tuple[str | int, ...]:
        """What the scripts take to know which slot it is, and for how long keys are kept."""
        grid = self._parameters.grid
        return ("" if self._simulated is None else self._simulated(), grid.origin, grid.length, self._expiry)

    def _times_that_may_be_there(self) -> list[int]:
        """The designated times that sets may have been made for which have not expired."""
        now = self.time()
        kept = 2 * self._expiry * SECOND
        return sorted(
            {int(at) for timed in self._parameters.timed for at in timed.times.between(now - kept, now + kept)}
        )

    def _every_key(self, shard: int, times: Iterable[int]) -> list[str]:
        windows = (self._keys.window(shard, row) for row in self._watched[shard])
        return [*self._own(shard), *windows, *(self._keys.time(shard, instant) for instant in times)]

    def _own(self, shard: int) -> list[str]:
        return [self._keys.meta(shard), self._keys.waiting(shard)]

    def write(self, spans: Sequence[Span], facts: Mapping[int, Sequence[ShardFacts]]) -> dict[int, int]:
        """Add a batch's facts and advance each shard's progress, by one script for each shard.

        Returns, by partition, the lowest progress of all shards afterwards, -1 where one has none.
        """
        advance = [part for span in spans for part in (f"{PROGRESS}{span.partition}", span.start, span.end)]
        arguments = (*self._grid(), len(spans), *advance)
        replies = self._run(
            {
                shard: _eval("write", self._own(shard), *arguments, *_portions(facts.get(shard, ())))
                for shard in self._all
            }
        )
        lowest = np.array([replies[shard] for shard in self._all]).astype(np.int64).min(axis=0).tolist()
        return {span.partition: reached for span, reached in zip(spans, lowest, strict=True)}

    def read(self, questions: Mapping[int, Question]) -> dict[int, Reading]:
        """By shard, everything that a tick needs, read together.

        Facts that wait are merged beforehand, in steps that don't keep the server busy for long.
        """
        ticks = {shard: asked.tick for shard, asked in questions.items() if asked.tick is not None}
        settling = {shard: self._settle(shard, tick) for shard, tick in ticks.items()}
        settled = {shard for shard, reply in self._run(settling).items() if reply == 1}
        asked = {
            shard: question if question.tick is None or shard in settled else Question()
            for shard, question in questions.items()
        }
        replies = self._transact({shard: self._asking(shard, question) for shard, question in asked.items()})
        readings = {shard: self._reading(shard, question, replies[shard]) for shard, question in asked.items()}
        waiting = settling.keys() - settled
        return {
            shard: replace(reading, settled=False) if shard in waiting else reading
            for shard, reading in readings.items()
        }

    def _settle(self, shard: int, tick: int) -> Command:
        tolerance = self._parameters.tolerance if self._simulated is None else 0
        return _eval("settle", self._own(shard), *self._grid(), tick, tolerance)

    def time(self, shards: Collection[int] = (0,)) -> int:
        """Return the present instant by the servers of the shards: the latest of their clocks."""
        if self._simulated is not None:
            return self._simulated()
        replies = self._run({shard: _eval("read", [self._keys.meta(shard)]) for shard in shards})
        return max(instant_of(time) for _, time in replies.values())

    def open(self, shards: Sequence[int], slot: int) -> None:
        """Let facts stamped up to a slot into the windows, if it has begun."""
        self._run({shard: _eval("open", self._own(shard), *self._grid(), slot) for shard in shards})

    def _asking(self, shard: int, question: Question) -> list[Command]:
        return [
            *([] if question.tick is None else [self._settle(shard, question.tick)]),
            *(("ZCOUNT", self._keys.window(shard, row), first, "+inf") for row, first in question.windows),
            *(("SMEMBERS", self._keys.time(shard, instant)) for instant in question.times),
            _eval("read", [self._keys.meta(shard)]),
        ]

    def _reading(self, shard: int, question: Question, replies: list[Any]) -> Reading:
        *data, (meta, time) = replies
        settled = question.tick is None or data.pop(0) == 1
        counts, members = data[: len(question.windows)], data[len(question.windows) :]
        fields = _fields(meta)
        return Reading(
            progress=_progress(fields),
            complete_from=int(fields.get("since", COMPLETE_FROM_START)),
            evicted_before=int(fields.get("trimmed", COMPLETE_FROM_START)),
            times_evicted_until=int(fields.get("dropped", NEVER)),
            time=instant_of(time),
            counts=dict(zip(question.windows, counts, strict=True)),
            present={
                instant: count_members(found, self._rows[shard])
                for instant, found in zip(question.times, members, strict=True)
            },
            settled=settled,
        )

    def evict(self, shards: Sequence[int], trim_before: int, drop: Sequence[int], keep: Sequence[int]) -> None:
        """Cut off what lies before a slot, drop designated times, and renew the expiry of the rest."""
        counted = [len(drop), trim_before, *([max(drop)] if drop else [])]
        work: dict[int, Command] = {}
        for shard in shards:
            windows = [self._keys.window(shard, row) for row in self._watched[shard]]
            times = [self._keys.time(shard, instant) for instant in (*drop, *keep)]
            keys = [*self._own(shard), *windows, *times]
            work[shard] = _eval("evict", keys, self._expiry, len(windows), *counted)
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
        """See that no command failed. Where a key holds what is not ours, facts are missing.

        Then the shard's progress is dropped, so that nothing is claimed, also after someone deletes a foreign key.
        """
        error = next((reply for reply in replies if isinstance(reply, Exception)), None)
        if error is None:
            return
        if error_code(error) != "WRONGTYPE":
            raise failure(error, where(self._client))
        with self._plainly():
            times_evicted_until = self._execute(
                [_eval("forget", [self._keys.meta(shard)], PROGRESS)], transaction=False
            )[0]
        if isinstance(times_evicted_until, Exception):
            raise failure(times_evicted_until, where(self._client))
        tag = self._keys.tag(shard)
        raise WindowsError(
            f"{where(self._client)}: a key that begins with {tag} holds what is not ours, so facts are missing: "
            f"expected only what this service writes. Delete all keys that begin with {tag}; the facts are read again "
            "from the input."
        )


def _portions(facts: Iterable[ShardFacts]) -> Iterator[str | int | bytes]:
    """What the script takes for each portion: the kind of its facts, their stamp, and the facts."""
    for some in facts:
        for kind, packed, size in (("s", some.seen, SEEN.itemsize), ("p", some.present, PRESENT.itemsize)):
            for begin in range(0, len(packed), _PORTION * size):
                yield from (kind, some.stamp, packed[begin : begin + _PORTION * size])


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
