"""Each visit is validated independently, and the published schema accepts every valid visit."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information

from monitor.contracts.instants import parse_instant
from monitor.contracts.schemas import build_visits_schema
from monitor.contracts.visits import Fault, Reason, Visit, is_identifier, open_record, read_visit

NOT_BOOLEANS: list[Any] = [None, 1, 0, "true", [], 1.0]
NOT_BOOLEAN: list[dict[str, Any]] = [{"consent": value} for value in NOT_BOOLEANS]
GOOD = {"person_id": "p-17", "location_id": "駅", "arrived_at": "2026-11-20T08:15:00Z", "left_at": None}
SCHEMA = Draft202012Validator(build_visits_schema())


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"left_at": "2026-11-20T17:15:00.25+09:00"},
        {"person_id": "a" * 256},
        {"location_id": "a/b c"},
        {"app": [1]},
        {"consent": True},
    ],
)
def test_valid_visits_fit_the_schema(change: dict[str, Any]) -> None:
    """A valid visit fits the schema, alone and in a batch."""
    visit = {**GOOD, **change}
    read = read_visit(visit)
    assert isinstance(read, Visit)
    assert read.arrived_at == parse_instant("2026-11-20T08:15:00Z")
    SCHEMA.validate(visit)
    SCHEMA.validate({"batch_id": "b", "visits": [visit], "more": 1})


@pytest.mark.parametrize(
    "change",
    [
        {"person_id": ""},
        {"person_id": 1},
        {"location_id": "\u0085"},
        {"person_id": "a" * 257},
        {"arrived_at": 0},
        *NOT_BOOLEAN,
    ],
)
def test_schema_refuses_invalid_visits(change: dict[str, Any]) -> None:
    """The schema refuses every invalid visit that JSON Schema can describe."""
    visit = {**GOOD, **change}
    assert isinstance(read_visit(visit), Fault)
    assert not SCHEMA.is_valid(visit)
    assert not SCHEMA.is_valid({"visits": [visit]})


def test_reasons_are_a_closed_ordered_list() -> None:
    """The reasons are a closed list, in the order of the checks."""
    assert [reason.value for reason in Reason] == [
        "not_json",
        "not_a_visit",
        "bad_id",
        "bad_time",
        "bad_consent",
        "left_before_arrived",
        "unknown_location",
        "too_far_ahead",
        "unreadable_batch",
        "others_refused",
    ]


@pytest.mark.parametrize(
    ("visit", "reason"),
    [
        ({"person_id": "", "arrived_at": ""}, Reason.NOT_A_VISIT),
        ({**GOOD, "location_id": "", "arrived_at": ""}, Reason.BAD_ID),
        ({**GOOD, "arrived_at": "", "left_at": "1999-01-01T00:00:00Z"}, Reason.BAD_TIME),
        ({**GOOD, "arrived_at": "", "consent": 1}, Reason.BAD_TIME),
        ({**GOOD, "left_at": "1999-01-01T00:00:00Z", "consent": 1}, Reason.BAD_CONSENT),
        ({**GOOD, "left_at": "1999-01-01T00:00:00Z"}, Reason.LEFT_BEFORE_ARRIVED),
    ],
)
def test_first_checked_fault_is_reported(visit: dict[str, Any], reason: Reason) -> None:
    """Of several faults, the one that is checked first is reported."""
    read = read_visit(visit)
    assert isinstance(read, Fault)
    assert read.reason == reason


def test_consent_is_false_by_default() -> None:
    """A visit has consent only if `consent` is true."""
    consents = [read_visit({**GOOD, **change}) for change in ({}, {"consent": False}, {"consent": True})]
    assert [isinstance(visit, Visit) and visit.consent for visit in consents] == [False, False, True]


@pytest.mark.parametrize("change", NOT_BOOLEAN)
def test_consent_must_be_boolean(change: dict[str, Any]) -> None:
    """Any other value of `consent` makes the visit a dead letter, and its error does not quote the value."""
    assert read_visit({**GOOD, **change}) == Fault(Reason.BAD_CONSENT, "consent: expected true or false")


def test_lone_surrogates_are_refused() -> None:
    """An id with a lone surrogate is refused, also if it does not come from the JSON parser."""
    assert not is_identifier("\ud800")
    assert isinstance(read_visit({**GOOD, "person_id": "\ud800"}), Fault)


def test_control_characters_are_refused() -> None:
    """Control characters are those of Unicode category Cc."""
    bad = [code for code in range(0x3000) if not is_identifier(chr(code))]
    assert bad == [*range(0x20), *range(0x7F, 0xA0)]


def test_json_error_gives_position_only() -> None:
    """The error of invalid JSON has its position and none of its content."""
    fault = open_record(b'{"secret": secret}')
    assert isinstance(fault, Fault)
    assert "line 1 column 12" in fault.error
    assert "secret" not in fault.error


@pytest.mark.parametrize(
    ("value", "reason", "hint"),
    [
        (b'{"schema": {"type": "struct"}, "payload": {"person_id": "secret"}}', "not_a_visit", "schemas.enable=false"),
        (b'{"schema": null, "payload": "secret"}', "not_a_visit", "schemas.enable=false"),
        (b'\0\0\0\0\x07{"person_id": "secret"}', "not_json", "schema registry"),
    ],
)
def test_foreign_envelope_is_explained(value: bytes, reason: str, hint: str) -> None:
    """The envelope of Kafka Connect and the frame of a schema registry are refused with their cause, without data."""
    fault = open_record(value)
    assert isinstance(fault, Fault)
    assert fault.reason == reason
    assert hint in fault.error
    assert "secret" not in fault.error
