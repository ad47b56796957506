"""Which visits count, and what became of each: windows and fates counted by hand (docs/interface.md, section 1)."""

from __future__ import annotations

import gzip
import hashlib
from typing import Any

import pytest

from monitor.tools.audit import AuditError, audit
from monitor.tools.audit.counts import count_people
from monitor.tools.audit.terms import read_terms
from monitor.tools.audit.visits import read_visits

Tiny = Any  # the fixture of conftest.py

HEADER = "person_id,location_id,arrived_at,left_at,reported_at"


def people(tiny: Tiny, *lines: str) -> list[int]:
    """The people at the park at the ticks 0 to 7."""
    tiny.lines = [HEADER, *lines]
    visits, config, _alerts = tiny.write()
    terms = read_terms(config)
    steps = count_people(read_visits(visits, terms), terms, terms.over_time[0])["park"]
    return [steps.at(tick) for tick in range(8)]


def test_a_visit_counts_for_a_window_from_its_report_on(tiny: Tiny) -> None:
    # slot 0 1 2 3        in the windows of the ticks 0, 1 and 2; reported in slot 1, so from tick 1 on
    #      ─ r
    line = "p1,park,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,2026-01-01T01:59:59.999999Z"
    assert people(tiny, line) == [0, 1, 1, 0, 0, 0, 0, 0]


def test_leaving_at_the_end_of_a_slot_does_not_reach_into_the_next(tiny: Tiny) -> None:
    line = "p1,park,2026-01-01T00:10:00Z,2026-01-01T01:00:00Z,2026-01-01T00:30:00Z"
    assert people(tiny, line) == [1, 1, 1, 0, 0, 0, 0, 0]


def test_a_planned_departure_is_cut_at_the_slot_that_may_be_stamped(tiny: Tiny) -> None:
    # reported in slot 0 with F = 1: cut at the end of slot 1, in the windows of the ticks up to 3
    line = "p1,park,2026-01-01T00:10:00Z,2026-02-01T00:00:00Z,2026-01-01T00:30:00Z"
    assert people(tiny, line) == [1, 1, 1, 1, 0, 0, 0, 0]


def test_without_departure_the_default_stay_is_assumed_and_its_end_is_the_report(tiny: Tiny) -> None:
    assert people(tiny, "p1,park,2026-01-01T00:50:00Z,,") == [0, 1, 1, 1, 0, 0, 0, 0]


def test_an_arrival_too_far_ahead_is_refused(tiny: Tiny) -> None:
    ahead = "p1,park,2026-01-01T02:00:00Z,2026-01-01T02:10:00Z,2026-01-01T00:59:59Z"
    allowed = "p1,park,2026-01-01T01:59:59Z,2026-01-01T02:00:00Z,2026-01-01T00:59:59Z"
    assert people(tiny, ahead, "p9,shop,2026-01-01T00:00:00Z,,") == [0] * 8
    assert people(tiny, allowed) == [1, 1, 1, 1, 0, 0, 0, 0]


def test_visits_of_one_person_count_once_where_their_windows_meet(tiny: Tiny) -> None:
    lines = [f"p1,park,2026-01-01T0{hour}:10:00Z,2026-01-01T0{hour}:50:00Z," for hour in (0, 1, 4)]
    assert people(tiny, *lines) == [1, 1, 1, 1, 1, 1, 1, 0]


FATES = {
    "applied": "p1,park,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,2026-01-01T02:59:59Z",
    "expired": "p1,park,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,2026-01-01T03:00:00Z",
    "applied at the designated time": "p1,shop,2026-01-01T02:20:00Z,2026-01-01T02:40:00Z,2026-01-01T04:59:59Z",
    "expired at the designated time": "p1,shop,2026-01-01T02:20:00Z,2026-01-01T02:40:00Z,2026-01-01T05:00:00Z",
    "not_watched": "p1,shop,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,",
    "dead_letter: no such place": "p1,nowhere,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,",
    "dead_letter: left before": "p1,park,2026-01-01T00:10:00Z,2026-01-01T00:09:00Z,",
    "dead_letter: no time": "p1,park,2026-01-01T00:10:00,,",
    "dead_letter: no such date": "p1,park,2026-02-30T00:10:00Z,,",
    "dead_letter: no person": ",park,2026-01-01T00:10:00Z,,",
    "dead_letter: a control character": "p\x85,park,2026-01-01T00:10:00Z,,",
    "dead_letter: an id too long": f"{'p' * 257},park,2026-01-01T00:10:00Z,,",
    "dead_letter: a short line": "p1,park",
    "dead_letter: too far ahead": "p1,park,2026-01-01T05:00:00Z,,2026-01-01T00:10:00Z",
}


@pytest.mark.parametrize("what", FATES)
def test_each_visit_has_the_fate_that_the_interface_gives_it(tiny: Tiny, what: str) -> None:
    # a visit is applied if the tick that closes its report's slot, or a later one, can ask about it
    before = tiny.audit().fates
    tiny.lines.insert(1, FATES[what])
    after = tiny.audit().fates
    fate = what.split(maxsplit=1)[0].rstrip(":")
    assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {fate: 1}


def test_what_is_reported_after_the_last_tick_has_no_fate(tiny: Tiny) -> None:
    before = tiny.audit().fates
    tiny.lines.append("p1,park,2026-01-01T09:10:00Z,,")
    assert tiny.audit().fates == before


def test_a_file_may_be_gzipped_and_its_columns_in_any_order(tiny: Tiny) -> None:
    visits, config, alerts = tiny.write()
    packed = visits.with_suffix(".csv.gz")
    turned = [",".join(reversed(line.split(","))) for line in tiny.lines]
    packed.write_bytes(gzip.compress("\n".join(turned).encode()))
    assert audit(packed, config, alerts).ok


def test_bytes_that_are_no_utf_8_make_a_dead_letter(tiny: Tiny) -> None:
    visits, config, alerts = tiny.write()
    visits.write_bytes(visits.read_bytes() + b"p\xff,park,2026-01-01T00:10:00Z,,\n")
    assert audit(visits, config, alerts).fates["dead_letter"] == 1


def test_shards_follow_the_formula(tiny: Tiny) -> None:
    tiny.config = tiny.config.replace("shards: 1", "shards: 1000")
    terms = read_terms(tiny.write()[1])
    assert terms.shard == (expected_shard("park"), expected_shard("shop"))
    assert sum(terms.shard_sizes.values()) == 2


def expected_shard(location: str) -> int:
    """The first 8 bytes of SHA-256, big-endian, mod 1000, byte by byte."""
    shard = 0
    for byte in hashlib.sha256(location.encode()).digest()[:8]:
        shard = (shard * 256 + byte) % 1000
    return shard


@pytest.mark.parametrize("file", [0, 1, 2])
def test_a_file_that_is_missing_is_named(tiny: Tiny, file: int) -> None:
    files = tiny.write()
    files[file].unlink()
    with pytest.raises(AuditError, match=files[file].name):
        audit(*files)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (0, "person_id\np1\n"),
        (0, HEADER + "\n"),
        (1, "service: {}\n"),
        (1, "- 1\n"),
        (1, "a: [\n"),
        (2, "{}\n"),
        (2, "x\n"),
    ],
)
def test_a_file_that_is_something_else_is_named(tiny: Tiny, file: int, text: str) -> None:
    files = tiny.write()
    files[file].write_text(text)
    with pytest.raises(AuditError, match=files[file].name):
        audit(*files)


def test_visits_that_nobody_can_accept_leave_nothing_to_count(tiny: Tiny) -> None:
    assert people(tiny, "p1,nowhere,2026-01-01T00:10:00Z,,") == [0] * 8
    report = tiny.audit()
    assert report.fates == {"applied": 0, "not_watched": 0, "expired": 0, "dead_letter": 1}
    assert report.paid == 0


def test_designated_times_follow_the_time_zone_through_a_change_of_clocks(tiny: Tiny) -> None:
    # London's clocks skip 01:00 to 02:00 on 2026-03-29, and show it twice on 2026-10-25
    tiny.config = tiny.config.replace('["02:30"]', '["01:30", "2026-03-29T12:00:00+02:00"]')
    terms = read_terms(tiny.write()[1])
    [monitor] = terms.at_times
    hour = 3_600_000_000
    march = 1_774_742_400_000_000  # 2026-03-29T00:00:00Z
    assert monitor.between(march - 24 * hour, march + 48 * hour) == [
        march - 24 * hour + 3 * hour // 2,
        march + 3 * hour // 2,
        march + 10 * hour,
        march + 24 * hour + hour // 2,
    ]
    october = 1_792_886_400_000_000  # 2026-10-25T00:00:00Z
    assert monitor.between(october, october + 24 * hour) == [october + hour // 2]


def test_columns_hold_the_cut_and_the_last_slot(tiny: Tiny) -> None:
    tiny.lines = [HEADER, "p1,park,2026-01-01T00:10:00Z,2026-02-01T00:00:00Z,2026-01-01T00:30:00Z"]
    visits, config, _alerts = tiny.write()
    [visit] = read_visits(visits, read_terms(config)).accepted
    assert visit.last == 1
    assert visit.left - visit.arrived == 110 * 60_000_000
