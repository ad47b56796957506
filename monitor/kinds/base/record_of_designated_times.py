"""What the records of all answers about designated times have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Final, Literal, TypedDict

from msgspec import Meta

from monitor.kinds.answer_state import AnswerState
from monitor.records.fields import (
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
from monitor.time.instants import DAY

RegistryDigest = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of all location ids in file order, each followed by a newline.",
    ),
]
FINAL_FOR: Final = DAY
"""How long the last answer about a designated time stays valid."""

CompleteOrUnknown = Literal["complete", "unknown"]


class DesignatedTime(TypedDict):
    """What the records of all answers about designated times contain. `time` and `as_of` are instants."""

    source: str
    monitor: str
    time: int
    tick: int
    as_of: int
    registry: str
    """The digest of all locations."""
    locations: int
    """The number of locations that the answer is about."""


class TotalSnapshot(Value, frozen=True):
    """What the records of one answer about all places at a designated time have in common.

    A subclass gives `kind` its own kind and `epsilon` its own position.
    """

    title: ClassVar[str]
    key: ClassVar = "monitor/time"

    monitor: Name
    kind: str
    time: Time
    tick: Tick
    as_of: Time
    status: Annotated[
        CompleteOrUnknown, Meta(description="unknown: the input was not complete. The answer is never revised.")
    ]
    final: Annotated[bool, Meta(extra_json_schema={"const": True})]
    registry: RegistryDigest
    locations: Annotated[Whole, Meta(description="The number of all locations.")]

    def __post_init__(self) -> None:
        """Raise ValueError if the name or a time has another form, or the answer is not final."""
        check_name(self.monitor)
        check_time(self.time)
        check_time(self.as_of)
        if not self.final:
            raise ValueError("final is false: expected true")

    @property
    def instant(self) -> int:
        """The designated time, in microseconds since the epoch."""
        return read_time(self.time)

    def describe(self, name: Callable[[str], str], most: int | None) -> str:
        """Describe a complete answer in words. `name` returns what a place is called; at most `most` are named."""
        raise NotImplementedError

    def fold(self, state: AnswerState) -> None:
        """Record that the answer was drawn, and what it charges."""
        raise NotImplementedError

    def list_bounds(self) -> Iterator[tuple[str, int]]:
        """Yield each location that the answer names with a certain upper bound. The default names none."""
        return iter(())

    def record_draw(self, state: AnswerState, epsilon: Fraction) -> None:
        """Record that the answer was drawn and what it charges, unless it is "unknown"."""
        if self.status == "complete":
            state.times.drawn.add((self.monitor, self.instant))
            state.charge((self.kind, self.monitor, self.instant), epsilon)

    def sign(self, state: AnswerState) -> None:
        """Record that the key has signed the answer. It is not repeated, so nothing is to be recorded."""


def describe_total(kind: str, asked: DesignatedTime, *, complete: bool) -> dict[str, Any]:
    """Return the fields of a `TotalSnapshot`."""
    return {
        "monitor": asked["monitor"],
        "kind": kind,
        "time": format_time(asked["time"]),
        "tick": asked["tick"],
        "as_of": format_time(asked["as_of"]),
        "status": "complete" if complete else "unknown",
        "final": True,
        "registry": asked["registry"],
        "locations": asked["locations"],
    }


def make_total_record(asked: DesignatedTime, value: TotalSnapshot) -> OutputRecord:
    """Return the record of the one answer about all places at a designated time."""
    ce_id = name_answer(value.monitor, asked["time"], value.tick)
    key = f"{value.monitor}/{value.time}"
    return make_record(asked["source"], f"{TYPE_PREFIX}{value.kind}", ce_id, asked["as_of"], key, encode(value))
