"""The form of output records (docs/interface.md, section 4), and how they are read from a file or a consumer.

Anybody who may write to the output topic can forge a record. So msgspec checks the type and the range of every field
that the audit uses. These types share nothing with the contracts of the service.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import time
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from monitor.audit.configuration import Grid
from monitor.audit.parsing import AuditError, format_utc, parse_duration, parse_instant

_MOST: Final = 2**63 - 1
_LONGEST_EPSILON: Final = 400

Whole = Annotated[int, Meta(ge=-_MOST, le=_MOST)]
People = Annotated[int, Meta(ge=0, le=_MOST)]
Positive = Annotated[int, Meta(ge=1, le=_MOST)]
Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
Status = Literal["complete", "unknown"]


class FormError(Exception):
    """A record is not in the form of docs/interface.md. The message names a field, and quotes nothing of the record."""


class Instant(int):
    """An instant in microseconds, written as a time in UTC with Z."""


class Mark(Struct, frozen=True):
    """A noisy answer whose ε counts as spent at its location up to the tick `until`."""

    tick: Whole
    noisy_count: People
    epsilon: Fraction
    until: Whole


class Answer(Struct, frozen=True, kw_only=True):
    """The fields of every answer."""

    monitor: str
    kind: str
    tick: Whole
    as_of: Instant
    epsilon: Fraction


class OverTime(Answer, frozen=True, kw_only=True, tag_field="status"):
    """An answer about one location over time. Its subclass is its status."""

    location_id: str
    window_start: Instant
    threshold: Positive
    answers: list[Mark]

    @property
    def status(self) -> str:
        """The status."""
        return str(self.__struct_config__.tag)


class Safe(OverTime, frozen=True, kw_only=True, tag="safe"):
    """The location is safe."""


class Noisy(OverTime, frozen=True, kw_only=True, tag="noisy_count"):
    """The answer is a noisy count."""

    noisy_count: People
    count_at_most: People
    p_value: float


class Paused(OverTime, frozen=True, kw_only=True, tag="paused"):
    """The ε of the location is spent."""

    resumes_at: Instant


class Unknown(OverTime, frozen=True, kw_only=True, tag="unknown"):
    """The input was not complete."""


class Timed(Answer, frozen=True, kw_only=True):
    """The common fields of answers about a designated time."""

    time: Instant
    status: Status
    final: bool
    registry: str
    locations: People


class NoisyCount(Struct, frozen=True):
    """A noisy count in a snapshot."""

    tick: Whole
    noisy_count: People


class AtTimes(Timed, frozen=True, kw_only=True):
    """A snapshot of one shard. Only the one that draws lower bounds has the last two fields."""

    shard: People
    shards: Positive
    threshold: Positive
    noisy_counts: dict[str, NoisyCount]
    at_least_epsilon: Fraction | None = None
    counts_at_least: dict[str, Positive] | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Check that the bounds have their ε."""
        if (self.at_least_epsilon is None) is not (self.counts_at_least is UNSET):
            raise ValueError


class HotSpot(Struct, frozen=True):
    """A location with its noisy count."""

    location_id: str
    noisy_count: People


class HotSpots(Timed, frozen=True, kw_only=True):
    """The hot spots at a designated time."""

    top: Positive
    hot_spots: list[HotSpot]


class Dwell(Timed, frozen=True, kw_only=True):
    """The dwell times at a designated time. All numbers are null if the status is unknown."""

    noise: str
    longest_visit_seconds: Positive
    visits_per_person: Positive
    visit_seconds: Whole | None
    spare_seconds: Whole | None
    visits: float | None
    mean_seconds: float | None


class LocationCharges(Struct, frozen=True):
    """The charges of an `over_time` monitor: k, W (in slots), and its locations by ε_l."""

    monitor: str
    answers: Positive
    window: Positive
    shares: dict[str, list[str]]

    def __post_init__(self) -> None:
        """Check the keys of `shares`."""
        for epsilon in self.shares:
            parse_recorded_epsilon(epsilon)


class TimeCharges(Struct, frozen=True):
    """The charges of a monitor of designated times."""

    monitor: str
    kind: Literal["at_times", "hot_spots", "at_least", "dwell"]
    epsilon: Fraction
    horizon: str
    at: list[str]
    timezone: str | None
    instants: Digest

    def __post_init__(self) -> None:
        """Check the times and the horizon."""
        parse_duration(self.horizon)
        self.list_moments()

    def list_moments(self) -> frozenset[int | str]:
        """Return the designated times: instants, and times of day as HH:MM:SS."""
        return frozenset(
            parse_instant(text) if "T" in text.upper() else time.fromisoformat(text).isoformat() for text in self.at
        )


class Charges(Struct, frozen=True):
    """The charges of a configuration. `max_lead` is F. `places` or `times` is None if it was too long."""

    digest: Digest
    max_lead: People
    places: list[LocationCharges] | None
    times: list[TimeCharges] | None

    @property
    def are_stated(self) -> bool:
        """Whether the owner did not leave any out."""
        return self.places is not None and self.times is not None


class Owner(Struct, frozen=True):
    """The owner record of an output partition.

    `tick`: a tick that had nothing to answer. `incomplete`: a tick whose missing answers are lost.
    """

    service: str
    fingerprint: str
    input_topic_id: str
    partitions: Positive
    lost_at: Instant | None
    input_since: Whole | None
    input_partitions: People
    charges: Charges | None = None
    tick: Whole | None = None
    incomplete: Whole | None = None


class Start(Struct, frozen=True):
    """The first record of an output partition."""

    ledger: Literal[1]
    service: str
    partitions: Positive
    lost_at: Instant | None
    input_topic_id: str


class Checkpoint(Struct, frozen=True):
    """The signed end of a tick, which `signatures.py` verifies."""

    kind: Literal["checkpoint"]
    tick: Whole
    as_of: Instant
    note: str
    hashes: list[str]


ANSWERS: Final[dict[str, Any]] = {
    "over_time": Safe | Noisy | Paused | Unknown,
    "at_times": AtTimes,
    "hot_spots": HotSpots,
    "dwell": Dwell,
}
OWNERS: Final[dict[str, Any]] = {"owner": Owner, "ledger": Start}
CHECKPOINT: Final = "checkpoint"
FORMS: Final[dict[str, Any]] = ANSWERS | OWNERS | {CHECKPOINT: Checkpoint}


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the output topic, which may have any form.

    `position`: where it was read, in words. `written`: all its bytes. `form`: its fields; None if they do not have the
    form of its kind, and `fault` is then the reason. `tick`, `monitor`: those of the value, also without a form.
    """

    position: str
    partition: int
    key: str
    headers: Mapping[str, str]
    written: bytes
    form: Any
    fault: str
    tick: int | None
    monitor: str

    @property
    def kind(self) -> str:
        """The last part of its ce_type; empty if it has none."""
        return self.headers.get("ce_type", "").rpartition(".")[2]

    @property
    def ce_id(self) -> str:
        """Its ce_id; empty if it has none."""
        return self.headers.get("ce_id", "")


def read_file(path: Path, grid: Grid) -> Iterator[Record]:
    """Yield the records of an OUT file (docs/interface.md, section 2).

    Raises:
        AuditError: the file cannot be read, or a line is not a record.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                yield _parse_line(path, number, line, grid)
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{path} cannot be read: {error}") from error


def _parse_line(path: Path, number: int, line: str, grid: Grid) -> Record:
    position = f"line {number}"
    try:
        fields = json.loads(line)
        partition, value = int(fields.get("partition", 0)), json.dumps(fields["value"]).encode()
        key, headers = str(fields["key"]), {name: str(text) for name, text in fields["headers"].items()}
    except RecursionError:  # the value is nested too deeply to be parsed
        return _make_record(position, 0, "", {}, b"", line.encode(), grid)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AuditError(f"{path}, line {number}: expected a record of the output topic: {error!r}") from error
    return _make_record(position, partition, key, headers, value, repr((key, headers, value)).encode(), grid)


def decode_record(position: str, partition: int, record: Any, grid: Grid) -> Record:
    """Decode a record of a kafka-python consumer. If the key or a header is not text, it is left out."""
    written = repr((record.key, record.headers, record.value)).encode()
    try:
        key, headers = record.key.decode(), {name: text.decode() for name, text in record.headers}
    except (ValueError, TypeError, AttributeError):
        key, headers = "", {}
    return _make_record(position, partition, key, headers, record.value or b"", written, grid)


def _make_record(  # the parts of a record
    position: str, partition: int, key: str, headers: dict[str, str], value: bytes, written: bytes, grid: Grid
) -> Record:
    parsed, form, fault = None, None, ""
    kind = headers.get("ce_type", "").rpartition(".")[2]
    try:
        parsed = msgspec.json.decode(value)
        form = msgspec.convert(parsed, FORMS.get(kind, Any), dec_hook=_parse_text)
    except msgspec.ValidationError as error:
        fault = _explain(error)
    except (ValueError, RecursionError):
        fault = "expected strict JSON"
    found = parsed if isinstance(parsed, dict) else {}
    tick, monitor = found.get("tick"), found.get("monitor")
    if type(tick) is not int or not grid.has(tick):
        if form is not None and tick is not None:
            form, fault = None, "tick: the tick is out of range"
        tick = None
    monitor = monitor if isinstance(monitor, str) else ""
    return Record(position, partition, key, headers, written, form, fault, tick, monitor)


def _explain(error: msgspec.ValidationError) -> str:
    """Return the message, or only the path of the field if the message may quote the record."""
    text = str(error)
    return text if text.startswith(("Expected", "Object missing")) else text.rpartition(" - at ")[2]


def _parse_text(kind: type, text: object) -> Fraction | Instant:
    """Parse the text of an ε or of a time."""
    if not isinstance(text, str):
        raise ValueError("Expected a text")  # noqa: TRY004  # msgspec expects a ValueError
    return parse_recorded_epsilon(text) if kind is Fraction else _parse_utc(text)


@lru_cache(maxsize=4096)
def _parse_utc(text: str) -> Instant:
    try:
        at = parse_instant(text)
        if format_utc(at) == text:
            return Instant(at)
    except (ValueError, OverflowError):
        pass
    raise ValueError("Expected a time in UTC with Z")


@lru_cache(maxsize=4096)
def parse_recorded_epsilon(text: str) -> Fraction:
    """Parse an ε as records have it, `3` or `1/2`. Raise ValueError for another form."""
    try:
        if len(text) <= _LONGEST_EPSILON and str(Fraction(text)) == text and text[:1] not in ("-", "0"):
            return Fraction(text)
    except (ValueError, ZeroDivisionError):
        pass
    raise ValueError("Expected an ε, a whole number or a reduced fraction")
