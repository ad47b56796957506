"""The record of the hot spots at a designated time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Annotated, ClassVar, Final, Literal, Unpack

from msgspec import Meta, Struct

from monitor.kinds.answer_state import AnswerState
from monitor.kinds.base.record_of_designated_times import (
    DesignatedTime,
    TotalSnapshot,
    describe_total,
    make_total_record,
)
from monitor.records.fields import Epsilon, Location, Positive, Whole
from monitor.records.output_records import TYPE_PREFIX, OutputRecord
from monitor.values.wording import PEOPLE

HOT_SPOTS: Final = f"{TYPE_PREFIX}hot_spots"


class HotSpot(Struct, frozen=True):
    """One of the locations with the most people, with its count plus noise that is never negative."""

    location_id: Location
    noisy_count: Annotated[Whole, Meta(description="A certain upper bound.")]


class HotSpotsSnapshot(TotalSnapshot, frozen=True):
    """The locations with the highest noisy counts at a designated time, drawn once. Key: monitor/time."""

    title: ClassVar = "The hot spots at a time"

    kind: Literal["hot_spots"]
    top: Annotated[Positive, Meta(description="The maximum number of locations named.")]
    epsilon: Annotated[Epsilon, Meta(description="The ε of the whole answer, for any number of named locations.")]
    hot_spots: Annotated[tuple[HotSpot, ...], Meta(description="Highest first; empty if unknown.")]

    def describe(self, name: Callable[[str], str], most: int | None) -> str:
        """Name the places with the most people, at most `most` of them."""
        named = [f"{name(spot.location_id)} at most {spot.noisy_count}" for spot in self.hot_spots[:most]]
        left = len(self.hot_spots) - len(named)
        return f"{', '.join(named)}{f' and {left} more' if left else ''} ({PEOPLE}; noisy, drawn once)"

    def list_bounds(self) -> Iterator[tuple[str, int]]:
        """Yield the hot spots."""
        for spot in self.hot_spots:
            yield spot.location_id, spot.noisy_count

    def fold(self, state: AnswerState) -> None:
        """Record that the answer was drawn, and what it charges."""
        self.record_draw(state, self.epsilon)


def make_hot_spots_record(
    *, top: int, epsilon: Fraction, hot_spots: Sequence[tuple[str, int]] | None, **asked: Unpack[DesignatedTime]
) -> OutputRecord:
    """Return the record of the hot spots at a designated time; `hot_spots` is None if the input is not complete."""
    value = HotSpotsSnapshot(
        **describe_total("hot_spots", asked, complete=hot_spots is not None),
        top=top,
        epsilon=epsilon,
        hot_spots=tuple(HotSpot(*spot) for spot in hot_spots or ()),
    )
    return make_total_record(asked, value)
