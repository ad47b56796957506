"""Answers of an earlier build in a ledger that was upgraded: its marks run one tick longer.

The counts of that build also contain visits that were reported in the slot after the tick's. Its owner records have no
`counting`. The run is drawn in conftest.py; here the build changes at an owner record.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.tools.audit.audit import Auditor, Input
from monitor.tools.audit.records import drop_repeats, read_file
from monitor.tools.audit.terms import read_terms
from monitor.tools.audit.visits import read_visits
from tests.audit.conftest import Tiny, owner_value

PRESENT = owner_value()
EARLIER = {name: value for name, value in PRESENT.items() if name != "counting"}
MARK = {"tick": 1, "noisy_count": 3, "epsilon": "1", "until": 4}
LONGER = {**MARK, "until": 5}


def take_over(tiny: Tiny, value: dict[str, Any], before_tick: int = 0, partition: int = 0) -> None:
    """Insert an owner record before the records of a tick."""
    headers = {"ce_type": "org.location-monitor.owner", "ce_id": f"owner/{partition}/{before_tick}"}
    owner = {"key": "owner", "headers": headers, "value": value, "partition": partition, "offset": 0}
    places = [n for n, record in enumerate(tiny.records) if record["value"].get("tick", -1) >= before_tick]
    tiny.records.insert(places[0], owner)


def run_longer(tiny: Tiny) -> None:
    """Make the noisy answer of tick 1 run until tick 5, one tick longer.

    tick   0     1     2     3     4     5     6
    says  safe   3    paused until tick 5     safe
    """
    tiny["walk/park/1"]["answers"] = [LONGER]
    for tick in (2, 3, 4, 5):
        tiny.walk(tick, "paused", [LONGER], resumes_at="2026-01-01T07:00:00Z")


@pytest.mark.parametrize("every_tick", [True, False])
def test_earlier_marks_run_one_tick_longer(tiny: Tiny, every_tick: bool) -> None:
    """Answers that follow an owner record without `counting` are checked by W + F + 1."""
    run_longer(tiny)
    take_over(tiny, EARLIER)
    report = tiny.audit(every_tick=every_tick)
    assert report.ok, report.violations


@pytest.mark.parametrize("value", [PRESENT, None])
def test_longer_present_marks_are_found(tiny: Tiny, value: dict[str, Any] | None) -> None:
    """The same records are wrong after an owner record with `counting`, and without any owner record."""
    run_longer(tiny)
    if value is not None:
        take_over(tiny, value)
    texts = tiny.audit().violations["budget"]
    assert "walk/park, tick 1: answers are not the noisy answers that run, each until tick + W + F - 1" in texts
    assert "walk/park, tick 5: paused, and the next answer is affordable" in texts


def test_short_earlier_mark_is_found(tiny: Tiny) -> None:
    """Marks of W + F ticks are too short for a build whose counts contain visits of one more slot."""
    take_over(tiny, EARLIER)
    texts = tiny.audit().violations["budget"]
    assert "walk/park, tick 1: answers are not the noisy answers that run, each until tick + W + F" in texts
    assert "walk/park, tick 5: not paused, and the next answer is not affordable: 1 of 1 is spent" in texts


@pytest.mark.parametrize("upgrade", [2, 3, 5])
def test_upgrade_keeps_earlier_marks(tiny: Tiny, upgrade: int) -> None:
    """After an upgrade the marks of the earlier build are repeated as they are, until they have run out."""
    run_longer(tiny)
    take_over(tiny, EARLIER)
    take_over(tiny, PRESENT, upgrade)
    report = tiny.audit()
    assert report.ok, report.violations


def test_rollback_lengthens_running_marks(tiny: Tiny) -> None:
    """An earlier build that takes over lengthens the marks of this build to W + F + 1 ticks."""
    take_over(tiny, PRESENT)
    take_over(tiny, EARLIER, 3)
    for tick in (3, 4, 5):
        tiny.walk(tick, "paused", [LONGER], resumes_at="2026-01-01T07:00:00Z")
    report = tiny.audit()
    assert report.ok, report.violations


def test_each_partition_has_its_own_build(tiny: Tiny) -> None:
    """An owner record of another partition says nothing about this one."""
    run_longer(tiny)
    take_over(tiny, EARLIER)
    take_over(tiny, PRESENT, partition=1)
    assert tiny.audit().ok
    tiny.records = tiny.records[2:]
    take_over(tiny, PRESENT)
    take_over(tiny, EARLIER, partition=1)
    assert not tiny.audit().ok


@pytest.mark.parametrize(("value", "paid"), [(EARLIER, 5), (PRESENT, 1)])
@pytest.mark.parametrize(("reported", "charged"), [("05:59:59.999999", True), ("06:00:00", False)])
def test_earlier_answer_charges_the_next_slot(
    tiny: Tiny, value: dict[str, Any], paid: int, reported: str, charged: bool
) -> None:
    """A visit that is reported in the slot after the tick's may be in an earlier build's count, and pays for it."""
    run_longer(tiny)
    take_over(tiny, value)
    tiny.watch_busiest({"shop": 3})
    tiny.config = tiny.config.replace('epsilon: "1/3"', 'epsilon: "5"')
    at = "2026-01-01T02:20:00Z,2026-01-01T02:40:00Z"
    tiny.lines = [*tiny.lines[:3], f"p5,shop,{at},2026-01-01T{reported}Z"]
    assert tiny.audit().paid == (paid if charged else 1)


def test_earlier_pause_after_loss_is_longer(tiny: Tiny) -> None:
    """After a lost ledger an earlier build pauses for W + F + 1 ticks, this build for W + F."""
    take_over(tiny, {**EARLIER, "lost_at": "2026-01-01T00:30:00Z"})
    tiny.remove("walk/park/0", "walk/park/1")
    for tick in (2, 3, 4):
        tiny.walk(tick, "paused", [], resumes_at="2026-01-01T06:00:00Z")
    assert tiny.audit(every_tick=False).ok
    take_over(tiny, PRESENT, 2)
    assert not tiny.audit(every_tick=False).ok


@pytest.mark.parametrize(("partition", "ok"), [(0, True), (1, False)])
def test_loss_pauses_its_own_partition(tiny: Tiny, partition: int, ok: bool) -> None:
    """A lost ledger explains pauses in its own output partition, and in no other. An older loss shortens nothing."""
    take_over(tiny, {**PRESENT, "lost_at": "2026-01-01T00:30:00Z"}, partition=partition)
    take_over(tiny, {**PRESENT, "lost_at": "2025-12-01T00:30:00Z"}, 1, partition)
    tiny.remove("walk/park/0", "walk/park/1")
    for tick in (2, 3):
        tiny.walk(tick, "paused", [], resumes_at="2026-01-01T05:00:00Z")
    tiny.walk(4, "safe", [])
    assert tiny.audit(every_tick=False).ok is ok


@pytest.mark.parametrize("until", [3, 4, 5, 6])
def test_mark_length_shows_the_build(tiny: Tiny, until: int) -> None:
    """If the first records have expired, a mark may run W + F or W + F + 1 ticks, and nothing else."""
    mark = {**MARK, "until": until}
    tiny["walk/park/1"]["answers"] = [mark]
    for tick in range(2, until + 1):
        tiny.walk(tick, "paused", [mark], resumes_at=f"2026-01-01T{until + 2:02}:00:00Z")
    tiny.remove("walk/park/6")
    visits, config, alerts = tiny.write()
    terms = read_terms(config)
    auditor = Auditor([Input(terms, read_visits(visits, terms))], every_tick=False, whole=False)
    for record in drop_repeats(read_file(alerts), auditor.findings):
        auditor.take(record)
    assert (auditor.findings.totals["budget"] == 0) is (until in (4, 5))


@pytest.mark.parametrize(("value", "paid"), [(EARLIER, 7), (PRESENT, 1)])
def test_earlier_snapshot_charges_the_next_slot(tiny: Tiny, value: dict[str, Any], paid: int) -> None:
    """The noisy count of tick 3 may contain a visit that is reported in slot 4, if an earlier build drew it."""
    run_longer(tiny)
    take_over(tiny, value)
    tiny.config = tiny.config.replace('epsilon: "1/2"', 'epsilon: "7"')
    tiny.lines = [*tiny.lines[:3], "p5,shop,2026-01-01T02:20:00Z,2026-01-01T02:40:00Z,2026-01-01T04:10:00Z"]
    assert tiny.audit().paid == paid


def test_next_slots_visits_may_be_missing(tiny: Tiny) -> None:
    """A count of an earlier build may lack visits of the next slot, which that build did not always read in time."""
    run_longer(tiny)
    take_over(tiny, EARLIER)
    visit = "park,2026-01-01T01:10:00Z,2026-01-01T01:50:00Z,2026-01-01T02:30:00Z"  # reported in slot 2
    tiny.lines += [f"q{n},{visit}" for n in range(5)]
    assert tiny.audit().ok


def test_file_without_partitions_has_one_build(tiny: Tiny, tmp_path: Path) -> None:
    """Records without `partition` follow the latest owner record of the file."""
    run_longer(tiny)
    take_over(tiny, EARLIER)
    for record in tiny.records:
        del record["partition"]
    assert tiny.audit().ok
    assert "partition" not in json.loads((tmp_path / "alerts.jsonl").read_text().splitlines()[0])
