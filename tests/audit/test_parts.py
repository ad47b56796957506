"""Runs in part: what a run that goes on claims, what `--since` leaves out, and ticks that lack records.

The last tick about 02:30 is tick 4. Subscribers see ticks 0 to 6. records.py draws the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Final

import pytest

from monitor.audit import audit
from monitor.audit.findings import SIGNED, Findings
from monitor.audit.parse_values import parse_instant
from monitor.audit.signatures import Signatures, read_public_key
from monitor.records.output_records import OutputRecord
from tests.audit.conftest import Tiny
from tests.audit.records import as_of, busiest, charges, owner
from tests.client.test_verification import ATTACKS, Ticks, alter, make_ticks
from tests.kit.signed import SIGNER, TOPIC_ID, make_answers

TIME = "2026-01-01T02:30:00Z"
NO_ANSWER = "the output topic answers no tick"
LATER: Final = {"near": b"1970-01-01T05:00:00Z", "far": b"9000-01-01T00:00:00Z", "none": b"~"}
"""Times of forged records: in the near future, in the far future, and no time."""


def find(tiny: Tiny, records: list[dict[str, Any]]) -> list[str]:
    """Return the findings about ticks, and require that there are no others."""
    tiny.live().records = records
    report = tiny.audit()
    assert set(report.totals) <= {"ticks"}
    return [text for text in report.violations["ticks"] if text != NO_ANSWER]


@pytest.fixture
def totals(tiny: Tiny) -> Tiny:
    """A faultless run with hot spots and lengths."""
    return tiny.watch_busiest({"shop": 3}).watch_lengths()


@pytest.mark.promise(37)
@pytest.mark.parametrize("monitor", ["busiest", "lengths"])
def test_missing_totals_are_found(totals: Tiny, monitor: str) -> None:
    """A decided tick without the hot spots or lengths that are due is found, even if ticks may be missing."""
    totals.remove(f"{monitor}/{TIME}/4")
    assert find(totals, [owner(), *totals.records]) == [f"partition 0, tick 4: {monitor} has 0 of 1 records"]


def test_missing_tick_lacks_no_totals(totals: Tiny) -> None:
    """A tick that nobody decided lacks no hot spots or lengths."""
    records = [line for line in totals.records if line["value"]["tick"] != 4]
    assert find(totals, [owner(), *records]) == []


@pytest.mark.promise(37, 40)
@pytest.mark.parametrize("fingerprint", ["0" * 16, "1" * 16], ids=["same configuration", "another one"])
def test_cut_tick_is_completed_or_recorded(totals: Tiny, fingerprint: str) -> None:
    """If an owner was stopped within a tick, the next one completes the tick, or records that its rest is lost.

    tick 4   part   owner   part and rest                 nothing is found
    tick 4   part   owner   part, owner (incomplete: 4)   nothing is found; the tick is listed
    tick 4   part   owner   part                          found: nobody says what became of the rest
    """
    until, rest = totals.split(4)
    earlier = [line for line in until if line["value"]["tick"] < 4]
    whole = until[len(earlier) :]
    part = whole[:-1]
    taken_over = owner(fingerprint=fingerprint)
    cut = [owner(), *earlier, *part, taken_over]
    lost = owner(fingerprint=fingerprint, incomplete=4)
    assert find(totals, [*cut, *whole, *rest]) == []
    assert find(totals, [*cut, *part, lost, *rest]) == []
    assert totals.audit().incomplete == {0: [4]}
    monitor = whole[-1]["value"]["monitor"]
    assert find(totals, [*cut, *part, *rest]) == [f"partition 0, tick 4: {monitor} has 0 of 1 records"]
    other = owner(fingerprint=fingerprint, incomplete=3)
    assert find(totals, [*cut, *part, other, *rest]) == [f"partition 0, tick 4: {monitor} has 0 of 1 records"]


def test_owner_record_excuses_no_partial_tick(tiny: Tiny) -> None:
    """A tick before the owner record that an owner repeats from time to time must be complete."""
    tiny.remove("walk/park/3")
    earlier, later = tiny.split(3)
    repeated = owner(input_partitions=2)
    assert find(tiny, [owner(), *earlier, repeated, *later]) == ["partition 0, tick 3: walk has 0 of 1 records"]


def watch_only_busiest(tiny: Tiny) -> None:
    """Let hot spots be the only monitor, so that the other ticks have no answers."""
    tiny.config = tiny.config.partition("  - {name: walk")[0]
    tiny.watch_busiest({"shop": 3})
    tiny.records = [tiny.find(f"busiest/{TIME}/4")]


@pytest.mark.promise(37)
def test_owner_record_instead_of_totals(tiny: Tiny) -> None:
    """An owner record that states a tick without answers is found if hot spots are due at the tick."""
    watch_only_busiest(tiny)
    before, after = ([owner(tick=tick) for tick in ticks] for ticks in ((2, 3), (5, 6)))
    assert find(tiny, [owner(), *before, *tiny.records, *after]) == []
    found = find(tiny, [owner(), *before, owner(tick=4), *after])
    assert found == ["partition 0, tick 4: busiest has 0 of 1 records"]


@pytest.mark.parametrize(("partition", "found"), [(0, []), (1, ["partition 1, tick 4: busiest has 0 of 1 records"])])
def test_totals_have_one_partition(tiny: Tiny, partition: int, found: list[str]) -> None:
    """Hot spots are expected in the partition that the hash of the monitor's name selects, and in no other."""
    watch_only_busiest(tiny)
    records = [owner(tick=tick, partitions=2) | {"partition": partition} for tick in range(2, 7)]
    assert find(tiny, records) == found


def charge_busiest(horizon: str) -> dict[str, Any]:
    """Return the charges of hot spots alone."""
    night = charges()["times"][0]
    return charges() | {
        "places": [],
        "times": [night | {"monitor": "busiest", "kind": "hot_spots", "epsilon": "1/3", "horizon": horizon}],
    }


def test_totals_are_drawn_once(tiny: Tiny) -> None:
    """A time that was answered under a shorter horizon needs no second answer at its new last tick, and gets none.

    tick       2    3         4           5
    horizon   2 h  2 h: 3    3 h: due    3 h
    """
    watch_only_busiest(tiny)
    earlier = tiny.folder / "earlier.yaml"
    earlier.write_text(tiny.config.replace("reporting_horizon: 3h", "reporting_horizon: 2h"))
    first, second = charge_busiest("2h"), charge_busiest("3h")
    (drawn, again), none = (busiest({"shop": 3}, tick, 1, "complete") for tick in (3, 4)), owner(second, tick=4)
    for at_3, at_4, found in (
        (drawn, none, []),
        (owner(first, tick=3), none, ["partition 0, tick 4: busiest has 0 of 1 records"]),
        (drawn, again, [f"busiest/{TIME}, tick 4: the time is answered a second time"]),
    ):
        tiny.records = [owner(first), owner(first, tick=2), at_3, owner(second), at_4]
        tiny.records += [owner(second, tick=tick) for tick in (5, 6)]
        visits, config, alerts = tiny.write()
        report = audit(visits, [config, earlier], alerts)
        assert [text for text in report.violations["ticks"] if text != NO_ANSWER][-1:] == found


def verify(records: Iterable[OutputRecord], since: int | None) -> tuple[int, str]:
    """Return the number of findings from a tick on, and why they are not reported yet."""
    findings = Findings()
    signatures = Signatures([read_public_key(str(SIGNER.verifier))], findings, since)
    for record in records:
        headers = {name: value or b"" for name, value in record.headers}
        signatures.take(TOPIC_ID, 0, headers, record.value or b"")
    signatures.end(0)
    assert findings.totals.keys() <= {SIGNED}
    return findings.totals[SIGNED], signatures.unreported


def test_half_a_tick_is_not_proven(tiny: Tiny) -> None:
    """While only a part of a tick has been appended, the result ends before it."""
    earlier, (first, second, *_later) = [owner(charges()), *tiny.split(2)[0]], tiny.split(2)[1]
    for parts, tick in (([earlier], 2), ([earlier, [first]], 2), ([earlier, [first], [second]], 3)):
        engine = tiny.follow(*parts)
        assert engine.findings.totals == {}
        assert engine.proven_stretch is not None
        assert engine.proven_stretch.up_to == parse_instant(as_of(tick))


def test_examined_ticks_are_not_reported(tiny: Tiny) -> None:
    """With `since`, findings about earlier ticks are left out, and nothing is claimed about these ticks."""
    tiny.visit("q1", "park", "00:10", "00:20").records.insert(0, owner(charges()))
    assert set(tiny.follow(since="2026-01-01T00:59:59Z").findings.totals) == {"safe"}
    engine = tiny.follow(since="2026-01-01T01:00:00Z")
    assert engine.findings.totals == {}
    assert engine.proven_stretch is not None
    assert engine.proven_stretch.since == parse_instant(as_of(1))


def test_examined_overspending_hides_no_later_one(tiny: Tiny) -> None:
    """With `since`, an examined sum of ε does not hide a later sum that is not larger."""
    facts = {"noisy_count": 3, "count_at_most": 3, "p_value": tiny["walk/park/1"]["p_value"]}
    mark = {"tick": 6, "noisy_count": 3, "epsilon": "1", "until": 9}
    tiny.walk(6, "noisy_count", [mark], **facts)
    tiny.configure('{epsilon: "2", period: 12h}', '{epsilon: "3/4", period: 1h}')
    assert set(tiny.follow(since="2026-01-01T05:00:00Z").findings.totals) == {"paid"}


@pytest.mark.promise(45)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__.strip("_"))
def test_examined_attack_is_not_reported(attack: Callable[[Ticks], Ticks]) -> None:
    """With `since`, an attack on earlier ticks is not reported, and one on later ticks is."""
    ticks = make_ticks(6)
    records = [*chain(*attack(ticks[:4]), *ticks[4:])]
    assert verify(records, None)[0] > 0
    assert verify(records, 4) == (0, "")
    assert verify(chain(*attack(make_ticks())), 0) == verify(chain(*attack(make_ticks())), None)


@pytest.mark.promise(45)
@pytest.mark.parametrize("time", LATER.values(), ids=LATER)
def test_forged_time_does_not_count(time: bytes) -> None:
    """
    A forged record is reported if it is later in the log than the first signed tick after `since`, whatever its time.

        records   a0 b0 c0   a1 b1 c1   a2 b2 c2 | since   a3 b3 c3   a4 b4 c4
    """
    ticks = make_ticks(5)
    forged = alter(make_answers(9)[0], ce_time=time)
    records, first = [*chain(*ticks)], len([*chain(*ticks[:3])])
    for place in range(1, len(records) + 1):
        found, why = verify([*records[:place], forged, *records[place:]], 3)
        assert (found > 0, why) == (place > first, ""), place


def test_findings_wait_for_a_signed_tick() -> None:
    """Until a tick after `since` is signed, findings are not reported, and the audit says so."""
    ticks = make_ticks(3)
    forged = [alter(make_answers(9)[0], ce_time=time) for time in LATER.values()]
    assert verify([*chain(*ticks), *forged], 3) == (
        0,
        "output partition 0: no tick after --since is signed yet, so wrong signatures are not reported",
    )
    assert verify(forged, 3) == (0, "")  # nothing is signed, so nothing need be
