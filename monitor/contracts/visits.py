"""What comes in: visits, one by one or in batches (docs/interface.md, section 4), and why one may be refused.

A visit is valid by itself or not at all: neither its siblings nor the envelope of its batch decide (privacy model,
rule 7). Keys that are not known here are ignored, so that producers may add to their records.
"""

from __future__ import annotations

import unicodedata
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError, from_json

from monitor.errors import TimeError
from monitor.public.instants import format_instant, parse_instant

ID_BYTES: Final = 256
"""The longest id, in bytes of UTF-8."""

_TIME_SCHEMA: Final = {
    "type": "string",
    "format": "date-time",
    "description": "RFC 3339 with an offset, such as 2026-11-20T08:15:00Z; digits beyond microseconds are cut.",
}
_ID_SCHEMA: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": ID_BYTES,
    "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$",
    "description": f"1 to {ID_BYTES} bytes of UTF-8 without control characters.",
}


class Reason(StrEnum):
    """Why a record or a visit is a dead letter: a closed list, in the order in which it is checked.

    `not_json`: the record is no strict JSON in UTF-8 (RFC 8259; NaN, a byte order mark, bad UTF-8, lone surrogates,
    trailing bytes, an empty value, a tombstone, integers beyond 4,300 digits, nesting beyond 200).
    `not_a_visit`: the record is no object, its `visits` is no list, or the visit is no object with the three required
    keys. `bad_id`: an id is no string of 1 to 256 bytes of UTF-8, or holds a control character (Unicode category Cc).
    `bad_time`: a time is no string of RFC 3339 with an offset, or no time that exists. `left_before_arrived`.
    `unknown_location`: outside the registry (docs/rules.md, rule 6). `too_far_ahead`: arrived_at lies more than F
    slots ahead of the current one (docs/rules.md, rule 2). `unreadable_batch`: the records of a batch cannot even be told apart; it
    tells of all of them. `others_refused`: it tells of all visits of a record that were refused beside those that have
    dead letters of their own.
    """

    NOT_JSON = "not_json"
    NOT_A_VISIT = "not_a_visit"
    BAD_ID = "bad_id"
    BAD_TIME = "bad_time"
    LEFT_BEFORE_ARRIVED = "left_before_arrived"
    UNKNOWN_LOCATION = "unknown_location"
    TOO_FAR_AHEAD = "too_far_ahead"
    UNREADABLE_BATCH = "unreadable_batch"
    OTHERS_REFUSED = "others_refused"


class Fault(NamedTuple):
    """Why something is refused. `error` names the key and what was expected, never what was found (docs/rules.md, rule 10)."""

    reason: Reason
    error: str


def is_identifier(text: str) -> bool:
    """Whether a string is 1 to 256 bytes of UTF-8 without control characters."""
    if not 1 <= len(text) <= ID_BYTES:
        return False
    if not text.isascii():
        try:
            if len(text.encode()) > ID_BYTES:
                return False
        except UnicodeEncodeError:
            return False
    return text.isprintable() or not any(unicodedata.category(character) == "Cc" for character in text)


def _identifier(text: str) -> str:
    if not is_identifier(text):
        raise PydanticCustomError("bad_id", "no valid id")
    return text


def _instant(value: object) -> int:
    if not isinstance(value, str):
        raise PydanticCustomError("bad_time", "no string")
    try:
        return parse_instant(value)
    except TimeError:
        raise PydanticCustomError("bad_time", "no time") from None


def without_default(schema: dict[str, Any]) -> None:
    """Leave the default out of a JSON Schema: for keys that are left out, never null."""
    schema.pop("default", None)


Identifier = Annotated[str, AfterValidator(_identifier), WithJsonSchema(_ID_SCHEMA)]
Instant = Annotated[int, PlainValidator(_instant), PlainSerializer(format_instant), WithJsonSchema(_TIME_SCHEMA)]


class Visit(BaseModel):
    """One person's stay at one location: [arrived_at, left_at). In Python the times are instants (microseconds)."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    person_id: Identifier
    location_id: Identifier
    arrived_at: Instant
    left_at: Instant | None = Field(default=None, description="Missing or null: the default stay is assumed.")

    @model_validator(mode="after")
    def _in_order(self) -> Visit:
        if self.left_at is not None and self.left_at < self.arrived_at:
            raise PydanticCustomError("left_before_arrived", "left before arrived")
        return self


class VisitBatch(BaseModel):
    """Several visits in one record, e.g. the trajectory that one person reported; each is judged by itself.

    `batch_id` is for the producer's use: whatever it is, or if it is missing, the visits are taken.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    batch_id: Annotated[Any, WithJsonSchema({"type": "string", "description": "For the producer's use."})] = Field(
        default=None, json_schema_extra=without_default
    )
    visits: list[Visit]


def open_record(value: bytes | None) -> list[Any] | Fault:
    """Read a record's value as the list of what should be visits: a batch's, or the one of a bare visit."""
    if value is None:
        return Fault(Reason.NOT_JSON, "value: expected strict JSON in UTF-8, found a tombstone")
    try:
        record = from_json(value, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        place = str(error).rpartition(" at ")[2]
        return Fault(Reason.NOT_JSON, f"value: expected strict JSON in UTF-8, which it ceases to be at {place}")
    if not isinstance(record, dict):
        return Fault(Reason.NOT_A_VISIT, "value: expected an object, a batch of visits or a visit")
    if "visits" not in record:
        return [record]
    visits = record["visits"]
    if not isinstance(visits, list):
        return Fault(Reason.NOT_A_VISIT, "visits: expected a list")
    return visits


_IDS: Final = ("person_id", "location_id")
REQUIRED: Final = (*_IDS, "arrived_at")
"""The keys that every visit has."""

_NO_OBJECT: Final = Fault(Reason.NOT_A_VISIT, "visit: expected an object")
_NO_KEY: Final = {key: Fault(Reason.NOT_A_VISIT, f"{key}: expected this key in every visit") for key in REQUIRED}
_BAD_ID: Final = {key: Fault(Reason.BAD_ID, f"{key}: expected a string, {_ID_SCHEMA['description']}") for key in _IDS}


def read_visit(value: object) -> Visit | Fault:
    """Validate one visit by itself; of several faults the one that is checked first is told."""
    fault = _seen_at_once(value)
    if fault is not None:
        return fault
    try:
        return Visit.model_validate(value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        return min((_fault(detail) for detail in details), key=_order)


def _seen_at_once(value: object) -> Fault | None:
    """What the model would find as well, but far more slowly, and junk comes by the million."""
    if not isinstance(value, dict):
        return _NO_OBJECT
    for key in REQUIRED:
        if key not in value:
            return _NO_KEY[key]
    for key in _IDS:
        if not (isinstance(value[key], str) and is_identifier(value[key])):
            return _BAD_ID[key]
    return None


_ORDER: Final = {reason: place for place, reason in enumerate(Reason)}


def _order(fault: Fault) -> int:
    return _ORDER[fault.reason]


def _fault(detail: ErrorDetails) -> Fault:
    if detail["type"] == "left_before_arrived":
        return Fault(Reason.LEFT_BEFORE_ARRIVED, "left_at: expected a time at or after arrived_at")
    return Fault(Reason.BAD_TIME, f"{detail['loc'][0]}: expected a string, {_TIME_SCHEMA['description']}")
