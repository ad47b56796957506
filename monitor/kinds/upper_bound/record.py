"""The record of one location at the end of one bucket of an `upper_bound` monitor."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from monitor.kinds.answer_state import AnswerState
from monitor.privacy.published_numbers import Number
from monitor.records.fields import (
    Epsilon,
    Location,
    Name,
    Tick,
    Time,
    Value,
    Whole,
    check_name,
    check_time,
    encode,
    format_time,
    read_time,
)
from monitor.records.output_records import TYPE_PREFIX, OutputRecord, make_record, name_answer

UPPER_BOUND: Final = f"{TYPE_PREFIX}upper_bound"

PublishedNumber = Annotated[
    Number,
    Meta(
        description="The number of one bucket. tick: its last slot; bucket and window: in slots; until = "
        "tick + W + F - 1, the last tick whose window can contain a visit that the number counts.",
        extra_json_schema={"properties": {"noisy_count": {"minimum": 0}, "bucket": {"minimum": 1}}},
    ),
]


class UpperBoundAlert(Value, frozen=True, kw_only=True):
    """A certain upper bound of the people at one location, at the end of a bucket. Key: monitor/location_id."""

    title: ClassVar = "An upper bound of a location"
    key: ClassVar = "monitor/location_id"

    monitor: Name
    kind: Literal["upper_bound"]
    location_id: Location
    tick: Tick
    as_of: Time
    window_start: Annotated[Time, Meta(description="The start of the window of this tick.")]
    bucket_start: Annotated[Time, Meta(description="The start of the bucket that ends with this tick.")]
    status: Annotated[
        Literal["complete", "unknown"],
        Meta(description="unknown: the number of a bucket is missing, so there is no bound."),
    ]
    epsilon: Annotated[Epsilon, Meta(description="The ε of one number.")]
    numbers: Annotated[
        tuple[PublishedNumber, ...],
        Meta(description="The numbers with until ≥ tick, including those of this tick, by tick."),
    ]
    count_at_most: Annotated[
        Whole | UnsetType,
        Meta(
            description="The sum of the numbers: a certain upper bound of the people in the window. Only if complete."
        ),
    ] = UNSET

    def __post_init__(self) -> None:
        """Raise ValueError if a text has another form, the bound is missing, or a number cannot be that of a bucket."""
        check_name(self.monitor)
        for time in (self.as_of, self.window_start, self.bucket_start):
            check_time(time)
        if (self.status == "complete") == (self.count_at_most is UNSET):
            raise ValueError("count_at_most is set if and only if the status is complete")
        if any(number.noisy_count < 0 or number.bucket < 1 for number in self.numbers):
            raise ValueError("a number is negative, or its bucket has no slot")

    @property
    def upper_bound(self) -> int | None:
        """A certain upper bound of the number of people; None if the answer has none."""
        return None if self.count_at_most is UNSET else self.count_at_most

    @property
    def valid_until(self) -> int:
        """The instant until which the bound is shown: two buckets after its as_of. A newer one comes after one."""
        as_of = read_time(self.as_of)
        return as_of + 2 * (as_of - read_time(self.bucket_start))

    def fold(self, state: AnswerState) -> None:
        """Record the numbers, which are spent."""
        state.spend(self.monitor, self.location_id, self.numbers)

    def sign(self, state: AnswerState) -> None:
        """Record that the key has signed the numbers, which are folded already."""
        state.sign(self.monitor, self.location_id, self.numbers)


def make_upper_bound_record(  # noqa: PLR0913  # keyword arguments: the fields of the record
    *,
    source: str,
    monitor: str,
    location_id: str,
    epsilon: Fraction,
    tick: int,
    as_of: int,
    window_start: int,
    bucket_start: int,
    numbers: tuple[Number, ...],
    bound: int | None,
) -> OutputRecord:
    """Return the record of one location at the end of a bucket. Times are instants.

    `epsilon`: that of one number. `bound`: None if unknown.
    """
    value = UpperBoundAlert(
        monitor=monitor,
        kind="upper_bound",
        location_id=location_id,
        tick=tick,
        as_of=format_time(as_of),
        window_start=format_time(window_start),
        bucket_start=format_time(bucket_start),
        status="unknown" if bound is None else "complete",
        epsilon=epsilon,
        numbers=numbers,
        count_at_most=UNSET if bound is None else bound,
    )
    ce_id = name_answer(monitor, location_id, tick)
    return make_record(source, UPPER_BOUND, ce_id, as_of, f"{monitor}/{location_id}", encode(value))
