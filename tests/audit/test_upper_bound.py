"""The audit of upper bounds: a faultless run, and each way to break it. W = 4, b = 2 and F = 1, ε of a number 1/2.

slot      0  1     2  3     4  5
people    p1       p1 p2    p3
number       1        2        4
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from monitor.audit.findings import BUDGET, FORM, NOISY, PAID, TICKS
from tests.audit.conftest import Tiny, find, show
from tests.audit.records import as_of, owner, record, start

CONFIG = """
service: {name: tiny, shards: 1}
clock: {slot: 1h, origin: 2026-01-01T00:00:00Z, release_delay: 30s}
locations: {file: locations.csv}
visits: {default_stay: 15m, accept_ahead: 0s}
privacy: {epsilon: "4", period: 4h}
monitors:
  - {name: curve, kind: upper_bound, locations: [park], epsilon: "1", window: 4h, bucket: 2h}
"""
LINES = (
    "person_id,location_id,arrived_at,left_at,reported_at",
    "p1,park,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,",
    "p1,park,2026-01-01T02:10:00Z,2026-01-01T02:50:00Z,",
    "p2,park,2026-01-01T03:10:00Z,2026-01-01T03:50:00Z,",
    "p3,park,2026-01-01T04:10:00Z,2026-01-01T04:50:00Z,",
)
NUMBERS = {-3: 0, -1: 2, 1: 1, 3: 2, 5: 4}


def number(last: int, **more: Any) -> dict[str, Any]:
    """Return the number of the bucket that ends with a slot."""
    value = {"tick": last, "noisy_count": NUMBERS[last], "epsilon": "1/2", "until": last + 4}
    return value | {"bucket": 2, "window": 4} | more


def curve(tick: int, lasts: list[int], bound: int | None) -> dict[str, Any]:
    """Return the record of the park at the end of a bucket."""
    value = {
        "monitor": "curve",
        "kind": "upper_bound",
        "location_id": "park",
        "tick": tick,
        "as_of": as_of(tick),
        "window_start": start(tick - 3),
        "bucket_start": start(tick - 1),
        "status": "unknown" if bound is None else "complete",
        "epsilon": "1/2",
        "numbers": [number(last) for last in lasts],
    }
    return record("curve/park", tick, value if bound is None else value | {"count_at_most": bound})


@pytest.fixture
def run(tmp_path: Any) -> Tiny:
    """A faultless run: the number of slots 2 and 3 is drawn late, at tick 5."""
    records = [curve(1, [-3, -1, 1], 3), curve(3, [-1, 1], None), curve(5, [1, 3, 5], 7)]
    records += [owner(tick=tick) for tick in (0, 2, 4)]
    for line, tick in zip(records[3:], (0, 2, 4), strict=True):
        line["headers"]["ce_time"] = as_of(tick)
    records.sort(key=lambda line: line["value"]["tick"])
    return Tiny(tmp_path, list(LINES), CONFIG, records)


def test_faultless_run(run: Tiny) -> None:
    """Nothing is found in a faultless run with a number that was drawn late, and the numbers are counted."""
    report = run.audit()
    assert not report.totals, show(report)
    assert report.noisy == len(NUMBERS)


def set_number(tick: int, last: int, **fields: Any) -> Callable[[Tiny], object]:
    """Return a change of a number in the record of a tick."""

    def change(run: Tiny) -> None:
        numbers = run[f"curve/park/{tick}"]["numbers"]
        next(one for one in numbers if one["tick"] == last).update(fields)

    return change


def replace_record(tick: int, *record_parts: Any) -> Callable[[Tiny], object]:
    """Return a change that replaces the record of a tick."""
    return lambda run: run.find(f"curve/park/{tick}").update(copy.deepcopy(curve(tick, *record_parts)))


WRONG: dict[str, tuple[Callable[[Tiny], object], set[str]]] = {
    "sum too low": (lambda run: run.set("curve/park/5", count_at_most=6), {NOISY}),
    "sum although a number is missing": (
        lambda run: run.set("curve/park/3", status="complete", count_at_most=3), {NOISY},
    ),
    "unknown although no number is missing": (lambda run: run.set("curve/park/5", status="unknown"), {NOISY}),
    "number below the people": (set_number(5, 3, noisy_count=1), {NOISY}),
    "number that is not repeated": (replace_record(5, [3, 5], None), {BUDGET}),
    "second draw": (set_number(5, 1, noisy_count=2), {BUDGET, NOISY}),
    "another ε": (set_number(5, 5, epsilon="1/4"), {BUDGET}),
    "ends too early": (set_number(5, 5, until=8), {BUDGET, NOISY}),
    "another bucket": (set_number(5, 5, bucket=1), {BUDGET, NOISY}),
    "wrong start": (lambda run: run.set("curve/park/5", bucket_start=start(3)), {FORM}),
    "missing record": (lambda run: run.remove("curve/park/3"), {TICKS}),
}  # fmt: skip


@pytest.mark.parametrize(("change", "oracles"), WRONG.values(), ids=WRONG)
def test_wrong_record_is_found(run: Tiny, change: Callable[[Tiny], object], oracles: set[str]) -> None:
    """Each wrong number, sum, status and fact is found."""
    change(run)
    assert set(run.audit().totals) == oracles


def test_number_before_the_loss_is_found(run: Tiny) -> None:
    """A bucket with a slot before the loss of the ledger has no number."""
    run.records.insert(0, owner(lost_at=as_of(2)))
    assert any("before the loss" in text for text in run.audit().violations[BUDGET])


def test_numbers_are_charged(run: Tiny) -> None:
    """Five numbers cost a person 5/2 within four hours, which is more than a stated ε of 2."""
    run.configure('epsilon: "4"', 'epsilon: "2"')
    assert find(run, PAID)
