"""What a run that goes on claims, and what `--since` leaves out. records.py draws the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

import pytest

from monitor.audit.findings import SIGNED, Findings
from monitor.audit.parse_values import parse_instant
from monitor.audit.signatures import Signatures, read_public_key
from monitor.records.output_records import OutputRecord
from tests.audit.conftest import Tiny
from tests.audit.records import as_of, charges, owner
from tests.client.test_verification import ATTACKS, Ticks, alter, make_ticks
from tests.kit.signed import SIGNER, TOPIC_ID, make_answers

LATER: Final = {"near": b"1970-01-01T05:00:00Z", "far": b"9000-01-01T00:00:00Z", "none": b"~"}
"""Times of forged records: in the near future, in the far future, and no time."""


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
