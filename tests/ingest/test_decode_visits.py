"""Decoding in bulk equals decoding by the contract, one visit at a time."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.ingest.decode_visits import LONGEST_STAY, Columns, decode_records, parse_instants
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.records.visit_contract import Fault, Reason, open_record
from monitor.time.instants import DAY, MINUTE, format_instant, parse_instant
from monitor.time.schedule import Schedule
from tests.builders import build_parameters
from tests.ingest.one_by_one import decode

pytestmark = pytest.mark.long

STAY = 15 * MINUTE
GOOD = {
    "person_id": "p-17",
    "location_id": "inn",
    "arrived_at": "2026-11-20T08:15:00Z",
    "left_at": "2026-11-20T08:40:00Z",
}


def record(*visits: Any, **envelope: Any) -> bytes:
    return json.dumps({"batch_id": "b", **envelope, "visits": visits}).encode()


BOUNDED = AtTimes("noon", Schedule(()), Fraction(1), 5, DAY, Fraction(1))
PARAMETERS = build_parameters(("inn", "駅", "a" * 256, "é" * 128), at_times=(BOUNDED,))


def decode_all(values: Sequence[bytes | None], **changes: Any) -> Columns:
    """Decode records in bulk, with some other parameters."""
    return decode_records(replace(PARAMETERS, **changes), values)


def check(values: list[bytes | None]) -> None:
    """Check that the columns have the visits and refusals of the contract, in its order."""
    columns = decode_all(values)
    assert columns.consent is not None
    rows = zip(
        columns.record.tolist(),
        columns.index.tolist(),
        columns.persons,
        columns.row.tolist(),
        columns.arrived.tolist(),
        columns.left.tolist(),
        columns.consent.tolist(),
        strict=True,
    )
    expected, refused = [], []
    for place, value in enumerate(values):
        decoded = decode(value)
        for index, visit in decoded.visits:
            row = PARAMETERS.registry.rows.get(visit.location_id, -1)
            left = visit.arrived_at + STAY if visit.left_at is None else visit.left_at
            expected.append((place, index, visit.person_id, row, visit.arrived_at, left, visit.consent))
        refused += [(place, index, fault) for index, fault in decoded.faults]
    assert list(rows) == expected
    assert [(refusal.record, refusal.index, refusal.fault) for refusal in columns.refused] == refused


def reasons(*values: bytes | None) -> list[tuple[int, int | None, Reason]]:
    check(list(values))
    return [(refusal.record, refusal.index, refusal.reason) for refusal in decode_all(values).refused]


NOT_JSON = [
    b"",
    b"\xef\xbb\xbf",
    b"{}x",
    b'{"visits": [NaN]}',
    b'{"visits": [], "x": Infinity}',
    b'{"visits": [], "x": "\xff"}',
    b'{"visits": [], "batch_id": "\xed\xa0\x80"}',
    b'{"visits": [], "batch_id": "\\ud800"}',
    b'{"visits": [], "x": "\\udc00"}',
    b'{"visits": [], "batch_id": "\x01"}',
    b'{"visits": [],}',
    b'{"visits": [',
    b'{"visits": [], "x": ' + b"[" * 300 + b"]" * 300 + b"}",
    b'{"visits": [], "x": ' + b"1" * 5_000 + b"}",
]
NOT_A_VISIT = [b"null", b"[]", b"3", b'"x"', b'{"visits": null}', b'{"visits": {}}']


def test_record_is_refused_as_a_whole() -> None:
    """A tombstone, and a record that is not strict JSON or has no visits, is one refusal; its payload is the record."""
    values, tombstone = [*NOT_JSON, *NOT_A_VISIT, None], open_record(None)
    assert isinstance(tombstone, Fault)
    expected = [Reason.NOT_JSON] * len(NOT_JSON) + [Reason.NOT_A_VISIT] * len(NOT_A_VISIT) + [tombstone.reason]
    assert reasons(*values) == [(place, None, reason) for place, reason in enumerate(expected)]
    assert [refusal.payload for refusal in decode_all(values).refused] == [value or b"" for value in values]


BAD_VISITS: list[tuple[dict[str, Any], Reason]] = [
    ({"person_id": ""}, Reason.BAD_ID),
    ({"person_id": 17}, Reason.BAD_ID),
    ({"person_id": None}, Reason.BAD_ID),
    ({"location_id": "a\u0085"}, Reason.BAD_ID),
    ({"person_id": "é" * 129}, Reason.BAD_ID),
    ({"arrived_at": 1763626500}, Reason.BAD_TIME),
    ({"arrived_at": "2026-11-20T08:15:00"}, Reason.BAD_TIME),
    ({"arrived_at": None}, Reason.BAD_TIME),
    ({"left_at": ""}, Reason.BAD_TIME),
    ({"left_at": 0}, Reason.BAD_TIME),
    ({"__deleted": "true"}, Reason.NOT_A_VISIT),
    ({"__deleted": True, "person_id": ""}, Reason.NOT_A_VISIT),
    ({"consent": None}, Reason.BAD_CONSENT),
    ({"consent": 1}, Reason.BAD_CONSENT),
    ({"consent": "true", "left_at": "1999-01-01T00:00:00Z"}, Reason.BAD_CONSENT),
    ({"left_at": "2026-11-20T08:14:59Z"}, Reason.LEFT_BEFORE_ARRIVED),
    ({"left_at": "2026-11-20T08:15:00.000000+00:01"}, Reason.LEFT_BEFORE_ARRIVED),
    ({"person_id": "", "arrived_at": "", "left_at": 1}, Reason.BAD_ID),
]


@pytest.mark.promise(25)
def test_bad_visit_between_good_ones() -> None:
    """A bad visit is refused alone, independent of the form of the other visits (docs/rules.md, rule 7)."""
    items: list[tuple[Any, Reason]] = [({**GOOD, **change}, reason) for change, reason in BAD_VISITS]
    items += [({**GOOD, "arrived_at": text}, Reason.BAD_TIME) for text in BAD]
    others: list[Any] = [None, 3, "x", [], {}, {"visits": []}, {"person_id": "p"}]
    items += [(item, Reason.NOT_A_VISIT) for item in others]
    siblings = (GOOD, {**GOOD, "app": 1}, {**GOOD, "arrived_at": "2026-11-20T08:15:00+00:00"})
    envelopes: tuple[dict[str, Any], ...] = ({}, {"batch_id": 7}, {"batch_id": None}, {"more": [1]})
    for bad, reason in items:
        values = [record(sibling, bad, sibling, **more) for sibling, more in product(siblings, envelopes)]
        assert reasons(*values) == [(place, 1, reason) for place in range(len(values))]
        columns = decode_all(values)
        assert columns.index.tolist() == [0, 2] * len(values)
        assert [json.loads(refusal.payload) for refusal in columns.refused] == [bad] * len(values)


def test_bad_framing_loses_nothing_else() -> None:
    """A broken or nested framing is one dead letter, and the visits of the other records are accepted."""
    visit = json.dumps(GOOD).encode()
    naive = visit.replace(b"08:15:00Z", b"08:15:00")
    bad = {
        b"\0\0\0": Reason.NOT_JSON,
        b"\0\0\0\0\7\2\x06p-1": Reason.NOT_JSON,
        b"\xef\xbb\xbf\0\0\0\0\7" + visit: Reason.NOT_JSON,
        b'\xef\xbb\xbf{"specversion": "1.0", "data": ' + visit + b"}": Reason.NOT_A_VISIT,
        b'{"schema": {}, "payload": null}': Reason.NOT_A_VISIT,
        b'{"schema": {}}': Reason.NOT_A_VISIT,
        b'{"schema": {}, "payload": {"schema": {}, "payload": ' + visit + b"}}": Reason.NOT_A_VISIT,
        b'{"schema": {}, "payload": ' + naive + b"}": Reason.BAD_TIME,
    }
    good = [visit, b"\0\0\0\0\7" + visit, b'{"schema": {}, "payload": ' + visit + b"}", b"\xef\xbb\xbf" + visit]
    values = [*good, *bad, None, *good]
    check(values)
    columns = decode_all(values)
    assert [refusal.reason for refusal in columns.refused] == [*bad.values(), Reason.NOT_JSON]
    assert columns.persons == ["p-17"] * 2 * len(good)


def test_additional_keys() -> None:
    """Additional keys are accepted, including keys with numbers that no double can represent."""
    grown = record({**GOOD, "app": {"n": 1}}, schema=2).replace(b'"n": 1', b'"n": 1e999')
    kept = json.dumps({**GOOD, "__deleted": "false"}).encode()
    assert reasons(grown, json.dumps({**GOOD, "app": 1}).encode(), kept) == []
    assert len(decode_all([grown]).persons) == 1


def test_default_stay() -> None:
    """A visit without an end lasts for the default stay, whether left_at is missing or null, canonical or not."""
    arrived = parse_instant(GOOD["arrived_at"])
    bare = {key: GOOD[key] for key in ("person_id", "location_id", "arrived_at")}
    other = {**bare, "arrived_at": "2026-11-20T17:15:00+09:00"}
    columns = decode_all([record(bare, {**bare, "left_at": None}, GOOD, other)])
    assert columns.left.tolist() == [arrived + STAY, arrived + STAY, arrived + 25 * MINUTE, arrived + STAY]
    assert decode_all([record(bare)], default_stay=10**40).left.tolist() == [arrived + LONGEST_STAY]


def test_consent_belongs_to_a_visit() -> None:
    """Each visit has its own consent. The other visits and the keys of the batch do not change it."""
    other_offset = {**GOOD, "arrived_at": "2026-11-20T17:15:00+09:00", "consent": True}
    visits = [GOOD, {**GOOD, "consent": True}, {**GOOD, "consent": False}, other_offset, {**GOOD, "app": 1}]
    values = [record(*visits, consent=True), record(*visits, consent="x"), json.dumps(visits[1]).encode()]
    columns = decode_all(values)
    assert columns.consent is not None
    assert columns.consent.tolist() == [False, True, False, True, False] * 2 + [True]
    assert decode_all(values, monitors=()).consent is None


@pytest.mark.promise(22)
def test_errors_quote_nothing() -> None:
    """An error names the key and the expected value, never the actual value (docs/rules.md, rule 10).

    Headers of dead letters get logged.
    """
    planted = "person-0815"
    bad = [{**GOOD, key: planted + "\x01"} for key in GOOD] + [{**GOOD, planted: 1, "left_at": "1999-01-01T00:00:00Z"}]
    refused = decode_all([record(*bad), f'{{"{planted}": {planted}'.encode(), f'"{planted}"'.encode()]).refused
    assert len(refused) == len(bad) + 2
    for refusal in refused:
        assert planted not in refusal.error
        assert "1999" not in refusal.error


FORMS = [  # the first eight are read in bulk
    "2026-11-20T08:15:00Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "1969-12-31T23:59:59Z",
    "2000-02-29T12:34:56Z",
    "2026-11-20T08:15:00.123Z",
    "1969-12-31T23:59:59.9Z",
    "0001-01-01T00:00:00.123456789012345678Z",
    "2024-02-29T00:00:00+09:00",
    "2026-11-20T08:15:00.123456789-11:30",
    "2026-11-20T08:15:00+00:00",
    "2026-11-20t08:15:00z",
    "0001-01-01T00:00:00+23:59",
]
BAD = [
    "",
    "Z",
    "2026-11-20T08:15:00",
    "2026-02-29T00:00:00Z",
    "1900-02-29T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "2026-00-10T00:00:00Z",
    "2026-13-10T00:00:00Z",
    "2026-11-00T00:00:00Z",
    "2026-11-31T00:00:00Z",
    "2026-11-20T24:00:00Z",
    "2026-11-20T08:60:00Z",
    "2026-11-20T08:15:60Z",
    "2016-12-31T23:59:60Z",
    "2026-11-20T24:00:00+00:00",
    "2026-11-20T08:15:00+09:60",
    "2026-11-20T08:15:00-24:00",
    "2026-11-20 08:15:00Z",
    "2026/11/20T08:15:00Z",
    "2026-11-20T08:15:0:Z",
    "２026-11-20T08:15:00Z",
    "2026-11-20T08:15:00Z\n",
    "2026-11-20T08:15:00+9:00",
    "2026-11-20T08:15:00.Z",
    "2026-11-20T08:15:00,5Z",
    "2026-11-20T08:15:00.5",
    "2026-11-20T08:15:00.1234567890123456789Z",
    "20261120T081500Z",
]
EDGES = [
    "",
    "a",
    "a" * 256,
    "a" * 257,
    "é" * 128,
    "é" * 129,
    "\n",
    "a\nb",
    "\x00",
    "\x7f",
    "\x80",
    "\x9f",
    "\xa0",
    " ",
    "駅",
]
EDGES += ["\u2028", "\u200b", "\ue000"]


@pytest.mark.parametrize("text", FORMS)
def test_existing_time(text: str) -> None:
    """Every form of RFC 3339 is read, and times in UTC in bulk, also beside others and missing ones."""
    assert reasons(record({**GOOD, "arrived_at": text, "left_at": None})) == []
    instants, fits = parse_instants(f"{text}\n{GOOD['arrived_at']}\n")
    assert fits.tolist() == [text in FORMS[:8], True, False]
    assert not fits[0] or instants[0] == parse_instant(text)


def test_newline_in_a_text() -> None:
    """A newline in a text does not shift the times of other visits, in its record or in others."""
    whole = FORMS[0]
    texts = [f"{whole}\n{whole}", whole, whole]
    values = [
        record({**GOOD, key: text, "left_at": None} | {key: text})
        for key in ("arrived_at", "left_at")
        for text in texts
    ]
    check([*values, record(*({**GOOD, "left_at": text} for text in texts)), record(GOOD)])


def test_whole_calendar() -> None:
    """Random times of the whole calendar are read correctly, in seconds and in microseconds."""
    rng = random.Random(7)
    for unit in (1_000_000, 1):
        instants = [
            rng.randrange(-62_135_596_800_000_000, 253_402_300_800_000_000) // unit * unit for _ in range(5_000)
        ]
        read, fits = parse_instants("\n".join(map(format_instant, instants)))
        assert fits.all()
        assert read.tolist() == instants


MICROSECONDS = [10**15 - 1, 10**15, 1_763_626_500_000_000, 1_763_628_000_123_456, 10**16 - 1, 10**16, 10**40, -1]
_TIMES = st.sampled_from(
    [GOOD["arrived_at"], GOOD["left_at"], *FORMS, *BAD, "\n", 3, None, *MICROSECONDS, 1.763626500e15, True]
)
_IDS = st.one_of(st.sampled_from([*EDGES, 1, None, True]), st.text(max_size=3))
_VISITS: st.SearchStrategy[Any] = st.one_of(
    st.just(GOOD),
    st.fixed_dictionaries(
        {"person_id": _IDS, "location_id": _IDS, "arrived_at": _TIMES},
        optional={
            "left_at": _TIMES,
            "consent": st.sampled_from([True, False, None, 1, "true"]),
            "app": st.floats(allow_nan=False),
            "visits": st.just([]),
        },
    ),
    st.dictionaries(st.sampled_from([*GOOD, "x"]), st.one_of(_IDS, _TIMES)),
    st.sampled_from([None, 1, [], "x"]),
)
_RECORDS = st.one_of(
    _VISITS,
    st.fixed_dictionaries(
        {"visits": st.one_of(st.lists(_VISITS, max_size=4), st.none())},
        optional={"batch_id": st.one_of(_IDS, st.just({})), "x": st.just([1]), "person_id": st.just("p")},
    ),
)


def _flip(text: bytes, flips: list[tuple[int, bytes]]) -> bytes:
    for far, new in flips:
        at = far % (len(text) + 1)
        text = text[:at] + new + text[at + 1 :]
    return text


_SIGNS = [
    b'"',
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\xed\xa0\x80",
    b"\xc2\x85",
    b",",
    b"}",
    b"\n",
    b"NaN",
    b"-0",
    b'"visits":[],',
]
_BYTES = st.one_of(st.binary(max_size=2), st.sampled_from(_SIGNS))
_HEADS = st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"\0\0\0\0\7", b"\0\0\0"])
_FRAMED: st.SearchStrategy[Any] = st.recursive(
    _RECORDS,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"schema": st.none(), "payload": inner}),
        st.fixed_dictionaries(
            {"specversion": st.sampled_from(["1.0", "1.0", "0.3", 1])},
            optional={"data": inner, "id": st.just("1"), "visits": st.just([GOOD]), "person_id": st.just("p")},
        ),
    ),
    max_leaves=3,
)
_VALUES = st.builds(
    lambda head, value, ascii_only, flips: _flip(
        head + json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass"), flips
    ),
    _HEADS,
    st.one_of(_RECORDS, _FRAMED),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 2_000), _BYTES), max_size=2),
)


_LISTS = st.lists(st.one_of(_VALUES, st.none(), st.binary(max_size=8)), max_size=3)


@pytest.mark.promise(25)
@pytest.mark.parametrize("examples", [1_000, pytest.param(20_000, marks=pytest.mark.soak)])
def test_bulk_equals_contract(examples: int) -> None:
    """Decoding in bulk equals decoding by the contract, for generated records, in each framing and form of times."""

    @settings(max_examples=examples, derandomize=True, deadline=None)
    @given(_LISTS)
    def fuzz(values: list[bytes | None]) -> None:
        check(values)

    fuzz()


def test_bulk_equals_contract_near_good_records() -> None:
    """Decoding in bulk equals decoding by the contract, for 1,500 changes of a good record."""
    good, draw = record(GOOD, {key: GOOD[key] for key in list(GOOD)[:3]}), random.Random(7)
    for _ in range(1_500):
        at, width = draw.randrange(len(good)), draw.randrange(4)
        new = draw.choice([*_SIGNS, draw.randbytes(draw.randrange(3))])
        check([good[:at] + new + good[at + width :]])
