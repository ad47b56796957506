"""Output records match the contract byte for byte, and are read back as the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information

from monitor.errors import LedgerError
from monitor.kinds.all_records import RECORDS, read_record
from monitor.kinds.at_times.record import AT_TIMES, AtTimesSnapshot, LaterCount, NoisyCount, make_at_times_record
from monitor.kinds.over_time.record import OVER_TIME, OverTimeAlert, make_over_time_record
from monitor.operate.schema.command import build_alerts_schema
from monitor.operate.schema.examples import Example, make_examples
from monitor.privacy.at_times import AtTimesRule, may_answer
from monitor.privacy.over_time import Mark, OverTimeAnswer, OverTimeRule
from monitor.privacy.published_numbers import TimeNumber
from monitor.records.charges_record import Charges, PlaceCharges, TimeCharges
from monitor.records.fields import Value, encode, make_decoder
from monitor.records.output_records import LEDGER, OWNER, CloudEventHeaders, OutputRecord
from monitor.records.owner_record import LedgerRecord, OwnerRecord, make_ledger_record, make_owner_record
from monitor.time.instants import HOUR, parse_instant

SCHEMA = Draft202012Validator(build_alerts_schema())
AS_OF = parse_instant("2026-11-20T09:00:00Z")
RULE = OverTimeRule(Fraction(1), 2, 20, 336, 1)
MARKS = (Mark(98, 21, Fraction(1, 3), 435), Mark(100, 23, Fraction(1, 2), 437))


def over_time(answer: OverTimeAnswer, resumes_at: int | None = None, counted_since: int | None = None) -> OutputRecord:
    return make_over_time_record(
        source="tokyo",
        monitor="stations",
        location_id="a/駅",
        rule=RULE,
        tick=100,
        as_of=AS_OF,
        window_start=AS_OF - 336 * HOUR,
        answer=answer,
        resumes_at=resumes_at,
        counted_since=counted_since,
    )


def at_times(noisy: Mapping[str, tuple[Any, ...]], *, complete: bool = True, **more: Any) -> OutputRecord:
    return make_at_times_record(
        source="tokyo",
        monitor="evening",
        time=AS_OF - HOUR,
        shard=3,
        shards=16,
        tick=100,
        as_of=AS_OF,
        complete=complete,
        final=False,
        registry="0f" * 32,
        locations=1_250,
        threshold=20,
        epsilon=Fraction(1, 2),
        noisy_counts={place: NoisyCount(*at) for place, at in noisy.items()},
        **more,
    )


CHARGES = Charges(
    "0123456789abcdef",
    1,
    (PlaceCharges("stations", 2, 336, {"1/2": ("a/駅", "b"), "1/3": ("c",)}),),
    (TimeCharges("evening", "at_times", Fraction(1, 2), "2d", ("18:00:00",), "Asia/Tokyo", "0123456789abcdef"),),
)


def owner(*, lost_at: int | None = None, charges: Charges | None = None) -> OutputRecord:
    return make_owner_record(
        source="tokyo",
        service="tokyo",
        fingerprint="f" * 32,
        input_topic_id="t",
        partitions=2,
        lost_at=lost_at,
        input_since=None,
        partition=1,
        at=AS_OF + 1,
        input_partitions=8,
        charges=charges,
    )


def start(*, lost_at: int | None = None) -> OutputRecord:
    return make_ledger_record(
        source="tokyo", service="tokyo", partitions=2, lost_at=lost_at, partition=1, at=AS_OF, input_topic_id="t"
    )


SAFE = OverTimeAnswer("safe", None, (), None)
NOISY = OverTimeAnswer("noisy_count", 23, MARKS, None)
PAUSED = OverTimeAnswer("paused", None, MARKS, 436)
UNKNOWN = OverTimeAnswer("unknown", None, MARKS[:1], None)
ALL: list[tuple[OutputRecord, type[Value], str]] = [
    (over_time(SAFE), OverTimeAlert, OVER_TIME),
    (over_time(NOISY), OverTimeAlert, OVER_TIME),
    (over_time(PAUSED, AS_OF + 336 * HOUR), OverTimeAlert, OVER_TIME),
    (over_time(UNKNOWN), OverTimeAlert, OVER_TIME),
    (over_time(SAFE._replace(marks=MARKS[:1]), counted_since=AS_OF - 2 * HOUR), OverTimeAlert, OVER_TIME),
    (at_times({}), AtTimesSnapshot, AT_TIMES),
    (at_times({"駅": (99, 31), "a b": (100, 20)}, complete=False), AtTimesSnapshot, AT_TIMES),
    (owner(), OwnerRecord, OWNER),
    (owner(lost_at=AS_OF), OwnerRecord, OWNER),
    (owner(charges=CHARGES), OwnerRecord, OWNER),
    (owner(charges=Charges("0123456789abcdef", 0, None, None)), OwnerRecord, OWNER),
    (start(), LedgerRecord, LEDGER),
    (start(lost_at=AS_OF), LedgerRecord, LEDGER),
]


@pytest.mark.parametrize(("record", "form", "ce_type"), ALL)
def test_records_fit_definition(record: OutputRecord, form: type[Value], ce_type: str) -> None:
    """A record that is read and written again has the same bytes, and fits the schema."""
    assert RECORDS[ce_type] is form
    assert encode(make_decoder(form)(record.value)) == record.value
    SCHEMA.validate(json.loads(record.value))
    headers = msgspec.convert({name: text.decode() for name, text in record.headers}, CloudEventHeaders)
    assert headers.ce_type == ce_type
    assert headers.ce_source == "tokyo"
    assert len(headers.ce_id.split("/")) >= 3


def test_bytes_of_a_safe_answer() -> None:
    """A safe answer has exactly these bytes, key and headers."""
    record = over_time(SAFE)
    assert record.key.decode() == "stations/a/駅"
    assert dict(record.headers)["ce_id"].decode() == "stations/a/駅/100"
    assert dict(record.headers)["ce_time"] == b"2026-11-20T09:00:00Z"
    assert record.value.decode() == (
        '{"monitor":"stations","kind":"over_time","location_id":"a/駅","tick":100,"as_of":"2026-11-20T09:00:00Z",'
        '"window_start":"2026-11-06T09:00:00Z","status":"safe","threshold":20,"epsilon":"1/2","answers":[]}'
    )


def test_start_of_a_fresh_count() -> None:
    """The start of a fresh count stands directly after the start of the window, and must be a time."""
    value = over_time(SAFE, counted_since=AS_OF - 2 * HOUR).value
    assert b'"window_start":"2026-11-06T09:00:00Z","counted_since":"2026-11-20T07:00:00Z","status":"safe"' in value
    with pytest.raises(msgspec.ValidationError):
        make_decoder(OverTimeAlert)(value.replace(b"20T07:00:00Z", b"20T24:30:00Z"))


def test_inapplicable_keys_are_absent() -> None:
    """Keys that do not apply to a status are absent."""
    only = {"noisy_count", "count_at_most", "p_value", "resumes_at"}
    present = [only & json.loads(record.value).keys() for record, _, _ in ALL[:4]]
    assert present == [set(), only - {"resumes_at"}, {"resumes_at"}, set()]
    noisy = json.loads(ALL[1][0].value)
    assert noisy["count_at_most"] == noisy["noisy_count"] == 23
    assert noisy["p_value"] == pytest.approx(0.1353, abs=1e-4)  # e^(-1/2 · (23 - 20 + 1))


def test_snapshot_key() -> None:
    """A snapshot has the key monitor/time/shard."""
    record = at_times({})
    assert record.key == b"evening/2026-11-20T08:00:00Z/3"
    assert dict(record.headers)["ce_id"] == b"evening/2026-11-20T08:00:00Z/3/100"


@pytest.mark.parametrize("drop", ["noisy_count", "count_at_most", "p_value", "answers", "status"])
def test_noisy_count_requires_all_keys(drop: str) -> None:
    """A noisy count without one of its keys is refused by the schema and by the reader."""
    value = json.loads(over_time(NOISY).value)
    del value[drop]
    assert not SCHEMA.is_valid(value)
    with pytest.raises(msgspec.ValidationError):
        make_decoder(OverTimeAlert)(encode(value))


def test_different_owner_records_differ_in_id() -> None:
    """Two different owner records of one instant have different ids."""
    ids = {dict(record.headers)["ce_id"] for record in (owner(), owner(lost_at=1), owner())}
    assert len(ids) == 2


def read(record: OutputRecord) -> Any:
    return read_record(record.key, record.value, record.headers)


def test_ledger_reads_written_records() -> None:
    """Each written record is read back with what the ledger needs of it."""
    alert, snapshot = read(over_time(NOISY)), read(at_times({"駅": (99, 31)}))
    assert (alert.monitor, alert.location_id, alert.tick, alert.status) == ("stations", "a/駅", 100, "noisy_count")
    assert alert.answers == NOISY.marks
    assert (snapshot.instant, snapshot.shard, snapshot.shards, snapshot.tick) == (AS_OF - HOUR, 3, 16, 100)
    assert (snapshot.epsilon, snapshot.counts, snapshot.bounds) == (Fraction(1, 2), {"駅": (99, 31)}, {})
    assert at_times({}).ce_id == "evening/2026-11-20T08:00:00Z/3/100"
    assert read(owner(lost_at=AS_OF, charges=CHARGES)) == OwnerRecord(
        "tokyo",
        "f" * 32,
        "t",
        2,
        "2026-11-20T09:00:00Z",
        None,
        input_partitions=8,
        charges=CHARGES,
    )
    assert read(start()) == LedgerRecord(1, "tokyo", 2, None, "t")


def test_unknown_types_are_skipped() -> None:
    """A record of an unknown type is skipped."""
    assert read_record(b"k", b"?", [("ce_type", b"org.location-monitor.new")]) is None
    assert read_record(None, None, []) is None
    assert read_record(None, b"{}", [("ce_type", None)]) is None


@pytest.mark.parametrize(
    ("record", "old", "new"),
    [
        (over_time(NOISY), b'"1/2","until"', b'"x","until"'),
        (over_time(NOISY), b'"tick":100', b'"tick":"100"'),
        (over_time(NOISY), b'"status":"noisy_count"', b'"status":"new"'),
        (at_times({}), b"T08", b"T99"),
        (at_times({"a": (1, 2)}), b'"noisy_count":2', b'"noisy_count":null'),
        (owner(lost_at=AS_OF), b"Z", b""),
        (start(lost_at=AS_OF), b"2026", b"year"),
        (start(), b'"ledger":1', b'"ledger":2'),
        (start(), b"}", b""),
        (owner(charges=CHARGES), b'"1/3"', b'"x"'),
        (owner(charges=CHARGES), b'"answers":2', b'"answers":0'),
        (owner(charges=CHARGES), b'"epsilon":"1/2"', b'"epsilon":"0.5"'),
        (owner(), b"tokyo", b"\xff"),
    ],
)
def test_unreadable_known_record_is_an_error(record: OutputRecord, old: bytes, new: bytes) -> None:
    """A record of a known type that cannot be read is an error, which names the record."""
    assert old in record.value
    for value in (record.value.replace(old, new), None):
        with pytest.raises(LedgerError) as error:
            read_record(record.key, value, record.headers)
        assert f"key {record.key!r} and ce_id {dict(record.headers)['ce_id']!r}" in str(error.value)


def test_lower_bounds_are_read_back() -> None:
    """A snapshot with lower bounds fits the schema, and the ledger reads their ε even if all bounds are 0."""
    for bounds in ({}, {"駅": 3}):
        record = at_times({"駅": (99, 31)}, counts_at_least=(Fraction(1, 3), bounds))
        value = json.loads(record.value)
        assert (value["at_least_epsilon"], value["counts_at_least"]) == ("1/3", bounds)
        SCHEMA.validate(value)
        assert read(record).counts_at_least == bounds
        assert read(record).at_least_epsilon == Fraction(1, 3)
    assert not SCHEMA.is_valid(value | {"counts_at_least": {"駅": 0}})
    assert not SCHEMA.is_valid(value | {"at_least_epsilon": "0"})


def test_numbers_of_a_location_are_read_back() -> None:
    """Noisy counts of a location fit the schema and are read back. One alone has the bytes that it always had."""
    alone = at_times({"駅": (99, 31)})
    assert alone.value.decode().endswith('"noisy_counts":{"駅":{"tick":99,"noisy_count":31}}}')
    assert read(alone).noisy_counts["駅"].numbers == (TimeNumber(99, 31, None),)
    quarter, since = Fraction(1, 4), "2026-11-20T08:00:00Z"
    record = at_times({"駅": (97, 31, quarter, (LaterCount(99, 20, quarter),), since)}, answers_per_time=2)
    assert (
        '{"駅":{"tick":97,"noisy_count":31,"epsilon":"1/4","later":[{"tick":99,"noisy_count":20,"epsilon":"1/4"}],'
        f'"counted_since":"{since}"}}}},"answers_per_time":2}}'
    ) in record.value.decode()
    SCHEMA.validate(json.loads(record.value))
    assert read(record).noisy_counts["駅"].numbers == (TimeNumber(97, 31, quarter), TimeNumber(99, 20, quarter))
    for old, new in ((b'"tick":99', b'"tick":97'), (b'20T08:00:00Z"}}', b'20T24:30:00Z"}}')):
        assert old in record.value
        with pytest.raises(msgspec.ValidationError):
            make_decoder(AtTimesSnapshot)(record.value.replace(old, new))


@pytest.mark.promise(3)
def test_numbers_add_up_to_a_bound() -> None:
    """Over all tiny sets of records and all numbers of k = 2, the bound of a snapshot is never below the people.

    Noise is 0, so the bound is as low as it can be. It is None only in the ticks after the last number.
    """
    half, snapshots = Fraction(1, 2), 0
    rule = AtTimesRule(Fraction(1), 20, 2)
    for stamps in product((97, 98, 99, 100, 101), repeat=3):
        for ticks in ((), (97,), (98,), (100,), (97, 99), (98, 100), (99, 100)):
            people = [stamp for stamp in stamps if stamp <= 100]
            starts = (0, *ticks)
            counts = [sum(low < stamp <= high for stamp in people) for low, high in pairwise(starts)]
            numbers = [TimeNumber(tick, count, half) for tick, count in zip(ticks, counts, strict=True)]
            earlier = [number for number in numbers if number.tick < 100]
            since = "2026-11-20T08:00:00Z" if earlier and may_answer(rule, earlier, 100) else msgspec.UNSET
            later = tuple(LaterCount(*number) for number in numbers[1:])
            noisy = {"駅": (*numbers[0], later, since)} if numbers else {}
            bound = read(at_times(noisy)).find_upper_bound("駅")
            assert (bound is None) == (len(earlier) == 2)
            assert bound is None or len(people) <= bound
            assert read(at_times(noisy, complete=False)).find_upper_bound("駅") is None
            snapshots += 1
    assert snapshots == 7 * 5**3


@pytest.mark.parametrize("example", [example for examples in make_examples().values() for example in examples])
def test_texts_in_another_form_are_refused(example: Example) -> None:
    """Each name, time and digest of each record has one form, by the schema and by the reader."""
    if example.record is None:
        return
    form = RECORDS[example.headers["ce_type"]]
    fields = SCHEMA.schema["$defs"][form.__name__]["properties"]
    for key in [key for key, field in fields.items() if "pattern" in field and key in example.payload]:
        for wrong in ("", "a b", "2026-13-01T00:00:00"):
            forged = example.payload | {key: wrong}
            assert not SCHEMA.is_valid(forged)
            with pytest.raises(msgspec.ValidationError):
                make_decoder(form)(encode(forged))
