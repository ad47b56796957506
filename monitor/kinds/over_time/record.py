"""The record of one location at one tick of an `over_time` monitor."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from monitor.kinds.answer_state import AnswerState
from monitor.privacy.over_time import Mark, OverTimeAnswer, OverTimeRule, Status, compute_p_value
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
)
from monitor.records.output_records import TYPE_PREFIX, OutputRecord, make_cloud_event_headers, name_answer

OVER_TIME: Final = f"{TYPE_PREFIX}over_time"

_OWN_KEYS: Final[dict[Status, tuple[str, ...]]] = {
    "safe": (),
    "noisy_count": ("noisy_count", "count_at_most", "p_value"),
    "paused": ("resumes_at",),
    "unknown": (),
}
_DESCRIPTIONS: Final[dict[Status, str]] = {
    "safe": "Fewer than `threshold` distinct target people, since `counted_since` if it is set. This is always true.",
    "noisy_count": "The count plus noise that is never negative, so it is a certain upper bound.",
    "paused": "The privacy budget of the window is spent.",
    "unknown": "The input was not known to be complete in time. The answer is never revised.",
}

RunningMark = Annotated[
    Mark,
    Meta(
        description="A noisy answer whose mark still runs: until = tick + W + F - 1.",
        extra_json_schema={"properties": {"noisy_count": {"minimum": 0}}},
    ),
]


class OverTimeAlert(Value, frozen=True, kw_only=True):
    """The state of one location at one tick (Algorithm 3). Key: monitor/location_id."""

    title: ClassVar = "A location over time"
    key: ClassVar = "monitor/location_id"
    conditions: ClassVar[dict[str, Any]] = {
        "oneOf": [
            {"properties": {"status": {"const": status}}, "required": list(keys), "description": _DESCRIPTIONS[status]}
            for status, keys in _OWN_KEYS.items()
        ]
    }

    monitor: Name
    kind: Literal["over_time"]
    location_id: Location
    tick: Tick
    as_of: Time
    window_start: Annotated[Time, Meta(description="The start of the window of this tick.")]
    counted_since: Annotated[
        Time | UnsetType,
        Meta(
            description="as_of of the latest noisy answer whose mark runs: only people whose record was stamped at or "
            "after this instant are counted. Absent: all people in the window are counted."
        ),
    ] = UNSET
    status: Status
    threshold: Positive
    epsilon: Annotated[Epsilon, Meta(description="The ε of one noisy answer.")]
    answers: Annotated[
        tuple[RunningMark, ...],
        Meta(description="The noisy answers with until ≥ tick, including this one, by tick."),
    ]
    noisy_count: Whole | UnsetType = UNSET
    count_at_most: Annotated[Whole | UnsetType, Meta(description="A certain upper bound.")] = UNSET
    p_value: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | UnsetType,
        Meta(description="Largest chance per update of an answer this high from fewer than `threshold` people."),
    ] = UNSET
    resumes_at: Annotated[Time | UnsetType, Meta(description="as_of of the next tick that can answer.")] = UNSET

    def __post_init__(self) -> None:
        """Raise ValueError if a text has another form, a key of the status is missing, or a noisy count is negative."""
        check_name(self.monitor)
        check_time(self.as_of)
        check_time(self.window_start)
        if self.resumes_at is not UNSET:
            check_time(self.resumes_at)
        if self.counted_since is not UNSET:
            check_time(self.counted_since)
        if self.status != "safe":  # most records are safe, and need no key of their own
            for key in _OWN_KEYS[self.status]:
                if getattr(self, key) is UNSET:
                    raise ValueError(f"a record with the status {self.status} has no {key}")
        for mark in self.answers:
            if mark.noisy_count < 0:
                raise ValueError("a noisy count is negative")

    @property
    def is_below_since(self) -> bool:
        """Whether the answer is "safe" only about what was reported since a noisy count, and not about the window."""
        return self.status == "safe" and self.counted_since is not UNSET

    @property
    def upper_bound(self) -> int | None:
        """A certain upper bound of the number of people who were counted; None if the answer has none."""
        if self.status == "safe":
            return self.threshold - 1
        return None if self.status != "noisy_count" or self.count_at_most is UNSET else self.count_at_most

    def fold(self, state: AnswerState) -> None:
        """Record the marks, which are spent."""
        state.spend(self.monitor, self.location_id, self.answers)

    def sign(self, state: AnswerState) -> None:
        """Record that the key has signed the marks, which are folded already."""
        state.sign(self.monitor, self.location_id, self.answers)


class OverTimeWriter:
    """A writer of the records of one `over_time` monitor at one tick. Times are instants.

    A tick writes a record for each watched place, so this class keeps what the records have in common.
    """

    def __init__(self, source: str, monitor: str, tick: int, as_of: int, window_start: int) -> None:
        self._monitor = monitor
        self._tick = tick
        self._as_of, self._window_start = format_time(as_of), format_time(window_start)
        self._timestamp_ms = as_of // 1_000
        before, _, *after = make_cloud_event_headers(source, OVER_TIME, "", as_of)
        self._before, self._after = before, after

    def write(
        self,
        location_id: str,
        rule: OverTimeRule,
        answer: OverTimeAnswer,
        resumes_at: int | None = None,
        counted_since: int | None = None,
    ) -> OutputRecord:
        """Return the record of one location. `resumes_at` is for a pause, `counted_since` for a fresh count."""
        epsilon, most = rule.answer_epsilon, answer.noisy_count
        value = OverTimeAlert(
            monitor=self._monitor,
            kind="over_time",
            location_id=location_id,
            tick=self._tick,
            as_of=self._as_of,
            window_start=self._window_start,
            counted_since=UNSET if counted_since is None else format_time(counted_since),
            status=answer.status,
            threshold=rule.threshold,
            epsilon=epsilon,
            answers=answer.marks,
            noisy_count=UNSET if most is None else most,
            count_at_most=UNSET if most is None else most,
            p_value=UNSET if most is None else compute_p_value(epsilon, rule.threshold, most),
            resumes_at=UNSET if resumes_at is None else format_time(resumes_at),
        )
        key = f"{self._monitor}/{location_id}"
        headers = (self._before, ("ce_id", name_answer(self._monitor, location_id, self._tick).encode()), *self._after)
        return OutputRecord(key.encode(), encode(value), headers, self._timestamp_ms)


def make_over_time_record(  # noqa: PLR0913  # keyword arguments: the fields of the record
    *,
    source: str,
    monitor: str,
    location_id: str,
    rule: OverTimeRule,
    tick: int,
    as_of: int,
    window_start: int,
    answer: OverTimeAnswer,
    resumes_at: int | None,
    counted_since: int | None = None,
) -> OutputRecord:
    """Return the record of one location at one tick, with arguments as of `OverTimeWriter`. Times are instants."""
    writer = OverTimeWriter(source, monitor, tick, as_of, window_start)
    return writer.write(location_id, rule, answer, resumes_at, counted_since)
