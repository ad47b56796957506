"""The record of dwell times: the number of visits at a designated time and their mean length, with noise."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, ClassVar, Final, Literal, NamedTuple, Unpack

from msgspec import Meta

from monitor.kinds.answer_state import AnswerState
from monitor.kinds.base.record_of_designated_times import (
    DesignatedTime,
    TotalSnapshot,
    describe_total,
    make_total_record,
)
from monitor.records.fields import Epsilon, Positive
from monitor.records.output_records import TYPE_PREFIX, OutputRecord
from monitor.time.instants import SECOND, format_duration

DWELL: Final = f"{TYPE_PREFIX}dwell"


class DwellSnapshot(TotalSnapshot, frozen=True):
    """How many visits there were in all places together, and their mean length, drawn once. Key: monitor/time.

    The noise is two-sided: nothing here is certain, in either direction, and no location is called safe because of it.
    """

    title: ClassVar = "The number and mean length of visits at a time"

    kind: Literal["dwell"]
    noise: Literal["two_sided"]
    epsilon: Annotated[Epsilon, Meta(description="The ε of the whole answer, for any change of one person's visits.")]
    longest_visit_seconds: Annotated[Positive, Meta(description="Longer visits count as this long.")]
    visits_per_person: Annotated[Positive, Meta(description="The most visits of one person that count.")]
    visit_seconds: Annotated[
        int | None,
        Meta(description="A: the sum of the lengths, with noise of mean 0. It may be negative. null if unknown."),
    ]
    spare_seconds: Annotated[
        int | None,
        Meta(
            description="B: the sum of longest_visit_seconds minus the length, with noise of mean 0. null if unknown."
        ),
    ]
    visits: Annotated[
        float | None,
        Meta(
            description="(A + B) / longest_visit_seconds: an unbiased estimate of the number of visits. "
            "null if unknown."
        ),
    ]
    mean_seconds: Annotated[
        float | None,
        Meta(
            description="The estimated mean length, from 0 to longest_visit_seconds. null if unknown, or if A + B ≤ 0."
        ),
    ]

    def describe(self, name: Callable[[str], str], most: int | None) -> str:
        """Describe the number and mean length of the visits. Neither is certain."""
        del name, most
        if self.visits is None:
            return "unknown: the record states no number of visits"
        visits = f"about {max(0, round(self.visits)):,} visits in all places"
        if self.mean_seconds is None:
            return f"{visits}; too few to estimate their length (noise in both directions, drawn once)"
        mean = format_duration(max(1, round(self.mean_seconds)) * SECOND)
        return f"{visits}, of about {mean} on average (noise in both directions, drawn once)"

    def fold(self, state: AnswerState) -> None:
        """Record that the answer was drawn, and what it charges."""
        self.record_draw(state, self.epsilon)


class NoisyTotals(NamedTuple):
    """The two totals with noise, and the estimates that follow from them, as in a `DwellSnapshot`."""

    visit_seconds: int
    spare_seconds: int
    visits: float
    mean_seconds: float | None


def make_dwell_record(
    *,
    epsilon: Fraction,
    longest: int,
    per_person: int,
    totals: NoisyTotals | None,
    **asked: Unpack[DesignatedTime],
) -> OutputRecord:
    """Return the record of a designated time; `totals` is None if the input is not complete. `longest`: seconds."""
    value = DwellSnapshot(
        **describe_total("dwell", asked, complete=totals is not None),
        noise="two_sided",
        epsilon=epsilon,
        longest_visit_seconds=longest,
        visits_per_person=per_person,
        visit_seconds=None if totals is None else totals.visit_seconds,
        spare_seconds=None if totals is None else totals.spare_seconds,
        visits=None if totals is None else totals.visits,
        mean_seconds=None if totals is None else totals.mean_seconds,
    )
    return make_total_record(asked, value)
