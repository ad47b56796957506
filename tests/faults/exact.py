"""The exact count of every answer, and the check that each answer follows from it.

A count is a function of the log: of the stamps of the records in the input topic. If an answer's ε is so large that a
draw above zero has a probability below 10^-12, a noisy count must equal the exact count: the number of people whose
records were stamped before as_of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, Final

from monitor.tools.audit.configuration import AuditTerms
from monitor.tools.audit.parsing import parse_instant
from monitor.tools.audit.recount import Recount, create_recounts
from monitor.tools.audit.visits import decode

CERTAIN: Final = Fraction(30)


def recount(terms: AuditTerms, records: Iterable[Any]) -> Recount:
    """Return the audit's recount of the input topic's records (kafka-python's)."""
    (counts,) = create_recounts([terms])
    for record in records:
        for line in decode(record.value, record.timestamp * 1_000, terms):
            counts.take(line)
    return counts


def find_inexact(counts: Recount, answers: Iterable[dict[str, Any]], since: int) -> Iterator[str]:
    """Yield a finding per answer that does not follow from the counts. Skip answers about times before `since`."""
    for answer in answers:
        kind = answer.get("kind")
        if kind == "over_time" and parse_instant(answer["window_start"]) >= since:
            yield from _check_over_time(counts, answer)
        elif kind == "at_times" and parse_instant(answer["time"]) >= since:
            yield from _check_at_time(counts, answer)


def _check_over_time(counts: Recount, answer: dict[str, Any]) -> Iterator[str]:
    location, tick = answer["location_id"], answer["tick"]
    if location not in counts.terms.rows or answer["status"] not in {"safe", "noisy_count"}:
        return
    count = counts.counts[answer["monitor"]][location].at(tick)
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


def _check_at_time(counts: Recount, answer: dict[str, Any]) -> Iterator[str]:
    tick, time, terms = answer["tick"], parse_instant(answer["time"]), counts.terms
    presence = counts.presence[answer["monitor"]]
    for location in terms.locations:
        if terms.shard[terms.rows[location]] != answer["shard"]:
            continue
        where = f"{answer['monitor']}: {location} at {answer['time']} by tick {tick}"
        noisy, count = answer["noisy_counts"].get(location), presence.count(time, terms.rows[location], tick)
        if noisy is not None and noisy["tick"] == tick:
            yield from _check_noisy(where, noisy["noisy_count"], count, answer)
        elif noisy is None and answer["status"] == "complete" and count >= answer["threshold"]:
            yield f'{where} is "safe", but the count of people reported before as_of reaches the threshold'
