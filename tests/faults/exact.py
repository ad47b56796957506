"""The exact count of every answer, and the check that each answer follows from it.

A count is a function of the log: of the stamps of the records in the input topic. If an answer's ε is so large that a
draw above zero has a probability below 10^-12, a noisy count must equal the exact count: the number of people whose
records were stamped before as_of.
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
            for visit in recount.accepted(record):
                self._by_row[visit.row].append(visit)

    def window(self, location: str, tick: int, first_slot: int) -> int:
        """Count the people of the window that begins with `first_slot`, at a tick."""
        visits = self._by_row[self.terms.rows[location]]
        return len({visit.person for visit in visits if visit.stamp <= tick and visit.last >= first_slot})

    def present(self, location: str, tick: int, time: int) -> int:
        """Count the people present at a designated time, at a tick."""
        visits = self._by_row[self.terms.rows[location]]
        return len({visit.person for visit in visits if visit.stamp <= tick and visit.arrived <= time < visit.left})


def find_inexact(counts: Counts, answers: Iterable[dict[str, Any]], since: int) -> Iterator[str]:
    """Yield a finding per answer that does not follow from the counts. Skip answers about times before `since`."""
    for answer in answers:
        kind = answer.get("kind")
        if kind == "over_time" and parse_instant(answer["window_start"]) >= since:
            yield from _check_over_time(counts, answer)
        elif kind == "at_times" and parse_instant(answer["time"]) >= since:
            yield from _check_at_time(counts, answer)


def _check_over_time(counts: Counts, answer: dict[str, Any]) -> Iterator[str]:
    location, tick = answer["location_id"], answer["tick"]
    if location not in counts.terms.rows or answer["status"] not in {"safe", "noisy_count"}:
        return
    count = counts.window(location, tick, counts.terms.grid.find_slot(parse_instant(answer["window_start"])))
    where = f"{answer['monitor']}: {location} at tick {tick}"
    if answer["status"] == "safe":
        if count >= answer["threshold"]:
            yield f'{where} is "safe", but the count of people reported before as_of reaches the threshold'
    else:
        yield from _check_noisy(where, answer["noisy_count"], count, answer)


def _check_noisy(where: str, noisy_count: int, count: int, answer: dict[str, Any]) -> Iterator[str]:
    if noisy_count < count:
        yield f"{where} has a noisy count below the count of people reported before as_of"
    if Fraction(answer["epsilon"]) >= CERTAIN and noisy_count > count:
        yield f"{where} counts somebody who was not reported before as_of"


def _check_at_time(counts: Counts, answer: dict[str, Any]) -> Iterator[str]:
    tick, time, terms = answer["tick"], parse_instant(answer["time"]), counts.terms
    for location in terms.locations:
        if terms.shard[terms.rows[location]] != answer["shard"]:
            continue
        where = f"{answer['monitor']}: {location} at {answer['time']} by tick {tick}"
        noisy, count = answer["noisy_counts"].get(location), counts.present(location, tick, time)
        if noisy is not None and noisy["tick"] == tick:
            yield from _check_noisy(where, noisy["noisy_count"], count, answer)
        elif noisy is None and answer["status"] == "complete" and count >= answer["threshold"]:
            yield f'{where} is "safe", but the count of people reported before as_of reaches the threshold'
