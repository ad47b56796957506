"""The snapshot of one shard at a designated time of an `at_times` monitor."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, ClassVar, Final, Literal, Unpack

from msgspec import UNSET, Meta, Struct, UnsetType

from monitor.kinds.answer_state import AnswerState
from monitor.kinds.base.record_of_designated_times import CompleteOrUnknown, DesignatedTime, RegistryDigest
from monitor.privacy.published_numbers import TimeNumber
from monitor.records.fields import (
    Epsilon,
    Location,
    Name,
    Positive,
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

AT_TIMES: Final = f"{TYPE_PREFIX}at_times"


class LaterCount(Struct, frozen=True, omit_defaults=True):
    """A noisy count of a location after its first one. Without `epsilon`, it marks its location permanently."""

    tick: Tick
    noisy_count: Whole
    epsilon: Epsilon | None = None


class NoisyCount(Struct, frozen=True, omit_defaults=True):
    """The first noisy count of a location at a time. Without `epsilon`, it marks its location permanently."""

    tick: Tick
    noisy_count: Whole
    epsilon: Annotated[
        Epsilon | None,
        Meta(description="The ε of this noisy count, where a location may have several. Absent: the whole ε."),
    ] = None
    later: Annotated[
        tuple[LaterCount, ...],
        Meta(
            description="The next noisy counts, by tick. Each counts only people whose record was stamped in a slot "
            "after the tick of the one before it."
        ),
    ] = ()
    counted_since: Annotated[
        Time | UnsetType,
        Meta(
            description="as_of of the latest noisy count before this tick, if this tick counted only people whose "
            "record was stamped at or after this instant. If this tick has no noisy count, they are fewer than "
            "`threshold`."
        ),
    ] = UNSET

    def __post_init__(self) -> None:
        """Raise ValueError if the time has another form, or the noisy counts are not in order."""
        if self.counted_since is not UNSET:
            check_time(self.counted_since)
        ticks = [self.tick, *(one.tick for one in self.later)]
        if any(tick >= after for tick, after in pairwise(ticks)):
            raise ValueError("the noisy counts of a location are not in the order of their ticks")

    @property
    def numbers(self) -> tuple[TimeNumber, ...]:
        """The noisy counts, by tick."""
        later = (TimeNumber(one.tick, one.noisy_count, one.epsilon) for one in self.later)
        return TimeNumber(self.tick, self.noisy_count, self.epsilon), *later

    @property
    def upper_bound(self) -> int:
        """A certain upper bound of the people who were reported before the as_of of the latest noisy count."""
        return sum(number.noisy_count for number in self.numbers)


class AtTimesSnapshot(Value, frozen=True):
    """The state of one shard at a designated time (Algorithm 4). Key: monitor/time/shard.

    If the status is complete, every location of the shard that is not listed is safe. The snapshot that draws lower
    bounds also has `at_least_epsilon` and `counts_at_least` (docs/rules.md, rule 13).
    """

    title: ClassVar = "All locations of a shard at a time"
    key: ClassVar = "monitor/time/shard"

    monitor: Name
    kind: Literal["at_times"]
    time: Time
    shard: Whole
    shards: Positive
    tick: Tick
    as_of: Time
    status: CompleteOrUnknown
    final: Annotated[bool, Meta(description="Whether this is the last tick about the time, with any status.")]
    registry: RegistryDigest
    locations: Annotated[Whole, Meta(description="The number of locations in the shard.")]
    threshold: Positive
    epsilon: Epsilon
    noisy_counts: dict[Location, NoisyCount]
    answers_per_time: Annotated[
        Positive, Meta(description="The most noisy counts of a location about the time (k). Absent: one.")
    ] = 1
    at_least_epsilon: Annotated[Epsilon | None, Meta(description="The ε of the lower bounds, if there are any.")] = None
    counts_at_least: Annotated[
        dict[Location, Positive] | UnsetType,
        Meta(
            description="Certain lower bounds: at least this many people, who consented, were there. Drawn once, in "
            "the final snapshot if it is complete; locations with 0 are left out."
        ),
    ] = UNSET

    def __post_init__(self) -> None:
        """Raise ValueError if the name or a time has another form."""
        check_name(self.monitor)
        check_time(self.time)
        check_time(self.as_of)

    @property
    def instant(self) -> int:
        """The designated time, in microseconds since the epoch."""
        return read_time(self.time)

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """(tick, noisy count) of the first noisy count, by location."""
        return {location: (noisy.tick, noisy.noisy_count) for location, noisy in self.noisy_counts.items()}

    def is_below_since(self, location: str) -> bool:
        """Return whether this tick counted fewer people than the threshold since the latest noisy count of a location.

        Then nothing is said about the people who were reported before, so the location is not safe.
        """
        noisy = self.noisy_counts[location]
        counted = self.status == "complete" and noisy.counted_since is not UNSET
        return counted and noisy.numbers[-1].tick != self.tick

    def find_upper_bound(self, location: str) -> int | None:
        """Return a certain upper bound of the people at a location of the shard by all records before `as_of`.

        Each number counts the records since the one before it. If this tick did not count those since the latest
        number, as after the last number, more people may have been reported: the result is None.
        """
        if self.status != "complete":
            return None
        if location not in self.noisy_counts:
            return self.threshold - 1
        noisy = self.noisy_counts[location]
        if noisy.numbers[-1].tick == self.tick:
            return noisy.upper_bound
        return None if noisy.counted_since is UNSET else noisy.upper_bound + self.threshold - 1

    def fold(self, state: AnswerState) -> None:
        """Record the noisy counts and lower bounds, which are not drawn again, and what they charge."""
        about = self.monitor, self.instant
        state.times.noisy.setdefault(about, {})
        new = [state.times.spend(*about, location, noisy.numbers) for location, noisy in self.noisy_counts.items()]
        if any(new):
            state.charge(("at_times", *about), self.epsilon)
        if self.at_least_epsilon is not None:
            state.times.record_bounds(*about, self.shard, self.shards)
            state.charge(("at_least", *about), self.at_least_epsilon)

    def sign(self, state: AnswerState) -> None:
        """Record that the key has signed the noisy counts, which are folded already."""
        for location, noisy in self.noisy_counts.items():
            state.times.sign(self.monitor, self.instant, location, noisy.numbers)

    @property
    def bounds(self) -> Mapping[str, int]:
        """The lower bounds by location; empty if the snapshot drew none."""
        return self.counts_at_least or {}


def make_at_times_record(  # noqa: PLR0913  # the fields of a record
    *,
    shard: int,
    shards: int,
    complete: bool,
    final: bool,
    threshold: int,
    epsilon: Fraction,
    noisy_counts: Mapping[str, NoisyCount],
    answers_per_time: int = 1,
    counts_at_least: tuple[Fraction, Mapping[str, int]] | None = None,
    **asked: Unpack[DesignatedTime],
) -> OutputRecord:
    """Return the snapshot of one shard at a designated time.

    `counts_at_least`: the ε of the lower bounds that this tick drew, and the bounds by location; None if it drew none.
    """
    value = AtTimesSnapshot(
        monitor=asked["monitor"],
        kind="at_times",
        time=format_time(asked["time"]),
        shard=shard,
        shards=shards,
        tick=asked["tick"],
        as_of=format_time(asked["as_of"]),
        status="complete" if complete else "unknown",
        final=final,
        registry=asked["registry"],
        locations=asked["locations"],
        threshold=threshold,
        epsilon=epsilon,
        noisy_counts=dict(noisy_counts),
        answers_per_time=answers_per_time,
        at_least_epsilon=None if counts_at_least is None else counts_at_least[0],
        counts_at_least=UNSET if counts_at_least is None else dict(counts_at_least[1]),
    )
    key = f"{value.monitor}/{value.time}/{shard}"
    ce_id = name_answer(value.monitor, asked["time"], value.tick, shard)
    return make_record(asked["source"], AT_TIMES, ce_id, asked["as_of"], key, encode(value))
