"""The check that no answer counts anybody who was not reported before its as_of.

The audit does not know the draws, so it cannot find a noisy count that is too high. If an answer's ε is so large that a
draw above zero has a probability below 10^-12, its noisy count must not exceed the exact count of the input topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, Final

from monitor.audit.configuration import AuditTerms
from monitor.audit.parse_values import parse_instant
from monitor.audit.recount_visits import Recount, create_recounts
from monitor.audit.visits import decode
from tests.faults.recount import is_stamped

CERTAIN: Final = Fraction(30)


def recount(terms: AuditTerms, records: Iterable[Any]) -> Recount:
    """Return the audit's recount of the input topic's records (kafka-python's)."""
    (counts,) = create_recounts([terms])
    for record in filter(is_stamped, records):
        for line in decode(record.value, record.timestamp * 1_000, terms):
            counts.take(line)
    return counts


def find_early(counts: Recount, answers: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield a finding per answer that counts somebody too early."""
    for answer in answers:
        if Fraction(answer.get("epsilon", 0)) < CERTAIN:
            continue
        for place, drawn, exact in _compare(counts, answer):
            if drawn > exact:
                yield f"{answer['monitor']}: {place} at tick {answer['tick']} counts somebody not reported before as_of"


def _compare(counts: Recount, answer: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    """Yield place, noisy count and exact count of each draw of an answer."""
    tick, monitor, terms = answer["tick"], answer["monitor"], counts.terms
    if answer["kind"] == "over_time" and answer["status"] == "noisy_count":
        yield (
            answer["location_id"],
            answer["noisy_count"],
            counts.monitors[monitor].people[answer["location_id"]].at(tick),
        )
    elif answer["kind"] == "upper_bound":
        for number in answer["numbers"]:
            exact = counts.monitors[monitor].count(answer["location_id"], number["tick"])
            yield answer["location_id"], number["noisy_count"], exact
    elif answer["kind"] == "at_times":
        time, presence = parse_instant(answer["time"]), counts.monitors[monitor]
        for place, noisy in answer["noisy_counts"].items():
            if noisy["tick"] == tick:
                yield place, noisy["noisy_count"], presence.count(time, terms.rows[place], tick)
