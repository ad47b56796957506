"""Windows in Redis or Valkey: sets of facts with their progress, with one script per shard and operation.

Every operation is one script per shard, so it is atomic. A write unpacks the facts and advances the progress. For a
tick, one script moves the facts that the tick counts into the windows, and counts. Each script that reads or changes
facts also declares a key that never exists. While a cluster moves a shard, both of its servers refuse such a script.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from monitor.errors import EvictionError, StoreError
from monitor.kinds.facts_and_questions import (
    COMPLETE_FROM_START,
    NEVER,
    OffsetRange,
    Portions,
    Question,
    Reading,
    StoredShard,
    Window,
)
from monitor.kinds.parameters import Parameters
from monitor.store.keys import PROGRESS, Keys, make_service_pattern, parse_progress
from monitor.store.packing import count_members, read_stamps, read_stays
from monitor.store.redis_client import (
    REDIS_ERRORS,
    Client,
    describe_client,
    find_error_code,
    is_moving,
    is_transient,
    parse_fields,
    parse_time,
    read_eviction_policies,
    translate_error,
)
from monitor.time.instants import SECOND

_LEAST_EXPIRY: Final = 3_600

Command = tuple[Any, ...]
"""A command as redis-py takes it: the name, then strings, bytes and integers."""

_ALONE: Final = frozenset({"check_rights", "forget_progress", "read_progress"})
"""The scripts that do not use the functions of common.lua."""


class RedisStore:
    """The facts of a service in Redis 7, Valkey or a Redis Cluster. Writes and counts are atomic per shard.

    All methods are safe to repeat, and any thread may call them. Shards are numbered from 0. `clock` returns the
    present instant in place of the servers' clocks, for a replay; None for the servers' clocks.

    Raises:
        UnreachableError: (any method) the store cannot be reached, or reports a transient failure.
        StoreError: (any method) a key of the store has foreign data, or the store refuses permanently.
    """

    def __init__(
        self, parameters: Parameters, fingerprint: str, client: Client, clock: Callable[[], int] | None = None
    ) -> None:
        self._name = parameters.name
        self._parameters = parameters
        self._keys = Keys(parameters.name, fingerprint)
        self._rows = parameters.registry.by_shard
        self._all = range(parameters.registry.shards)
        self._watched = _group_by_shard(parameters, parameters.watched_rows)
        self._reported = _group_by_shard(parameters, parameters.rows_since_ticks)
        self._bucketed = _group_by_shard(parameters, parameters.bucket_sets)
        # Twice the time in which facts can be counted, with F slots ahead. With a shorter expiry, a jump of Redis's
        # clock could delete facts that still count. Scripts keep facts twice as long as the progress which claims them.
        self._expiry = max(
            _LEAST_EXPIRY, 2 * (parameters.history_slots + parameters.max_lead) * parameters.grid.length // SECOND
        )
        self._client = client
        self._clock = clock

    def read_progress(self) -> list[dict[int, int]]:
        """Return, by shard, the next offset by input partition."""
        return [dict(shard.progress) for shard in self.read_shards()]

    def read_shards(self) -> list[StoredShard]:
        """Return, by shard, the next offset by input partition, and from when on the facts are complete."""
        replies = self._run({shard: _make_eval("read_progress", [self._keys.meta(shard)]) for shard in self._all})
        fields = [parse_fields(replies[shard][0]) for shard in self._all]
        return [StoredShard(parse_progress(of), int(of.get("complete_from", COMPLETE_FROM_START))) for of in fields]

    def begin(self, partition: int, offset: int, complete_from: int) -> None:
        """In shards without progress for the partition, start at an offset and raise `complete_from`, in one step."""
        self._set_progress("begin_progress", partition, offset, complete_from)

    def restart(self, partition: int, offset: int, complete_from: int) -> None:
        """Move the partition's progress in every shard, forward or back, and raise `complete_from`, in one step."""
        self._set_progress("move_progress", partition, offset, complete_from)

    def _set_progress(self, script: str, partition: int, offset: int, complete_from: int) -> None:
        arguments = (*self._read_clock(), f"{PROGRESS}{partition}", offset, complete_from)
        times = self._find_unexpired_times()
        work: dict[int, Command] = {}
        for shard in self._all:
            windows = self._list_windows(shard)
            keys = [*self._declare_keys(shard), *windows, *self._list_time_keys(shard, times)]
            work[shard] = _make_eval(script, keys, *arguments, len(windows))
        self._run(work)

    def _read_clock(self) -> tuple[str | int, ...]:
        """Return the arguments of scripts about time: the clock, the slot grid, and the expiry of keys in seconds."""
        grid = self._parameters.grid
        return ("" if self._clock is None else self._clock(), grid.origin, grid.length, self._expiry)

    def _find_unexpired_times(self) -> list[int]:
        """Return the designated times whose sets may exist."""
        now = self.time()
        kept = 2 * self._expiry * SECOND
        return self._parameters.list_times_between(now - kept, now + kept)

    def _list_windows(self, shard: int) -> list[str]:
        """Return the keys of windows, then those of reports and of buckets."""
        windows = [self._keys.window(shard, row) for row in self._watched[shard]]
        reports = [self._keys.reports(shard, row) for row in self._reported[shard]]
        return [*windows, *reports, *(self._keys.buckets(shard, number) for number in self._bucketed[shard])]

    def _list_time_keys(self, shard: int, times: Iterable[int]) -> list[str]:
        """Return the keys of designated times: one each, and one more if lengths of visits are read."""
        names = (self._keys.time, self._keys.lengths) if self._parameters.longest_length else (self._keys.time,)
        return [name(shard, instant) for instant in times for name in names]

    def _declare_keys(self, shard: int) -> list[str]:
        """Return the first keys that a script declares: the shard's hash, the waiting facts, and the missing key."""
        return [self._keys.meta(shard), self._keys.waiting(shard), self._keys.never(shard)]

    def write(self, ranges: Sequence[OffsetRange], portions: Portions) -> dict[int, int]:
        """Add a batch's facts, and advance the progress of each shard that has reached the starts of the ranges.

        One script changes the facts and the progress of a shard. A write that advances no progress of a shard stores
        nothing there.

        Returns:
            By partition, the lowest progress of all shards after the write, -1 where a shard has none. If it is below
            the start of its range, the consumer has to seek back to the returned offset.
        """
        advance = [
            part for offsets in ranges for part in (f"{PROGRESS}{offsets.partition}", offsets.start, offsets.end)
        ]
        arguments = (*self._read_clock(), len(ranges), *advance)
        replies = self._run(
            {
                shard: _make_eval(
                    "write_facts",
                    self._declare_keys(shard),
                    *arguments,
                    *(part for one in portions.get(shard, ()) for part in (one.kind, one.stamp, one.facts)),
                )
                for shard in self._all
            }
        )
        lowest = np.array([replies[shard] for shard in self._all]).astype(np.int64).min(axis=0).tolist()
        return {offsets.partition: reached for offsets, reached in zip(ranges, lowest, strict=True)}

    def read(self, questions: Mapping[int, Question]) -> dict[int, Reading]:
        """Open the slots that the ticks count, and return, by shard, everything that a tick needs, read in one step.

        A shard that a cluster is moving is missing, unless this is true of all shards. Then UnreachableError is raised.
        A script moves a limited number of waiting facts, to end soon. The reading is not settled if more wait.
        """
        work = {shard: self._make_tick_command(shard, question) for shard, question in questions.items()}
        replies = self._execute(work)
        failed = {shard: reply for shard, reply in replies.items() if isinstance(reply, Exception)}
        for shard, error in failed.items():
            if len(failed) == len(questions) or not is_moving(error):
                self._raise_failure(shard, error)
        return {
            shard: self._parse_reading(shard, questions[shard], reply)
            for shard, reply in replies.items()
            if shard not in failed
        }

    def time(self, shards: Collection[int] = (0,)) -> int:
        """Return the present instant: the latest of the clocks of the shards' servers."""
        if self._clock is not None:
            return self._clock()
        replies = self._run({shard: _make_eval("read_progress", [self._keys.meta(shard)]) for shard in shards})
        return max(parse_time(time) for _, time in replies.values())

    def open(self, shards: Sequence[int], slot: int) -> None:
        """Move facts stamped up to a slot into the windows, after the tick before this slot has been decided.

        A slot that has not begun by the store's clock is not opened.
        """
        self._run(
            {shard: _make_eval("open_slot", self._declare_keys(shard), *self._read_clock(), slot) for shard in shards}
        )

    def _make_tick_command(self, shard: int, question: Question) -> Command:
        windows = (part for start, rows in question.windows for part in (start, np.asarray(rows, ">u4").tobytes()))
        return _make_eval(
            "count_people",
            self._declare_keys(shard),
            *self._read_clock(),
            "" if question.tick is None else question.tick,
            self._parameters.tolerance,
            len(question.windows),
            len(question.times),
            len(question.since),
            len(question.buckets),
            *windows,
            *(part for asked in (*question.since, *question.buckets) for part in asked),
            *(part for instant in question.times for part in (instant, int(self._is_sorted(instant)))),
            *question.stays,
        )

    def _is_sorted(self, instant: int) -> bool:
        """Return whether the people at a designated time are stored by their latest stamps."""
        return bool(self._parameters.find_stamped(np.array([instant], np.int64))[0])

    def _parse_reading(self, shard: int, question: Question, reply: Sequence[Any]) -> Reading:
        settled, counts, meta, time, members, lengths, since, buckets, latest = reply
        rows, present, consenting, stamps = self._rows[shard], {}, {}, {}
        for instant, of_time, of_members in zip(question.times, members, latest, strict=bool(settled)):
            present[instant], agreed = count_members(of_time, rows)
            if instant in question.consenting:
                consenting[instant] = agreed
            if self._is_sorted(instant):
                stamps[instant] = read_stamps(of_time, of_members, rows)
        fields = parse_fields(meta)
        return Reading(
            progress=parse_progress(fields),
            complete_from=int(fields.get("complete_from", COMPLETE_FROM_START)),
            evicted_before=int(fields.get("evicted_before", COMPLETE_FROM_START)),
            times_evicted_until=int(fields.get("times_evicted_until", NEVER)),
            time=parse_time(time) if self._clock is None else self._clock(),
            counts=_split_counts(question.windows, counts) if settled else (),
            present=present,
            settled=settled == 1,
            consenting=consenting,
            since=dict(zip(question.since, since, strict=bool(settled))),
            buckets=dict(zip(question.buckets, buckets, strict=bool(settled))),
            stamps=stamps,
            stays={
                instant: read_stays(of_time[::2], of_time[1::2])
                for instant, of_time in zip(question.stays, lengths, strict=bool(settled))
            },
        )

    def evict(self, shards: Sequence[int], before: int, drop: Sequence[int], keep: Sequence[int]) -> None:
        """Evict facts about slots before a slot and the designated times `drop`, and renew the other expiries.

        `evicted_before` and `times_evicted_until` are raised in the same script, so that a count that lacks evicted
        facts can be recognized as incomplete. `keep`: the designated times that are still counted.
        """
        work: dict[int, Command] = {}
        for shard in shards:
            windows = self._list_windows(shard)
            dropped, kept = (self._list_time_keys(shard, instants) for instants in (drop, keep))
            keys = [*self._declare_keys(shard), *windows, *dropped, *kept]
            latest = [max(drop)] if drop else []
            reports = len(windows) - len(self._watched[shard])
            numbers = self._expiry, len(windows), len(dropped), before, reports
            work[shard] = _make_eval("evict_facts", keys, *numbers, before - self._parameters.max_lead, *latest)
        self._run(work)

    def is_empty(self) -> bool:
        """Return whether the store has no key of this service, under any fingerprint."""
        with self._translate_errors():
            keys = self._client.scan_iter(match=make_service_pattern(self._name), count=1_000)
            return next(iter(keys), None) is None

    def check(self) -> None:
        """Check that the store is reachable, evicts nothing, and permits every command that the service uses.

        Transient failures (a replica, no memory) are ignored, because reading may continue; writes report them.

        Raises:
            EvictionError: the `maxmemory-policy` of a server is not `noeviction`.
            StoreError: the user may not run a command, or may not access these keys.
        """
        with self._translate_errors():
            self._client.ping()
            reply = self._execute({0: _make_eval("check_rights", [self._keys.rights])})[0]
        if isinstance(reply, Exception) and not is_transient(reply):
            raise translate_error(reply, describe_client(self._client))
        self.require_no_eviction()

    def require_no_eviction(self) -> None:
        """Check that the store evicts nothing: an evicted fact would make a count too low.

        Raises:
            EvictionError: the `maxmemory-policy` of a server is not `noeviction`.
        """
        with self._translate_errors():
            policies = read_eviction_policies(self._client)
        for server, policy in policies.items():
            if policy != "noeviction":
                raise EvictionError(
                    f"{server}: maxmemory-policy is {policy}: expected noeviction, because evicted facts could cause a "
                    'false "safe". Run `CONFIG SET maxmemory-policy noeviction` there, and set it in the server\'s '
                    "configuration file."
                )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _run(self, work: Mapping[int, Command]) -> dict[int, Any]:
        """Run one script per shard, and return the replies by shard.

        Raises:
            UnreachableError: a script did not run, or its outcome is unknown.
            StoreError: a key has foreign data.
        """
        replies = self._execute(work)
        for shard, reply in replies.items():
            if isinstance(reply, Exception):
                self._raise_failure(shard, reply)
        return replies

    def _execute(self, work: Mapping[int, Command]) -> dict[int, Any]:
        """Run one script per shard. Return the replies by shard; that of a script that failed is an error."""
        with self._translate_errors(), self._client.pipeline(transaction=False) as pipeline:
            for command in work.values():
                pipeline.execute_command(*command)
            return dict(zip(work, pipeline.execute(raise_on_error=False), strict=True))

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except REDIS_ERRORS as error:
            raise translate_error(error, describe_client(self._client)) from None

    def _raise_failure(self, shard: int, error: Exception) -> NoReturn:
        """Raise the error of a shard's script.

        If a key has foreign data, facts are missing. In this case, first delete the shard's progress, so that it does
        not claim these facts after an operator has deleted the key.
        """
        if find_error_code(error) != "WRONGTYPE":
            raise translate_error(error, describe_client(self._client))
        reply = self._execute({shard: _make_eval("forget_progress", [self._keys.meta(shard)], PROGRESS)})[shard]
        if isinstance(reply, Exception):
            raise translate_error(reply, describe_client(self._client))
        tag = self._keys.tag(shard)
        raise StoreError(
            f"{describe_client(self._client)}: a key that begins with {tag} has data of another program, so facts are "
            f"missing: expected only data of this service. Delete all keys that begin with {tag}; the service reads "
            "the facts from the input again."
        )


def _group_by_shard(parameters: Parameters, rows: NDArray[np.int64]) -> list[list[int]]:
    """Return the rows, or the sets of buckets of rows, of each shard."""
    grouped: list[list[int]] = [[] for _ in range(parameters.registry.shards)]
    shards = parameters.registry.shard
    for row, shard in zip(rows.tolist(), shards[rows % shards.size].tolist(), strict=True):
        grouped[shard].append(row)
    return grouped


def _split_counts(windows: Sequence[Window], counts: Sequence[int]) -> list[NDArray[np.int64]]:
    """Return the counts by window, from the counts of all rows in order."""
    ends = np.cumsum([len(rows) for _, rows in windows])
    return np.split(np.array(counts, np.int64), ends[:-1]) if windows else []


def _read_text(name: str) -> str:
    """Return the text of a script's file without comment lines and indentation, which are half of it.

    The text is sent with each call. For few places, it is most of what a tick sends.
    """
    text = files("monitor.store").joinpath(f"{name}.lua").read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("--"))


@cache
def load_script(name: str) -> str:
    """Return a script's text, with the functions it uses inserted after the first line, which has the flags."""
    flags, _, text = _read_text(name).partition("\n")
    return "".join((flags, "\n", "" if name in _ALONE else _read_text("common"), text))


def _make_eval(script: str, keys: Sequence[str], *arguments: str | int | bytes) -> Command:
    """Return the EVAL command that runs a script. It is sent as text, so that a SCRIPT FLUSH has no effect."""
    return ("EVAL", load_script(script), len(keys), *keys, *arguments)
