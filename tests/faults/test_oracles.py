"""The oracles of the fault tests find wrong facts, dead letters and partitions. These tests need no servers."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from monitor.tools.audit.terms import AuditTerms, read_terms
from tests.faults.bad_records import KINDS, make_bad_records
from tests.faults.facts import (
    Comparison,
    Shard,
    check_dead_letters,
    check_moments,
    check_windows,
    find_shown_early,
    unpack,
)
from tests.faults.oracles import find_misplaced, write_alerts
from tests.faults.recount import DeadLetter, Fates, LastSeen, Present, Recount
from tests.faults.town import FaultTown, Shape
from tests.kit.town import KEY

NOW = 1_800_000_000_000  # a broker's timestamp, in milliseconds; a slot of two seconds begins then
SECOND = 1_000_000


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> FaultTown:
    """A town without servers."""
    return FaultTown(tmp_path_factory.mktemp("town"), "town", ("localhost:1", "redis://localhost:1/0"), Shape(), 1)


@pytest.fixture
def terms(town: FaultTown) -> AuditTerms:
    return read_terms(town.config)


@pytest.fixture
def recount(terms: AuditTerms) -> Recount:
    """The recount of a configuration whose only designated time is four seconds ago."""
    timed = replace(terms.at_times[0], instants=(NOW * 1_000 - 4 * SECOND,))
    return Recount(replace(terms, at_times=(timed,), hot_spots=()), KEY.encode())


def record(value: bytes | None, offset: int = 0) -> Any:
    return SimpleNamespace(partition=0, offset=offset, timestamp=NOW, key=None, value=value, headers=[])


def visit(arrived: float, left: float, location: str = "edge-0") -> bytes:
    """Return a visit with times in seconds from now."""
    from monitor.tools.audit.text import format_utc  # noqa: PLC0415  # the audit's format of times

    times = {
        "arrived_at": format_utc(NOW * 1_000 + int(arrived * SECOND)),
        "left_at": format_utc(NOW * 1_000 + int(left * SECOND)),
    }
    return json.dumps({"person_id": "p", "location_id": location, **times}).encode()


def test_recount_refuses_each_bad_record(recount: Recount) -> None:
    """The recount refuses each kind of invalid record for the expected reason, and has no facts of it."""
    bad = dict(zip(KINDS, make_bad_records("planted"), strict=False))
    fates = {kind: recount.fates(record(bad_record.value)) for kind, bad_record in bad.items()}
    refused = {kind: {(letter.place, letter.reason) for letter in fate.letters} for kind, fate in fates.items()}
    assert refused == {kind: bad_record.letters for kind, bad_record in bad.items()}
    assert not any(fate.seen or fate.present for fate in fates.values())


def test_stamp_decides_refusal_cut_and_expiry(recount: Recount, terms: AuditTerms) -> None:
    """The stamp of a record decides whether its visit is refused, cut or expired."""
    #   slots       -5            0 (now)     1 (accept_ahead)   2 (F)
    #   begins      expired │ ├── applied ────────────────────┤ refused
    #   ends                                                     ──────┤ cut
    now = terms.grid.find_slot(NOW * 1_000)

    def slots(arrived: float, left: float, location: str = "edge-0") -> list[int]:
        return [fact.slot - now for fact in recount.fates(record(visit(arrived, left, location))).seen]

    assert slots(-20, -10) == []
    assert slots(-20, -8) == [-5] == slots(-10, -8.5)
    assert slots(0, 30) == [2] == slots(3.9, 30)
    assert {letter.reason for letter in recount.fates(record(visit(4, 30))).letters} == {"too_far_ahead"}
    assert slots(0, 1, "yard-0") == []
    assert recount.fates(record(visit(-40, -39))).unasked == 1


def test_horizon_ends_a_designated_time(recount: Recount) -> None:
    """A visit has a fact for a designated time only within the horizon of that time."""
    assert [fact.time for fact in recount.fates(record(visit(-4, -3))).present] == [NOW * 1_000 - 4 * SECOND]
    assert not recount.fates(record(visit(-5, -4))).present
    for horizon, asked in ((6 * SECOND, True), (6 * SECOND - 1, False)):  # the slot of the record ends in 2 s
        shorter = replace(recount.terms.at_times[0], horizon=horizon)
        other = Recount(replace(recount.terms, at_times=(shorter,)), KEY.encode())
        assert bool(other.fates(record(visit(-4, -3))).present) is asked


def test_missing_and_extra_facts_are_found(terms: AuditTerms) -> None:
    """A missing fact and a fact without a visit are each one finding."""
    row = terms.rows["edge-0"]
    number = terms.shard[row]
    here, there = LastSeen(row, b"a", 7), LastSeen(row, b"b", 8)
    at, elsewhere = Present(NOW, row, b"a"), Present(NOW, row, b"b")
    reported = Fates(seen={here, there}, present={at, elsewhere})
    due = Fates(seen={here}, present={at})

    def count_findings(shard: Shard) -> tuple[int, int]:
        people = check_windows(number, shard, (reported, due), terms, Comparison())
        return len(list(people)), len(list(check_moments(number, shard, (reported, due), terms, Comparison())))

    assert count_findings(Shard({}, {here}, {at})) == (0, 0)
    assert count_findings(Shard({}, {here, there}, {at, elsewhere})) == (0, 0)
    assert count_findings(Shard({}, set(), set())) == (1, 1)
    assert count_findings(Shard({"since": 7, "trimmed": 6, "dropped": NOW - 1}, set(), set()))[0] == 1
    assert count_findings(Shard({"trimmed": 8, "dropped": NOW}, set(), set())) == (0, 0)
    assert count_findings(Shard({}, {replace_slot(here, 6)}, {at})) == (2, 0)
    assert count_findings(Shard({}, {here, LastSeen(row, b"c", 7)}, {at, Present(NOW, row, b"c")})) == (1, 1)


def test_waiting_and_early_facts(terms: AuditTerms) -> None:
    """Waiting facts are included, and a fact in the windows that was first reported after `shown` is found."""
    row = terms.rows["edge-0"]
    seen = struct.pack(">qcIIIi16s", 7, b"s", 1, row, 1, 1, b"a" * 16)
    present = struct.pack(">qcqI16s", 7, b"p", NOW, row, b"a" * 16)
    shard = Shard({"shown": 6})
    unpack([seen, present], shard)
    here, at = LastSeen(row, b"a" * 16, 8), Present(NOW, row, b"a" * 16)
    assert (shard.seen, shard.present) == ({here}, {at})
    assert list(find_shown_early(shard, {here: 7, at: 7}, terms)) == []
    shard.shown = {here, at}
    assert len(list(find_shown_early(shard, {here: 7, at: 6}, terms))) == 1


def replace_slot(fact: LastSeen, slot: int) -> LastSeen:
    return fact._replace(slot=slot)


def letter(place: int, reason: str, value: bytes, key: bytes | None = None, topic: str = "town.visits") -> Any:
    headers = {"partition": "0", "offset": "5", "index": str(place), "reason": reason, "topic": topic}
    shown = [(name, text.encode()) for name, text in headers.items()]
    return SimpleNamespace(key=key, value=value, headers=shown, timestamp=NOW)


def test_dead_letter_comparison(town: FaultTown) -> None:
    """Dead letters are compared by position, reason, payload, key and topic."""
    fates = Fates(letters={DeadLetter(0, 5, "1", "bad_id"): {"person_id": 7}})
    judged = [(record(b"", 5), fates)]

    def count_findings(*written: Any, reached: int = 6) -> int:
        return len(list(check_dead_letters(town, list(written), judged, {0: reached})))

    good = letter(1, "bad_id", b'{"person_id":7}')
    assert count_findings(good) == count_findings(good, good) == 0
    assert count_findings() == 1
    assert count_findings(reached=5) == 0
    assert count_findings(good, letter(0, "bad_id", b'{"person_id":7}')) == 1
    assert count_findings(letter(1, "bad_time", b'{"person_id":7}')) == 2
    assert count_findings(letter(1, "bad_id", b'{"person_id":8}')) == 2
    assert count_findings(letter(1, "bad_id", b'{"person_id":7}', key=b"p")) == 1
    assert count_findings(letter(1, "bad_id", b'{"person_id":7}', topic="others")) == 1


def answer(kind: str, partition: int, **value: Any) -> Any:
    headers = [("ce_type", f"x.{kind}".encode()), ("ce_id", f"{kind}/{value.get('tick', 0)}".encode())]
    shown = json.dumps(value).encode()
    return SimpleNamespace(partition=partition, offset=3, key=b"k", value=shown, headers=headers, timestamp=NOW)


def test_misplaced_answer_is_found(town: FaultTown) -> None:
    """An answer outside the partition of its shard is a finding."""
    assert town.shape.ledger_partitions == 2
    assert (
        find_misplaced(town, [answer("at_times", 1, shard=3), answer("at_times", 0, shard=2), answer("owner", 1)]) == []
    )
    assert len(find_misplaced(town, [answer("at_times", 3, shard=3), answer("at_times", 1, shard=2)])) == 2
    assert len(find_misplaced(town, [answer("owner", 2)])) == 1
    places = [answer("over_time", partition, location_id="edge-0") for partition in (0, 1)]
    assert len(find_misplaced(town, places)) == 1


def test_records_are_ordered_by_tick(tmp_path: Path) -> None:
    """Records are written by tick, and those without a tick with the tick before them."""
    records = [answer("owner", 0), answer("over_time", 0, tick=8), answer("owner", 0), answer("over_time", 1, tick=7)]
    write_alerts(records, tmp_path / "alerts.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
    ticks = [cast("dict[str, int]", line["value"]).get("tick") for line in lines]
    assert ticks == [None, 7, 8, None]
