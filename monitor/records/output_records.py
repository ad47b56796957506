"""The output records: alerts and ledger records, as CloudEvents in binary mode (docs/interface.md, section 4).

The models are the contract. The `…_record` functions write the same bytes, but much faster. They write the fields in a
fixed order, so the same answer always has the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple, TypedDict, Unpack
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, RootModel

from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.over_time import Mark, OverTimeAnswer, OverTimeRule, compute_p_value
from monitor.records.fields import EPSILON_PATTERN, encode, format_time
from monitor.records.visits import ID_BYTES, remove_default

TYPE_PREFIX: Final = "org.location-monitor."
OVER_TIME: Final = f"{TYPE_PREFIX}over_time"
AT_TIMES: Final = f"{TYPE_PREFIX}at_times"
HOT_SPOTS: Final = f"{TYPE_PREFIX}hot_spots"
DWELL: Final = f"{TYPE_PREFIX}dwell"
OWNER: Final = f"{TYPE_PREFIX}owner"
LEDGER: Final = f"{TYPE_PREFIX}ledger"

_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z$"
Time = Annotated[str, Field(pattern=_TIME, json_schema_extra={"format": "date-time"}, description="UTC, with Z.")]
Epsilon = Annotated[str, Field(pattern=EPSILON_PATTERN, description='ε, reduced: "1/2" or "3".')]
Tick = Annotated[int, Field(description="Tick t closes slot t, at its as_of.")]
Location = Annotated[str, Field(min_length=1, max_length=ID_BYTES)]
Name = Annotated[str, Field(pattern="^[A-Za-z0-9_-]+$")]
People = Annotated[int, Field(ge=0)]
Registry = Annotated[
    str,
    Field(
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of all location ids in file order, each followed by a newline.",
    ),
]


class Contract(BaseModel):
    """A contract of an output value. Unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class CloudEventHeaders(BaseModel):
    """The headers of every output record. All are strings on the wire."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    ce_specversion: Literal["1.0"]
    ce_id: str = Field(description="Records with the same ce_id have the same bytes; a record may be delivered twice.")
    ce_source: str = Field(description="The name of the service.")
    ce_type: str = Field(description="Skip records of unknown types.")
    ce_time: Time = Field(description="as_of of the tick; for records without a tick, when they were written.")
    content_type: Literal["application/json"] = Field(alias="content-type")


class Answer(Contract):
    """A noisy answer whose mark still runs: until = tick + W + F - 1."""

    tick: Tick
    noisy_count: People
    epsilon: Epsilon
    until: Tick


class _OverTime(Contract):
    monitor: Name
    kind: Literal["over_time"]
    location_id: Location
    tick: Tick
    as_of: Time
    window_start: Time = Field(description="The start of the window of this tick.")
    status: str
    threshold: int = Field(ge=1)
    epsilon: Epsilon = Field(description="The ε of one noisy answer.")
    answers: list[Answer] = Field(description="The noisy answers with until ≥ tick, including this one, by tick.")


class SafeAlert(_OverTime):
    """There are fewer than `threshold` distinct target people. This is always true."""

    status: Literal["safe"]


class NoisyCountAlert(_OverTime):
    """The count plus noise that is never negative, so it is a certain upper bound."""

    status: Literal["noisy_count"]
    noisy_count: People
    count_at_most: People = Field(description="A certain upper bound.")
    p_value: float = Field(
        ge=0, le=1, description="Largest chance per update of an answer this high from fewer than `threshold` people."
    )


class PausedAlert(_OverTime):
    """The privacy budget of the window is spent."""

    status: Literal["paused"]
    resumes_at: Time = Field(description="as_of of the next tick that can answer.")


class UnknownAlert(_OverTime):
    """The input was not known to be complete in time. The answer is never revised."""

    status: Literal["unknown"]


class OverTimeAlert(
    RootModel[Annotated[SafeAlert | NoisyCountAlert | PausedAlert | UnknownAlert, Field(discriminator="status")],]
):
    """The state of one location at one tick (Algorithm 3). Key: monitor/location_id."""


class NoisyCount(Contract):
    """A noisy answer at a designated time. It marks its location permanently."""

    tick: Tick
    noisy_count: People


class AtTimesSnapshot(Contract):
    """The state of one shard at a designated time (Algorithm 4). Key: monitor/time/shard.

    If the status is complete, every location of the shard that is not listed is safe. The snapshot that draws lower
    bounds also has `at_least_epsilon` and `counts_at_least` (docs/rules.md, rule 13).
    """

    monitor: Name
    kind: Literal["at_times"]
    time: Time
    shard: int = Field(ge=0)
    shards: int = Field(ge=1)
    tick: Tick
    as_of: Time
    status: Literal["complete", "unknown"]
    final: bool = Field(description="Whether this is the last tick about the time, with any status.")
    registry: Registry
    locations: int = Field(ge=0, description="The number of locations in the shard.")
    threshold: int = Field(ge=1)
    epsilon: Epsilon
    noisy_counts: dict[Location, NoisyCount]
    at_least_epsilon: Epsilon | None = Field(
        default=None, json_schema_extra=remove_default, description="The ε of the lower bounds, if there are any."
    )
    counts_at_least: dict[Location, Annotated[int, Field(ge=1)]] = Field(
        default={},
        json_schema_extra=remove_default,
        description="Certain lower bounds: at least this many people, who consented, were there. Drawn once, in the "
        "final snapshot if it is complete; locations with 0 are left out.",
    )


class HotSpot(Contract):
    """One of the locations with the most people, with its count plus noise that is never negative."""

    location_id: Location
    noisy_count: People = Field(description="A certain upper bound.")


class TotalSnapshot(Contract):
    """What the records of one answer about all places at a designated time have in common."""

    monitor: Name
    kind: str
    time: Time
    tick: Tick
    as_of: Time
    status: Literal["complete", "unknown"] = Field(
        description="unknown: the input was not complete. The answer is never revised."
    )
    final: Literal[True]
    registry: Registry
    locations: int = Field(ge=0, description="The number of all locations.")


class HotSpotsSnapshot(TotalSnapshot):
    """The locations with the highest noisy counts at a designated time, drawn once. Key: monitor/time."""

    kind: Literal["hot_spots"]
    top: int = Field(ge=1, description="The maximum number of locations named.")
    epsilon: Epsilon = Field(description="The ε of the whole answer, for any number of named locations.")
    hot_spots: list[HotSpot] = Field(description="Highest first; empty if unknown.")


class OutputRecord(NamedTuple):
    """An output record as bytes. The timestamp (ms) is as_of of the tick, or the time of writing without a tick."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


_quote_source = lru_cache(maxsize=16)(quote)


def make_cloud_event_headers(source: str, ce_type: str, ce_id: str, time: int) -> tuple[tuple[str, bytes], ...]:
    """Return the headers of a record. `time` is an instant."""
    return (
        ("ce_specversion", b"1.0"),
        ("ce_id", ce_id.encode()),
        ("ce_source", _quote_source(source, safe="").encode()),
        ("ce_type", ce_type.encode()),
        ("ce_time", format_time(time).encode()),
        ("content-type", b"application/json"),
    )


def name_answer(monitor: str, about: str | int, tick: int, shard: int | None = None) -> str:
    """Return the ce_id of an answer about a location (its id), or about a designated time (an instant)."""
    subject = about if isinstance(about, str) else format_time(about)
    return f"{monitor}/{subject}/{tick}" if shard is None else f"{monitor}/{subject}/{shard}/{tick}"


def make_record(source: str, ce_type: str, ce_id: str, time: int, key: str, value: bytes) -> OutputRecord:
    """Return a record. `time` is the instant of its ce_time and of its timestamp."""
    return OutputRecord(key.encode(), value, make_cloud_event_headers(source, ce_type, ce_id, time), time // 1_000)


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
        self, location_id: str, rule: OverTimeRule, answer: OverTimeAnswer, resumes_at: int | None = None
    ) -> OutputRecord:
        """Return the record of one location. `resumes_at` is set only for a pause."""
        value: dict[str, Any] = {
            "monitor": self._monitor,
            "kind": "over_time",
            "location_id": location_id,
            "tick": self._tick,
            "as_of": self._as_of,
            "window_start": self._window_start,
            "status": answer.status,
            "threshold": rule.threshold,
            "epsilon": format_epsilon(rule.answer_epsilon),
            "answers": [_describe_mark(mark) for mark in answer.marks],
        }
        if answer.noisy_count is not None:
            value["noisy_count"] = value["count_at_most"] = answer.noisy_count
            value["p_value"] = compute_p_value(rule.answer_epsilon, rule.threshold, answer.noisy_count)
        if resumes_at is not None:
            value["resumes_at"] = format_time(resumes_at)
        key = f"{self._monitor}/{location_id}"
        ce_id = name_answer(self._monitor, location_id, self._tick)
        headers = (self._before, ("ce_id", ce_id.encode()), *self._after)
        return OutputRecord(key.encode(), encode(value), headers, self._timestamp_ms)


def _describe_mark(mark: Mark) -> dict[str, Any]:
    epsilon = format_epsilon(mark.epsilon)
    return {"tick": mark.tick, "noisy_count": mark.noisy_count, "epsilon": epsilon, "until": mark.until}


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
) -> OutputRecord:
    """Return the record of one location at one tick. Times are instants; `resumes_at` is set only for a pause."""
    return OverTimeWriter(source, monitor, tick, as_of, window_start).write(location_id, rule, answer, resumes_at)


class DesignatedTime(TypedDict):
    """What the records of all answers about designated times contain. `time` and `as_of` are instants.

    `registry` is the digest of all locations. `locations` is the number of locations that the answer is about.
    """

    source: str
    monitor: str
    time: int
    tick: int
    as_of: int
    registry: str
    locations: int


def make_at_times_record(
    *,
    shard: int,
    shards: int,
    complete: bool,
    final: bool,
    threshold: int,
    epsilon: Fraction,
    noisy_counts: Mapping[str, tuple[int, int]],
    counts_at_least: tuple[Fraction, Mapping[str, int]] | None = None,
    **asked: Unpack[DesignatedTime],
) -> OutputRecord:
    """Return the snapshot of one shard at a designated time. `noisy_counts` maps location to (tick, noisy count).

    `counts_at_least`: the ε of the lower bounds that this tick drew, and the bounds by location; None if it drew none.
    """
    value: dict[str, Any] = {
        "monitor": asked["monitor"],
        "kind": "at_times",
        "time": format_time(asked["time"]),
        "shard": shard,
        "shards": shards,
        "tick": asked["tick"],
        "as_of": format_time(asked["as_of"]),
        "status": "complete" if complete else "unknown",
        "final": final,
        "registry": asked["registry"],
        "locations": asked["locations"],
        "threshold": threshold,
        "epsilon": format_epsilon(epsilon),
        "noisy_counts": {
            location: {"tick": at, "noisy_count": noisy_count} for location, (at, noisy_count) in noisy_counts.items()
        },
    }
    if counts_at_least is not None:
        value["at_least_epsilon"], value["counts_at_least"] = format_epsilon(counts_at_least[0]), counts_at_least[1]
    key = f"{asked['monitor']}/{value['time']}/{shard}"
    ce_id = name_answer(asked["monitor"], asked["time"], asked["tick"], shard)
    return make_record(asked["source"], AT_TIMES, ce_id, asked["as_of"], key, encode(value))


def make_hot_spots_record(
    *, top: int, epsilon: Fraction, hot_spots: Sequence[tuple[str, int]] | None, **asked: Unpack[DesignatedTime]
) -> OutputRecord:
    """Return the record of the hot spots at a designated time; `hot_spots` is None if the input is not complete."""
    own = {
        "top": top,
        "epsilon": format_epsilon(epsilon),
        "hot_spots": [
            {"location_id": location, "noisy_count": noisy_count} for location, noisy_count in hot_spots or ()
        ],
    }
    return make_total_record(HOT_SPOTS, asked, own, complete=hot_spots is not None)


def make_total_record(ce_type: str, asked: DesignatedTime, own: Mapping[str, Any], *, complete: bool) -> OutputRecord:
    """Return the record of the one answer about all places at a designated time. `own`: the fields of its kind."""
    value = {
        "monitor": asked["monitor"],
        "kind": ce_type.removeprefix(TYPE_PREFIX),
        "time": format_time(asked["time"]),
        "tick": asked["tick"],
        "as_of": format_time(asked["as_of"]),
        "status": "complete" if complete else "unknown",
        "final": True,
        "registry": asked["registry"],
        "locations": asked["locations"],
        **own,
    }
    key = f"{asked['monitor']}/{value['time']}"
    ce_id = name_answer(asked["monitor"], asked["time"], asked["tick"])
    return make_record(asked["source"], ce_type, ce_id, asked["as_of"], key, encode(value))
