"""Each visit is validated independently, and the published schema accepts every valid visit."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information

from monitor.operate.schema.command import build_visits_schema
from monitor.records.fields import is_identifier
from monitor.records.visit_contract import Fault, Reason, Visit, open_record, read_visit
from monitor.time.instants import parse_instant

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
        {"__deleted": "false"},
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
        {"__deleted": "true"},
        {"__deleted": True},
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


TEXT: Final = json.dumps({"visits": [GOOD]}).encode()
FRAMED: Final = {
    "byte_order_mark": b"\xef\xbb\xbf" + TEXT,
    "cloudevents": b'{"specversion": "1.0", "id": "1", "source": "/x", "type": "visit", "data": ' + TEXT + b"}",
    "confluent": b"\0\0\0\0\7" + TEXT,
    "connect": b'{"schema": {"type": "struct"}, "payload": ' + TEXT + b"}",
}


@pytest.mark.parametrize("value", [*FRAMED.values(), FRAMED["cloudevents"].replace(TEXT, FRAMED["connect"])])
def test_framing_is_read(value: bytes) -> None:
    """Each framing is read, and Connect's envelope in a CloudEvent, as Debezium's converter writes it."""
    assert open_record(value) == [GOOD]


def make_mixed_records() -> Iterator[bytes]:
    """Yield all 4,536 records with some keys of a visit, of a batch and of envelopes, with and without a prefix."""
    choices: list[list[dict[str, Any]]] = [
        [{}, *({key: value} for value in values)]
        for key, values in {
            "visits": ([GOOD], [], None),
            "specversion": ("1.0", "0.3"),
            "data": (GOOD, {"schema": 1, "payload": GOOD}),
            "schema": ({"type": "struct"},),
            "payload": (GOOD, None),
        }.items()
    ]
    visits = [{}, GOOD, *({key: GOOD[key] for key in GOOD if key != lost} for lost in GOOD), {**GOOD, "consent": 1}]
    for parts in itertools.product(visits, *choices):
        text = json.dumps(dict(itertools.chain(*(part.items() for part in parts)))).encode()
        yield from (text, b"\xef\xbb\xbf" + text, b"\0\0\0\0\7" + text)


def read_plain(value: bytes) -> list[Any] | None:
    """Return the visits of a record that is valid without framing: a batch, or a valid visit; None for another one."""
    try:
        record = json.loads(value.decode("ascii"))
    except ValueError:
        return None
    visits = record.get("visits", [record])
    is_valid = "visits" in record or isinstance(read_visit(record), Visit)
    return visits if is_valid and isinstance(visits, list) else None


@pytest.mark.promise(24)
def test_framing_changes_no_plain_record() -> None:
    """A record that is valid without framing has the same visits, whatever other keys it has.

    The records have all combinations of the keys of visits, batches and envelopes.
    """
    counts = Counter[str]()
    for value in make_mixed_records():
        plain, opened = read_plain(value), open_record(value)
        if plain is not None:
            assert opened == plain, value
        counts["plain" if plain is not None else "refused" if isinstance(opened, Fault) else "other"] += 1
    assert min(counts.values()) > 500, counts


@pytest.mark.parametrize(
    ("value", "reason", "hint"),
    [
        (b"\0\0\0", "not_json", "after the 5 bytes of confluent"),
        (b"\0\0\0\0\7\2\x06p-17", "not_json", "after the 5 bytes of confluent"),
        (b"\0\0\0\0\7" + FRAMED["connect"], "not_a_visit", "in confluent, found the envelope of Kafka Connect"),
        (b"\0\0\0\0\7" + FRAMED["byte_order_mark"], "not_json", "after the 5 bytes of confluent"),
        (FRAMED["connect"].replace(TEXT, FRAMED["connect"]), "not_a_visit", "in connect, found the envelope of Kafka"),
        (FRAMED["connect"].replace(TEXT, FRAMED["cloudevents"]), "not_a_visit", "in connect, found a CloudEvent"),
        (FRAMED["connect"].replace(TEXT, b"null"), "not_a_visit", "payload: expected an object"),
        (FRAMED["cloudevents"].replace(b"1.0", b"0.3"), "not_a_visit", "specversion: expected 1.0"),
        (FRAMED["cloudevents"].replace(b"data", b"data_base64"), "not_a_visit", "data: expected an object"),
        (FRAMED["cloudevents"].replace(TEXT, b'{"visits": {}}'), "not_a_visit", "visits: expected a list"),
        (None, "not_json", "tombstone"),
        (b"\0\0\0\0\0\0\0\0\7" + TEXT, "not_json", "found the 9 bytes of Apicurio's serializers"),
        (b"\0\xff{\n\r\xff\0\0\1 " + TEXT, "not_json", "set apicurio.registry.as-confluent=true"),
        (b"\3\0" + b"\x11" * 16 + TEXT, "not_json", "found the 18 bytes of AWS Glue's serializers"),
        (b"\3\5" + b"{" * 16 + b"x\x9c", "not_json", "use a serializer without a registry"),
        (b"\3\7" + b"\x11" * 16 + TEXT, "not_json", "invalid JSON at line 1 column 1"),
    ],
)
def test_broken_framing_is_explained(value: bytes | None, reason: str, hint: str) -> None:
    """A cut header, a nested or empty envelope, and another version are refused with their cause, without data."""
    fault = open_record(value)
    assert isinstance(fault, Fault)
    assert fault.reason == reason
    assert hint in fault.error
    assert "p-17" not in fault.error


@pytest.mark.promise(24)
def test_deleted_rows_are_refused() -> None:
    """A row that Debezium has marked as deleted is not a visit, whatever else it has. Other marks change nothing."""
    only_key = dict.fromkeys(GOOD)
    for visit, mark in itertools.product((GOOD, {**GOOD, "left_at": ""}, only_key, {}), ("true", True)):
        fault = read_visit({**visit, "__deleted": mark})
        assert isinstance(fault, Fault)
        assert fault.reason == "not_a_visit"
        assert "__deleted: found a deleted row: set delete.tombstone.handling.mode=drop" in fault.error
    marks: list[Any] = ["false", False, None, 1, 1.0, "TRUE", "", [True], {"true": True}]
    assert [read_visit({**GOOD, "__deleted": mark}) for mark in marks] == [read_visit(GOOD)] * len(marks)


@pytest.mark.parametrize("change", [{"before": None, "after": GOOD, "op": "c"}, {"before": GOOD, "after": None}])
@pytest.mark.parametrize("form", ["plain", "connect"])
def test_change_event_is_named(change: dict[str, Any], form: str) -> None:
    """A change event whose row is not unwrapped is refused, and the error names the transformation."""
    opened = open_record(json.dumps(change if form == "plain" else {"schema": {}, "payload": change}).encode())
    assert opened == [change]
    fault = read_visit(change)
    assert isinstance(fault, Fault)
    assert fault.reason == "not_a_visit"
    assert "ExtractNewRecordState" in fault.error
    assert isinstance(read_visit({**change, **GOOD}), Visit)


def test_microseconds_are_times() -> None:
    """Integers of 16 digits are times. Integers of other units, and other values, are not."""
    given = {**GOOD, "arrived_at": 1_763_626_500_000_000, "left_at": 1_763_626_500_000_001}
    read = read_visit(given)
    assert isinstance(read, Visit)
    assert (read.arrived_at, read.left_at) == (given["arrived_at"], given["left_at"])
    SCHEMA.validate(given)
    for time in (
        1_763_626_500,
        1_763_626_500_000,
        1_763_626_500_000_000_000,
        -(10**15),
        1.7e15 + 0.5,
        True,
        "2026-11-20T08:15",
    ):
        fault = read_visit({**GOOD, "arrived_at": time})
        assert isinstance(fault, Fault)
        assert fault.reason == "bad_time"
        assert "an integer of 16 digits, the microseconds since 1970 in UTC" in fault.error
        assert isinstance(time, str) or not SCHEMA.is_valid({**GOOD, "arrived_at": time})
