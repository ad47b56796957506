"""The exact counts that every answer must have been drawn from, and what follows from them.

A count is a function of the log: of the records' own stamps in the input topic, read back. Where an answer's ε is so
large that a draw above zero has a chance below 10^-12, it tells the count itself: that of the people whose records were
stamped before as_of, not one fewer and not one more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, Final

from monitor.tools.audit.text import parse_instant
from tests.faults.recount import Accepted, Recount

CERTAIN: Final = Fraction(30)


class Counts:
    """The accepted visits of the input topic's records (kafka-python's)."""

    def __init__(self, recount: Recount, records: Iterable[Any]) -> None:
        self.terms = recount.terms
        self._by_row: dict[int, list[Accepted]] = defaultdict(list)
        for record in records:
            for one in recount.accepted(record):
                self._by_row[one.row].append(one)

    def window(self, location: str, tick: int, first_slot: int) -> int:
        """The distinct people of a window that begins with a slot, at a tick."""
        told = self._by_row[self.terms.rows[location]]
        return len({one.person for one in told if one.stamp <= tick and one.last >= first_slot})

    def present(self, location: str, tick: int, time: int) -> int:
        """The distinct people of a designated time, at a tick."""
        told = self._by_row[self.terms.rows[location]]
        return len({one.person for one in told if one.stamp <= tick and one.arrived <= time < one.left})


def inexact(counts: Counts, answers: Iterable[dict[str, Any]], since: int) -> Iterator[str]:
    """What was said and does not follow from the counts, of answers that ask about nothing before an instant."""
    for said in answers:
        kind = said.get("kind")
        if kind == "over_time" and parse_instant(said["window_start"]) >= since:
            yield from _over_time(counts, said)
        elif kind == "at_times" and parse_instant(said["time"]) >= since:
            yield from _at_time(counts, said)


def _over_time(counts: Counts, said: dict[str, Any]) -> Iterator[str]:
    location, tick = said["location_id"], said["tick"]
    if location not in counts.terms.rows or said["status"] not in {"safe", "noisy_count"}:
        return
    count = counts.window(location, tick, counts.terms.grid.slot_of(parse_instant(said["window_start"])))
    where = f"{said['monitor']}: {location} at tick {tick}"
    if said["status"] == "safe":
        if count >= said["threshold"]:
            yield f'{where} is "safe", and as many people as the threshold were reported before as_of'
    else:
        yield from _noisy(where, said["noisy_count"], count, said)


def _noisy(where: str, noisy_count: int, count: int, said: dict[str, Any]) -> Iterator[str]:
    if noisy_count < count:
        yield f"{where} has a noisy count below that of the people who were reported before as_of"
    if Fraction(said["epsilon"]) >= CERTAIN and noisy_count > count:
        yield f"{where} counts somebody who was not reported before as_of"


def _at_time(counts: Counts, said: dict[str, Any]) -> Iterator[str]:
    tick, time, terms = said["tick"], parse_instant(said["time"]), counts.terms
    for location in terms.locations:
        if terms.shard[terms.rows[location]] != said["shard"]:
            continue
        where = f"{said['monitor']}: {location} at {said['time']} by tick {tick}"
        told = said["noisy_counts"].get(location)
        if told is not None and told["tick"] == tick:
            yield from _noisy(where, told["noisy_count"], counts.present(location, tick, time), said)
        elif (
            told is None and said["status"] == "complete" and counts.present(location, tick, time) >= said["threshold"]
        ):
            yield f'{where} is "safe", and as many people as the threshold were reported before as_of'
