"""What was published about one place: per monitor, the periods in which its answer stayed the same.

Hot spots are left out, because they are compared with no threshold. A history changes only if an answer does, so that
the files of most places stay as they are: a period has no `since` if it began before what is kept, and no `until` if no
other answer followed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from monitor.client.designated_time import find_upper_bound
from monitor.kinds.base.keys_and_parameters import Monitor
from monitor.kinds.locations import Registry, find_shard
from monitor.kinds.parameters import Parameters
from monitor.page.kept_records import Board
from monitor.page.public_records import NOT_UNDERSTOOD, Snapshot
from monitor.time.instants import format_instant

MOST_PERIODS: Final = 2_000
"""The most periods of one history: the latest ones."""

Periods = list[dict[str, Any]]


@dataclass
class Histories:
    """The histories of the places, from the records of a board as it is now. `earlier`: registries of before.

    The periods of a designated time are the same for all places of a shard that no snapshot lists, so they are joined
    once.
    """

    board: Board
    parameters: Parameters
    earlier: Sequence[Registry] = ()
    _times: dict[str, list[_Time]] = field(default_factory=dict)

    @property
    def _kept_since(self) -> int:
        """The as_of up to which the records of a tick may be incomplete. A period that begins then may be longer."""
        return self.board.oldest + self.parameters.grid.length

    def list_periods(self, location_id: str, row: int) -> Periods:
        """Return the periods of a place, the latest moment first."""
        periods: Periods = []
        known = {one.digest for one in (self.parameters.registry, *self.earlier) if location_id in one.rows}
        for monitor in self.parameters.monitors:
            if monitor.scope == "place" and row in monitor.needed.rows:
                entries = self.board.list_by_key(f"{monitor.name}/{location_id}")
                answers = ((entry.as_of, entry.said or NOT_UNDERSTOOD) for entry in entries)
                periods += _join(_describe(monitor), answers, self._kept_since)
            elif monitor.scope == "shard":
                for time in self._list_times(monitor):
                    periods += time.list_periods(location_id, known)
        periods.sort(key=_find_moment, reverse=True)
        return periods[:MOST_PERIODS]

    def _list_times(self, monitor: Monitor) -> list[_Time]:
        """Return the designated times of a monitor.

        A monitor of another kind may have had this name: its records are no snapshots.
        """
        if monitor.name not in self._times:
            by_time: dict[str, list[tuple[int, Snapshot]]] = {}
            for key in self.board.list_keys(monitor.name):
                read = [(entry.as_of, entry.snapshot) for entry in self.board.list_by_key(key) if entry.snapshot]
                by_time.setdefault(key.split("/")[1], []).extend(read)
            described = _describe(monitor)
            since = self._kept_since
            self._times[monitor.name] = [
                _Time({**described, "time": time}, read, since) for time, read in by_time.items()
            ]
        return self._times[monitor.name]


@dataclass
class _Time:
    """The snapshots of a designated time, with their as_of."""

    about: Mapping[str, Any]
    read: list[tuple[int, Snapshot]]
    kept_since: int
    _unlisted: dict[tuple[Any, ...], Periods] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.read.sort(key=lambda one: one[0])
        self._listed = {place for _as_of, one in self.read for place in (*one.noisy_counts, *one.counts_at_least)}
        self._numbers = sorted({one.shards for _as_of, one in self.read})

    def list_periods(self, location_id: str, known: Collection[str]) -> Periods:
        """Return the periods of a place. Its shard follows from the number of shards that a snapshot had then."""
        shards = {number: find_shard(location_id, number) for number in self._numbers}
        if location_id in self._listed:
            return self._join(location_id, shards, known)
        about = (*shards.items(), *sorted(known))
        if about not in self._unlisted:
            self._unlisted[about] = self._join(location_id, shards, known)
        return self._unlisted[about]

    def _join(self, location_id: str, shards: Mapping[int, int], known: Collection[str]) -> Periods:
        selected = ((as_of, one) for as_of, one in self.read if shards[one.shards] == one.shard)
        answers = ((as_of, _read_snapshot(one, location_id, known)) for as_of, one in selected)
        return _join(self.about, answers, self.kept_since)


def _describe(monitor: Monitor) -> dict[str, Any]:
    return {"monitor": monitor.name, "kind": monitor.kind}


def _join(about: Mapping[str, Any], answers: Iterable[tuple[int, Mapping[str, Any]]], kept_since: int) -> Periods:
    """Return the periods of equal answers: `since` and `until` are the as_of of the first and the last of them."""
    periods: Periods = []
    previous: tuple[int, Mapping[str, Any] | None] = 0, None
    for as_of, answer in answers:
        if answer != previous[1]:
            if periods:
                periods[-1]["until"] = format_instant(previous[0])
            since = {"since": format_instant(as_of)} if periods or as_of > kept_since else {}
            periods.append({**about, **answer, **since})
        previous = as_of, answer
    return periods


def _find_moment(period: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the sort key of a period: the designated time or else its start, then when it was published."""
    since = period.get("since", "")
    return period.get("time", since), since, period["monitor"]


def _read_snapshot(snapshot: Snapshot, location_id: str, known: Collection[str]) -> Mapping[str, Any]:
    """Return the answer of a snapshot about a place. `known`: the digests of the registries that have this place."""
    if snapshot.threshold is None:
        return NOT_UNDERSTOOD
    answer: dict[str, Any] = {"state": "unknown", "threshold": snapshot.threshold}
    noisy, least = snapshot.noisy_counts.get(location_id), snapshot.counts_at_least.get(location_id, 0)
    most: int | None = None
    if noisy is not None:
        answer |= {"state": "noisy_count", **snapshot.fresh.get(location_id, {})}
        most = find_upper_bound(least, noisy)
    elif snapshot.complete and snapshot.registry in known:  # as `calls_others_safe`
        answer["state"], most = "safe", snapshot.threshold - 1
    return answer | ({} if most is None else {"count_at_most": most}) | ({"count_at_least": least} if least else {})
