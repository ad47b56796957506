"""The input records: visits, single or in batches, and the reasons to refuse one (docs/interface.md, section 4).

Each visit is validated on its own: the other visits of its record and the other keys of the batch do not matter
(docs/rules.md, rule 7). Unknown keys are ignored, so that producers can add keys. `__deleted` is a known key: a change
data capture writes it into a row that it has deleted, which is not a visit.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple, TypeGuard

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
from monitor.records.fields import ID_BYTES, is_identifier
from monitor.time.instants import format_instant, parse_instant

_LEAST_MICROSECONDS: Final = 10**15
_END_OF_MICROSECONDS: Final = 10**16
_TIME_SCHEMA: Final = {
    "anyOf": [
        {"type": "string", "format": "date-time"},
        {"type": "integer", "minimum": _LEAST_MICROSECONDS, "exclusiveMaximum": _END_OF_MICROSECONDS},
    ],
    "description": "RFC 3339 with an offset, such as 2026-11-20T08:15:00Z, without leap seconds, of which digits "
    "after microseconds are dropped; or an integer of 16 digits, the microseconds since 1970 in UTC.",
}
_ID_SCHEMA: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": ID_BYTES,
    "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$",
    "description": f"1 to {ID_BYTES} bytes of UTF-8 without control characters.",
}


DELETED: Final = "__deleted"
"""The key that Debezium adds to a row. It is "true" if the row has been deleted."""


class Reason(StrEnum):
    """Why a record or a visit becomes a dead letter: a closed list, in the order of the checks.

    * `not_json`: the record is not strict JSON in UTF-8 (RFC 8259). This includes NaN, bad UTF-8, lone surrogates,
      trailing bytes, an empty value, a tombstone, integers of more than 4,300 digits, and nesting deeper than 200.
    * `not_a_visit`: the record is not an object, its `visits` is not a list, the visit is not an object with the three
      required keys, its `__deleted` is true, or the record is an envelope inside another framing.
    * `bad_id`: an id is not a string of 1 to 256 bytes of UTF-8, or contains a control character (Unicode category Cc).
    * `bad_time`: a time is neither an RFC 3339 string with an offset, of an existing date and time, nor an integer of
      16 digits.
    * `bad_consent`: `consent` is not true or false.
    * `left_before_arrived`: left_at is before arrived_at.
    * `unknown_location`: the location is not in the registry (docs/rules.md, rule 6).
    * `too_far_ahead`: arrived_at is more than `accept_ahead` ahead of the current slot (docs/rules.md, rule 2).
    * `unreadable_batch`: the records of a batch cannot be separated. The dead letter represents all of them.
    * `others_refused`: the dead letter represents all refused visits of a record that have no separate dead letter.
    """

    NOT_JSON = "not_json"
    NOT_A_VISIT = "not_a_visit"
    BAD_ID = "bad_id"
    BAD_TIME = "bad_time"
    BAD_CONSENT = "bad_consent"
    LEFT_BEFORE_ARRIVED = "left_before_arrived"
    UNKNOWN_LOCATION = "unknown_location"
    TOO_FAR_AHEAD = "too_far_ahead"
    UNREADABLE_BATCH = "unreadable_batch"
    OTHERS_REFUSED = "others_refused"


class Fault(NamedTuple):
    """Why a record or visit is refused.

    `error` names the key and the expected value, never the actual value (docs/rules.md, rule 10).
    """

    reason: Reason
    error: str


def _check_identifier(text: str) -> str:
    if not is_identifier(text):
        raise PydanticCustomError("bad_id", "not a valid id")
    return text


def is_microseconds(value: object) -> TypeGuard[int]:
    """Return whether a value is an instant from 2001 to 2286. An integer of another unit has fewer or more digits."""
    return type(value) is int and _LEAST_MICROSECONDS <= value < _END_OF_MICROSECONDS


def _read_instant(value: object) -> int:
    if is_microseconds(value):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("bad_time", "not a string")
    try:
        return parse_instant(value)
    except TimeError:
        raise PydanticCustomError("bad_time", "not a time") from None


def remove_default(schema: dict[str, Any]) -> None:
    """Remove the default from a JSON Schema, for keys that may be absent but are never null."""
    schema.pop("default", None)


def _check_consent(value: object) -> bool:
    if not isinstance(value, bool):
        raise PydanticCustomError("bad_consent", "not a boolean")
    return value


Identifier = Annotated[str, AfterValidator(_check_identifier), WithJsonSchema(_ID_SCHEMA)]
Instant = Annotated[int, PlainValidator(_read_instant), PlainSerializer(format_instant), WithJsonSchema(_TIME_SCHEMA)]
Consent = Annotated[bool, PlainValidator(_check_consent), WithJsonSchema({"type": "boolean"})]


def _describe_deletion(schema: dict[str, Any]) -> None:
    schema["properties"][DELETED] = {
        "not": {"enum": [True, "true"]},
        "description": "Written by a change data capture such as Debezium. A deleted row is not a visit.",
    }


class Visit(BaseModel):
    """One person's stay at one location: [arrived_at, left_at). In Python the times are instants (microseconds).

    `consent`: the person agrees that this visit counts in published lower bounds (docs/rules.md, rule 13).
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", json_schema_extra=_describe_deletion)

    person_id: Identifier
    location_id: Identifier
    arrived_at: Instant
    left_at: Instant | None = Field(default=None, description="If missing or null, the default stay is assumed.")
    consent: Consent = Field(
        default=False,
        description="Whether the person agrees that this visit counts in published lower bounds. If missing: false.",
    )

    @model_validator(mode="after")
    def _check_order(self) -> Visit:
        if self.left_at is not None and self.left_at < self.arrived_at:
            raise PydanticCustomError("left_before_arrived", "left before arrived")
        return self


class VisitBatch(BaseModel):
    """Several visits in one record, e.g. the trajectory of one person. Each is accepted or refused independently.

    `batch_id` is for the producer. Its value, or its absence, does not affect the visits.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    batch_id: Annotated[Any, WithJsonSchema({"type": "string", "description": "For the producer's use."})] = Field(
        default=None, json_schema_extra=remove_default
    )
    visits: list[Visit]


_PREFIXES: Final = {
    "byte_order_mark": (b"\xef\xbb\xbf", 3),
    "confluent": (b"\0", 5),
}
"""The first bytes of the framings before the JSON, and the length of each framing (docs/producers.md)."""

_CONTENT: Final = {"cloudevents": "data", "connect": "payload"}
"""The envelopes, and the key of the content of each."""

_ENVELOPE: Final = {"schema", "payload"}
_EVENTS: Final = "1.0"
_NESTED: Final = {
    "cloudevents": "a CloudEvent (specversion): send its data only",
    "connect": "the envelope of Kafka Connect (schema, payload): set value.converter.schemas.enable=false",
}
"""How to recognize an envelope inside another framing, and what the sender can do."""


def open_record(value: bytes | None) -> list[Any] | Fault:
    """Return the visits in the value of a record, not validated: those of a batch, or a single one.

    Return a Fault if the record as a whole must be refused. A record has at most one framing around its JSON; only a
    CloudEvent may contain Connect's envelope, because Debezium's converter writes it. Without framing, a record that
    looks like one would be refused: it is not JSON, or is neither a visit nor a batch.
    """
    if value is None:
        return Fault(Reason.NOT_JSON, "value: expected JSON in UTF-8, found a tombstone")
    prefix = next((name for name, (first, _length) in _PREFIXES.items() if value.startswith(first)), None)
    text = value if prefix is None else value[_PREFIXES[prefix][1] :]
    try:
        record = from_json(text, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        return _report_invalid_json(error, value, prefix)
    return _open_envelopes(record, prefix)


def _open_envelopes(record: Any, framing: str | None) -> list[Any] | Fault:
    """Return the visits of a parsed record. `framing`: the framing that was before its JSON."""
    where = "value"
    while isinstance(record, dict) and (found := _find_envelope(record)) is not None:
        if framing is not None and (framing, found) != ("cloudevents", "connect"):
            return Fault(Reason.NOT_A_VISIT, f"value: expected a visit or a batch in {framing}, found {_NESTED[found]}")
        if found == "cloudevents" and record["specversion"] != _EVENTS:
            return Fault(Reason.NOT_A_VISIT, f"specversion: expected {_EVENTS}, the version of CloudEvents")
        framing, where = found, _CONTENT[found]
        record = record.get(where)
    if not isinstance(record, dict):
        return Fault(Reason.NOT_A_VISIT, f"{where}: expected an object, which is a batch of visits or a visit")
    visits = record.get("visits", [record])
    return visits if isinstance(visits, list) else Fault(Reason.NOT_A_VISIT, "visits: expected a list")


def _find_envelope(record: dict[str, Any]) -> str | None:
    """Return the envelope that a record is. A visit or a batch is not an envelope, whatever other keys it has."""
    if record.keys() == _ENVELOPE:
        return "connect"
    return "cloudevents" if "specversion" in record and not record.keys() & {"person_id", "visits"} else None


_HEADERS: Final = (
    (
        re.compile(rb"\0.{8}\s*[{\[]", re.DOTALL),
        "the 9 bytes of Apicurio's serializers before the JSON: set apicurio.registry.as-confluent=true there",
    ),
    (
        re.compile(rb"\x03[\0\x05].{16}", re.DOTALL),
        "the 18 bytes of AWS Glue's serializers: use a serializer without a registry",
    ),
)
"""Headers that are not read, because no record that is plain JSON can be mistaken for them, and how to avoid them."""


def _report_invalid_json(error: ValueError, value: bytes, prefix: str | None) -> Fault:
    for header, found in _HEADERS:
        if header.match(value):
            return Fault(Reason.NOT_JSON, f"value: expected JSON, found {found}")
    where = str(error).rpartition(" at ")[2]
    after = "" if prefix is None else f" after the {_PREFIXES[prefix][1]} bytes of {prefix}"
    return Fault(Reason.NOT_JSON, f"value: invalid JSON at {where}{after}")


_IDS: Final = ("person_id", "location_id")
REQUIRED: Final = (*_IDS, "arrived_at")
"""The required keys of a visit."""

_CHANGE: Final = {"before", "after"}
"""Two keys of Debezium's description of a change, which contains the row."""

_NO_OBJECT: Final = Fault(Reason.NOT_A_VISIT, "visit: expected an object")
_NO_KEY: Final = {key: Fault(Reason.NOT_A_VISIT, f"{key}: expected this key in every visit") for key in REQUIRED}
_NO_ROW: Final = Fault(
    Reason.NOT_A_VISIT,
    "visit: found a change event (before, after): unwrap its row with Debezium's transformation ExtractNewRecordState",
)
_NO_LONGER: Final = Fault(
    Reason.NOT_A_VISIT,
    f"{DELETED}: found a deleted row: set delete.tombstone.handling.mode=drop in Debezium's ExtractNewRecordState",
)
_BAD_ID: Final = {key: Fault(Reason.BAD_ID, f"{key}: expected a string, {_ID_SCHEMA['description']}") for key in _IDS}


def read_visit(value: object) -> Visit | Fault:
    """Validate one visit. If it has several faults, return the first one in the order of `Reason`."""
    fault = _check_keys_and_ids(value)
    if fault is not None:
        return fault
    try:
        return Visit.model_validate(value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        return min(map(_make_fault, details), key=_find_order)


def is_deleted(visit: dict[str, Any]) -> bool:
    """Return whether a change data capture has marked a row as deleted."""
    mark = visit.get(DELETED)
    return mark is True or mark == "true"


def _check_keys_and_ids(value: object) -> Fault | None:
    """Return a fault in the keys or ids. The model finds it too, but too slowly for millions of invalid visits."""
    if not isinstance(value, dict):
        return _NO_OBJECT
    if is_deleted(value):
        return _NO_LONGER
    for key in REQUIRED:
        if key not in value:
            return _NO_ROW if value.keys() >= _CHANGE else _NO_KEY[key]
    for key in _IDS:
        if not (isinstance(value[key], str) and is_identifier(value[key])):
            return _BAD_ID[key]
    return None


_ORDER: Final = {reason: index for index, reason in enumerate(Reason)}


def _find_order(fault: Fault) -> int:
    return _ORDER[fault.reason]


def _make_fault(detail: ErrorDetails) -> Fault:
    if detail["type"] == "left_before_arrived":
        return Fault(Reason.LEFT_BEFORE_ARRIVED, "left_at: expected a time at or after arrived_at")
    if detail["type"] == "bad_consent":
        return Fault(Reason.BAD_CONSENT, "consent: expected true or false")
    return Fault(Reason.BAD_TIME, f"{detail['loc'][0]}: expected {_TIME_SCHEMA['description']}")
