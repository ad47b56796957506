"""The oracles of the fault tests find wrong facts, dead letters and partitions. These tests need no servers."""

from __future__ import annotations

import json
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from monitor.contracts.instants import MILLISECOND
from monitor.tools.audit.configuration import AuditTerms, read_terms
from tests.faults.exact import find_inexact, recount
from tests.faults.facts import (
    Comparison,
    Shard,
    check_dead_letters,
    check_moments,
    check_windows,
    find_shown_early,
    unpack,
)
from tests.faults.oracles import find_misplaced
from tests.faults.recount import DeadLetter, Fates, LastSeen, Present
from tests.faults.town import FaultTown, Shape

NOW = 1_800_000_000_000  # a broker's timestamp, in milliseconds; a slot of two seconds begins then
SECOND = 1_000_000


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> FaultTown:
    """A town without servers."""
    return FaultTown(tmp_path_factory.mktemp("town"), "town", ("localhost:1", "redis://localhost:1/0"), Shape(), 1)


@pytest.fixture
def terms(town: FaultTown) -> AuditTerms:
    return read_terms(town.config)


def record(value: bytes | None, offset: int = 0) -> Any:
    return SimpleNamespace(partition=0, offset=offset, timestamp=NOW, key=None, value=value, headers=[])


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
    newest = {"complete_from": 7, "evicted_before": 6, "times_evicted_until": NOW - 1}
    assert count_findings(Shard(newest, set(), set()))[0] == 1
    assert count_findings(Shard({"evicted_before": 8, "times_evicted_until": NOW}, set(), set())) == (0, 0)
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


def value(status: str, **more: Any) -> dict[str, Any]:
    known = {
        "kind": "over_time",
        "monitor": "late",
        "location_id": "late-0",
        "tick": 7,
        "epsilon": "40",
        "threshold": 1,
    }
    return {**known, "status": status, "window_start": "2026-01-01T00:00:12Z", **more}


@pytest.mark.parametrize(
    ("stamp", "answer", "broken"),
    [
        (7, value("safe"), 1),  # the visit was not counted
        (7, value("noisy_count", noisy_count=1), 0),
        (8, value("safe"), 0),
        (8, value("noisy_count", noisy_count=1), 1),  # the visit was counted too early
        (7, value("noisy_count", noisy_count=0), 1),
        (8, value("noisy_count", noisy_count=1, epsilon="1"), 0),  # it may be noise
        (8, value("unknown"), 0),
    ],
)
def test_inexact_answer_is_found(terms: AuditTerms, stamp: int, answer: dict[str, Any], broken: int) -> None:
    """The oracle finds an answer that does not follow from the stamps: one visit, stamped in slot 7 or 8."""
    body = (
        b'{"person_id": "p", "location_id": "late-0", "arrived_at": "2026-01-01T00:00:14.5Z", '
        b'"left_at": "2026-01-01T00:00:15Z"}'
    )
    record = SimpleNamespace(partition=0, offset=0, timestamp=terms.grid.start(stamp) // MILLISECOND + 1, value=body)
    assert len(list(find_inexact(recount(terms, [record]), [answer], 0))) == broken
