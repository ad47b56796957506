"""Forged records: whatever somebody writes to the output, the audit goes on, finds it, and does not quote it.

Each field of a valid record of every kind is replaced by a hostile value, or removed.
"""

from __future__ import annotations

import copy
import json
import math
import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from msgspec import MsgspecError

from monitor.audit.configuration import read_terms
from monitor.audit.kinds.all_kinds import KINDS
from monitor.errors import LedgerError
from monitor.kinds.all_records import RECORDS
from monitor.records.fields import make_decoder
from monitor.records.output_records import TYPE_PREFIX
from tests.audit import test_upper_bound
from tests.audit.conftest import Tiny, show
from tests.audit.records import charges, owner, record
from tests.audit.test_falsehoods import count_night_afresh
from tests.kinds.examples import LENGTHS as LENGTHS_KIND

pytestmark = pytest.mark.long

FORGERIES = int(os.environ.get("FORGERIES", "500"))
RENDERED = 20  # one report in this number is rendered
SEED = int(os.environ.get("FUZZ_SEED", "7"))
STRANGE: Final = "planted-person-7"
REMOVED: Final = object()

HOSTILE: Final[tuple[Any, ...]] = (
    *(REMOVED, None, True, False, 0, 1, -1, 2, 4_711, 10**9, -(10**9), 10**15, -(10**15), 2**63, 10**400),
    *(1.0, 1.5, 1e9, -0.0, math.nan, math.inf, -math.inf),
    *("", "0", "1/0", "0/1", "2/2", "1/2", "-1", "9" * 500, "NaN", "noon", STRANGE, f"{STRANGE}Z", "\ud800", "\x00"),
    *("2026-01-01T02:30:00Z", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "P1D"),
    *([], [[]], [STRANGE], {}, {STRANGE: STRANGE}, {STRANGE: {"tick": 3, "noisy_count": 2}}),
)
DEEP: Final = "[" * 3_000 + "]" * 3_000

_TEXTS: Final = (
    "",
    STRANGE,
    f"{STRANGE}/4",
    "org.location-monitor.over_time",
    "x.owner",
    "2026-13-01T00:00:00Z",
    "\x00",
)

_READERS: Final[dict[str, Callable[[bytes], object]]] = {
    ce_type.removeprefix(TYPE_PREFIX): make_decoder(form) for ce_type, form in RECORDS.items()
}

_Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Forgery:
    """A forged record. `value` is its JSON; `place` is its position in the run, and `what` describes the change.

    `envelope`: the key or a header is forged, and the value is not.
    """

    place: int
    record: dict[str, Any]
    value: str
    what: str
    envelope: bool = False

    @property
    def kind(self) -> str:
        """The kind of the valid record."""
        return str(self.record["value"]["kind"])

    @property
    def is_valid(self) -> bool:
        """Whether the value has the form that the service's own contract describes."""
        try:
            json.loads(self.value, parse_constant=_refuse, parse_float=_parse_finite)
            _READERS[self.kind](self.value.encode())
        except (ValueError, LedgerError, RecursionError, MsgspecError):
            return False
        return True


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _parse_finite(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(text)
    return float(text)


def forge(records: list[dict[str, Any]], draw: random.Random, count: int) -> Iterator[Forgery]:
    """Yield forgeries of records. One in ten has a forged key or header, and the others a forged value."""
    for _ in range(count):
        place = draw.randrange(len(records))
        record = copy.deepcopy(records[place])
        if draw.random() < 0.1:
            name, text = draw.choice(["key", *record["headers"]]), draw.choice(_TEXTS)
            (record if name == "key" else record["headers"])[name] = text
            yield Forgery(place, record, json.dumps(record["value"]), f"{name}: {text!r}", envelope=True)
            continue
        path = draw.choice(list(_list_paths(record["value"])))
        hostile = draw.choice([*HOSTILE, DEEP, "1e999"])
        value = copy.deepcopy(record["value"])
        if hostile in (DEEP, "1e999"):
            _replace(value, path, "@@")
            yield Forgery(place, record, json.dumps(value).replace('"@@"', hostile), f"{path}: {hostile[:9]}")
        else:
            _replace(value, path, hostile)
            yield Forgery(place, record, json.dumps(value), f"{path}: {hostile!r:.60}")


def _list_paths(value: Any, path: _Path = ()) -> Iterator[_Path]:
    """Yield the path of each field, also within objects and arrays, and the empty path of the whole value."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        yield from _list_paths(child, (*path, name))


def _replace(value: Any, path: _Path, hostile: Any) -> None:
    parent = value
    for name in path[:-1]:
        parent = parent[name]
    if not path:
        value.clear()
        if isinstance(hostile, dict):
            value.update(hostile)
    elif hostile is REMOVED:
        del parent[path[-1]]
    else:
        parent[path[-1]] = hostile


@pytest.fixture
def every_kind(tiny: Tiny) -> Tiny:
    """A faultless run with records of every kind, and with a second noisy count about a time."""
    count_night_afresh(tiny, tick=4)
    tiny.bound({"shop": 1}).watch_busiest({"shop": 3}).watch_lengths()
    tiny.config += '  - {name: curve, kind: upper_bound, locations: [park], epsilon: "1", window: 4h, bucket: 2h}\n'
    for tick, lasts in ((1, (-3, -1, 1)), (3, (-1, 1, 3)), (5, (1, 3, 5))):
        line = test_upper_bound.curve(tick, list(lasts), 2)
        line["value"]["numbers"] = [test_upper_bound.number(last, noisy_count=2 if last == 1 else 0) for last in lasts]
        tiny.insert(line)
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
    lengths = night | {"monitor": "lengths", "kind": LENGTHS_KIND, "epsilon": "3/2"}
    shares = {"1": ["park"]}
    bound = {"monitor": "curve", "answers": 2, "window": 4, "shares": shares, "bucket": 2}
    return found | {"places": [*found["places"], bound], "times": [night, bounds, busiest, lengths]}


def test_run_without_forgery_passes(every_kind: Tiny) -> None:
    """The records that are forged below have no finding, and are those of every kind."""
    report = every_kind.audit()
    assert report.ok, report.violations
    assert not every_kind.follow().findings.totals
    assert {line["value"]["kind"] for line in every_kind.records} == {
        *KINDS,
        "owner",
        "ledger",
    }


@pytest.mark.promise(37)
def test_forged_records_are_found(every_kind: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile value in any field ends no audit, is quoted nowhere, and is found unless the record is still valid.

    A threshold or `top` that no other answer contradicts may be that of a configuration that was not given: unjudged.
    """
    terms = read_terms(every_kind.write()[1])  # reading it takes most of the time, so it is read once
    monkeypatch.setattr(sys.modules["monitor.audit.audit_once"], "read_terms", lambda _path: terms)
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
