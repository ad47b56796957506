"""Dwell times in the configuration, in reports and in words. Ticks draw them in tests/ticks/test_decide_totals.py."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Final

import pytest
from msgspec.structs import replace

from monitor.client.describe_records import News, Words
from monitor.client.state_from_records import SubscriberView, read_total
from monitor.client.watch import describe_view
from monitor.kinds.dwell.decide import estimate
from monitor.kinds.dwell.keys_and_parameters import DwellMonitor
from monitor.kinds.dwell.record import DWELL, DwellSnapshot, make_dwell_record
from monitor.kinds.dwell.words import DwellWords
from monitor.kinds.timing import Timing
from monitor.privacy.dwell import DwellRule, step
from monitor.privacy.sum_and_count import SumAndCount
from monitor.records.output_records import OutputRecord
from monitor.time.instants import DAY, HOUR
from tests.client.records import REGISTRY, SLOTS
from tests.kinds.examples import LENGTHS, MONITORS
from tests.privacy.laws import Given

TIMING: Final = Timing(HOUR, 1, 14 * DAY)


def make_words(**changes: object) -> DwellWords:
    """Return what is said about the example, with some keys changed."""
    return DwellWords(DwellMonitor.model_validate(MONITORS[LENGTHS] | changes), TIMING, 1)


def dwell(time: int, totals: SumAndCount | None) -> OutputRecord:
    """Return the dwell times at the start of slot `time`, drawn two ticks later; None: incomplete input."""
    return make_dwell_record(
        source="town",
        monitor="lengths",
        time=SLOTS.start(time),
        tick=time + 2,
        as_of=SLOTS.as_of(time + 2),
        registry="0f" * 32,
        locations=4,
        epsilon=Fraction(1),
        longest=3_600,
        per_person=1,
        totals=None if totals is None else estimate(totals),
    )


def describe(view: SubscriberView, records: Sequence[OutputRecord]) -> list[str]:
    """Add records to a view, and return the news."""
    changes = (view.add(record.headers, record.value) for record in records)
    return [line.text for line in News(Words(SLOTS)).lines(view, [change for change in changes if change is not None])]


def test_keys_become_the_rule() -> None:
    """Lengths are read in seconds; by default one visit of a person counts."""
    monitor = make_words().monitor.derive(REGISTRY, TIMING)
    assert (monitor.name, monitor.rule) == ("lengths", DwellRule(Fraction(1, 3), 7_200, 1))


def test_report_states_the_noise() -> None:
    """The report has the standard deviation of the number of visits, and no threshold."""
    words = make_words()
    assert words.note().tree["deviation"] == pytest.approx(4 / (1 / 3), rel=1e-3)
    assert words.note().tree["longest_visit"] == "2h"
    assert words.threshold is None


@pytest.mark.parametrize("per_person", [1, 2, 3])
def test_removal_costs_at_most_the_share(per_person: int) -> None:
    """Removing one of a person's visits from dwell times costs at most the stated share of ε, and may cost all of it.

    If one visit is removed, another one may count in its place.
    """
    rule = DwellRule(Fraction(1, 3), 1, per_person)
    known = {
        lengths: step(
            rule, [(b"ann", row, length) for row, length in enumerate(lengths) if length is not None], Given(0, 0, 0, 0)
        )
        for lengths in product((None, 0, 1), repeat=per_person + 1)
    }
    costs = {
        abs(totals.above_low - without.above_low) + abs(totals.below_high - without.below_high)
        for lengths, totals in known.items()
        for row in range(per_person + 1)
        for without in [known[(*lengths[:row], None, *lengths[row + 1 :])]]
    }
    stated = make_words(visits_per_person=per_person).one_visit
    assert max(costs) * rule.to_sum_and_count().noise_epsilon == stated


def test_answer_without_a_number_is_unknown() -> None:
    """A complete answer without a number of visits, which only another writer can append, is unknown."""
    words, complete = Words(SLOTS), read_total(DWELL, dwell(2, SumAndCount(60_000, 12_000, 0, 3_600)).value)
    assert isinstance(complete, DwellSnapshot)
    assert words.total(replace(complete, visits=None)).startswith("unknown: ")
    assert not words.total(complete).startswith("unknown")


def test_answers_are_described() -> None:
    """Dwell times are described as estimates. Negative totals are shown as no visits, and unknown times as unknown."""
    view, noisy = SubscriberView(REGISTRY), "(noise in both directions, drawn once)"
    assert describe(view, [dwell(2, SumAndCount(60_000, 12_000, 0, 3_600))]) == [
        f"Mon 5 Jan 02:00 lengths: about 20 visits in all places, of about 50m on average {noisy}"
    ]
    assert describe(view, [dwell(2, None), dwell(3, SumAndCount(-50, 20, 0, 3_600))]) == [
        f"Mon 5 Jan 03:00 lengths: about 0 visits in all places; too few to estimate their length {noisy}"
    ]
    assert describe(view, [dwell(4, None)]) == [
        "Mon 5 Jan 04:00 lengths: unknown: not confirmed in time that all visits had been read"
    ]
    assert [snapshot.time for snapshot in view.totals] == ["2026-01-05T04:00:00Z"]
    assert list(describe_view(view, Words(SLOTS), SLOTS.as_of(6)))[1].startswith("lengths Mon 5 Jan 04:00: unknown")
