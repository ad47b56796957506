"""Forged records: whatever somebody writes to the output, the audit goes on, finds it, and does not quote it."""

from __future__ import annotations

import os
import random
import sys
from typing import Any

import pytest

from monitor.tools.audit.configuration import read_terms
from tests.tools.audit.conftest import Tiny, show
from tests.tools.audit.forgery import STRANGE, forge
from tests.tools.audit.records import charges, owner, record

FORGERIES = int(os.environ.get("FORGERIES", "1000"))
RENDERED = 20  # one report in this number is rendered
SEED = int(os.environ.get("FUZZ_SEED", "7"))


@pytest.fixture
def every_kind(tiny: Tiny) -> Tiny:
    """A faultless run with records of every kind."""
    tiny.bound({"shop": 1}).watch_busiest({"shop": 3}).watch_lengths()
    started = {"ledger": 1, "service": "tiny", "partitions": 1, "lost_at": None, "input_topic_id": "", "kind": "ledger"}
    start = record("ledger", 0, started)
    first = owner(_charges())
    quiet = owner(_charges(), tick=6)
    for number, line in enumerate((start, first, quiet)):
        line["headers"]["ce_id"] = f"{line['key']}/0/{number}"
    tiny.records[:0] = [start, first]
    tiny.records.append(quiet)
    return tiny


def _charges() -> dict[str, Any]:
    """Return the charges of all monitors of `every_kind`."""
    found = charges()
    night = found["times"][0]
    bounds = night | {"kind": "at_least", "epsilon": "3/4"}
    busiest = night | {"monitor": "busiest", "kind": "hot_spots", "epsilon": "1/3"}
    lengths = night | {"monitor": "lengths", "kind": "dwell", "epsilon": "3/2"}
    return found | {"times": [night, bounds, busiest, lengths]}


def test_run_without_forgery_passes(every_kind: Tiny) -> None:
    """The records that are forged below have no finding, and are those of every kind."""
    report = every_kind.audit()
    assert report.ok, report.violations
    assert not every_kind.follow().findings.totals
    assert {line["value"]["kind"] for line in every_kind.records} == {
        *("over_time", "at_times", "hot_spots", "dwell", "owner", "ledger")
    }


@pytest.mark.promise(37)
def test_forged_records_are_found(every_kind: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile value in any field ends no audit, is quoted nowhere, and is found unless the record is still valid.

    A threshold or `top` that no other answer contradicts may be that of a configuration that was not given: unjudged.
    """
    terms = read_terms(every_kind.write()[1])  # reading it takes most of the time, so it is read once
    monkeypatch.setattr(sys.modules["monitor.tools.audit.audit"], "read_terms", lambda _path: terms)
    valid, invalid = every_kind.records, 0
    for number, forgery in enumerate(forge(valid, random.Random(SEED), FORGERIES)):
        every_kind.records, every_kind.every_tick = [*valid], number % 2 == 0
        every_kind.records[forgery.place] = forgery.record | {"value": forgery.value}
        report = every_kind.audit()
        said = str(report) + (show(report) if number % RENDERED == 0 else "")
        assert STRANGE not in said, forgery.what
        assert "unexpected" not in said, forgery.what
        if not forgery.envelope and not forgery.is_valid:
            invalid += 1
            unstated = "('threshold',)" in forgery.what or "('top',)" in forgery.what
            assert not report.ok or (unstated and report.unjudged), forgery.what
    assert invalid > FORGERIES // 2
