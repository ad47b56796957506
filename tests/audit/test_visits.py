"""Accepted visits, windows and fates, counted by hand (docs/interface.md, section 1)."""

from __future__ import annotations

import gzip
import hashlib
import json

import pytest

from monitor.audit import AuditError, audit
from monitor.audit.configuration import read_terms
from monitor.audit.kinds.at_times import AtTimesMonitor
from monitor.audit.recount_visits import create_recounts
from monitor.audit.visits import decode, parse_visits, read_visits
from monitor.records.visit_contract import Fault, open_record, read_visit
from tests.audit.conftest import Tiny

DAY = "2026-01-01T"
COUNTS: dict[str, tuple[dict[str, str], list[str], list[int]]] = {
    "from the tick of its report on": (  # in the windows of the ticks 0, 1 and 2; reported in slot 1
        {},
        [f"p1,park,{DAY}00:10:00Z,{DAY}00:50:00Z,{DAY}01:59:59.999999Z"],
        [0, 1, 1, 0, 0, 0, 0, 0],
    ),
    "left at the end of a slot: the next slot is not touched": (
        {},
        [f"p1,park,{DAY}00:10:00Z,{DAY}01:00:00Z,{DAY}00:30:00Z"],
        [1, 1, 1, 0, 0, 0, 0, 0],
    ),
    "a planned departure is cut": (  # reported in slot 0 with F = 1: at the end of slot 1
        {},
        [f"p1,park,{DAY}00:10:00Z,2026-02-01T00:00:00Z,{DAY}00:30:00Z"],
        [1, 1, 1, 1, 0, 0, 0, 0],
    ),
    "the default stay, at whose end the visit is reported": (
        {},
        [f"p1,park,{DAY}00:50:00Z,,"],
        [0, 1, 1, 1, 0, 0, 0, 0],
    ),
    "the default stay is not cut": (  # from slot 0 to 02:50, in slot 2; so in the windows of the ticks 0 to 4
        {"default_stay: 15m": "default_stay: 2h"},
        [f"p1,park,{DAY}00:50:00Z,,{DAY}00:50:00Z"],
        [1, 1, 1, 1, 1, 0, 0, 0],
    ),
    "an arrival more than accept_ahead after slot c": (
        {"accept_ahead: 0s": "accept_ahead: 1h"},
        [f"p1,park,{DAY}02:00:00Z,{DAY}02:10:00Z,{DAY}00:59:59Z"],
        [0] * 8,
    ),
    "an arrival accept_ahead after slot c": (
        {"accept_ahead: 0s": "accept_ahead: 1h"},
        [f"p1,park,{DAY}01:59:59Z,{DAY}02:00:00Z,{DAY}00:59:59Z"],
        [1, 1, 1, 1, 0, 0, 0, 0],
    ),
    "a person with several visits in a window": (
        {},
        [f"p1,park,{DAY}0{hour}:10:00Z,{DAY}0{hour}:50:00Z," for hour in (0, 1, 4)],
        [1, 1, 1, 1, 1, 1, 1, 0],
    ),
}


@pytest.mark.parametrize("what", COUNTS)
def test_windows_of_a_visit(tiny: Tiny, what: str) -> None:
    """Each visit is counted at the ticks that docs/interface.md defines."""
    changes, lines, expected = COUNTS[what]
    for old, new in changes.items():
        tiny.configure(old, new)
    tiny.lines[1:] = [*lines, "p9,shop,2026-01-01T00:00:00Z,,"]  # a file without a valid visit has no times
    visits, config, _alerts = tiny.write()
    (recount,) = create_recounts([read_terms(config)])
    for visit in read_visits(visits, recount.terms):
        recount.take(visit)
    assert [recount.monitors["walk"].people["park"].at(tick) for tick in range(8)] == expected


FATES = {
    "applied": "p1,park,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,2026-01-01T02:59:59Z",
    "expired": "p1,park,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,2026-01-01T03:00:00Z",
    "applied at the designated time": "p1,shop,2026-01-01T02:20:00Z,2026-01-01T02:40:00Z,2026-01-01T04:59:59Z",
    "expired at the designated time": "p1,shop,2026-01-01T02:20:00Z,2026-01-01T02:40:00Z,2026-01-01T05:00:00Z",
    "too_late": "p1,park,2026-01-01T02:20:00Z,2026-01-01T03:30:00Z,2026-01-01T05:00:00Z",
    "applied in the window and at the time": "p1,park,2026-01-01T02:20:00Z,2026-01-01T03:30:00Z,2026-01-01T04:59:59Z",
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


@pytest.mark.promise(26)
@pytest.mark.parametrize("what", FATES)
def test_fates(tiny: Tiny, what: str) -> None:
    """Each visit has the fate that docs/interface.md defines."""
    # a visit is applied if the tick that closes its report's slot, or a later one, can ask about it
    before = tiny.audit().fates
    tiny.lines.insert(1, FATES[what])
    after = tiny.audit().fates
    fate = what.split(maxsplit=1)[0].rstrip(":")
    assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {fate: 1}


def test_no_fate_after_the_last_tick(tiny: Tiny) -> None:
    """A visit reported after the last tick has no fate."""
    before = tiny.audit().fates
    tiny.lines.append("p1,park,2026-01-01T09:10:00Z,,")
    assert tiny.audit().fates == before


def test_gzip_and_column_order(tiny: Tiny) -> None:
    """A file may be gzipped, and its columns may be in any order."""
    visits, config, alerts = tiny.write()
    packed = visits.with_suffix(".csv.gz")
    turned = [",".join(reversed(line.split(","))) for line in tiny.lines]
    packed.write_bytes(gzip.compress("\n".join(turned).encode()))
    assert audit(packed, config, alerts).ok


def test_invalid_utf8_is_a_dead_letter(tiny: Tiny) -> None:
    """A line that is not UTF-8 is a dead letter."""
    visits, config, alerts = tiny.write()
    visits.write_bytes(visits.read_bytes() + b"p\xff,park,2026-01-01T00:10:00Z,,\n")
    assert audit(visits, config, alerts).fates["dead_letter"] == 1


def test_shards_follow_the_formula(tiny: Tiny) -> None:
    """Shards are computed as in docs/interface.md."""
    tiny.config = tiny.config.replace("shards: 1", "shards: 1000")
    terms = read_terms(tiny.write()[1])
    assert terms.shard == (compute_shard("park"), compute_shard("shop"))
    assert sum(terms.shard_sizes.values()) == 2


def compute_shard(location: str) -> int:
    """Compute the first 8 bytes of SHA-256, big-endian, mod 1000, byte by byte."""
    shard = 0
    for byte in hashlib.sha256(location.encode()).digest()[:8]:
        shard = (shard * 256 + byte) % 1000
    return shard


def test_unknown_time_zone_is_named(tiny: Tiny) -> None:
    """The message about a time zone that does not exist names it, and does not speak of a missing key."""
    tiny.config = tiny.config.replace("Europe/London", "Europe/Atlantis")
    with pytest.raises(AuditError, match=r"config\.yaml: timezone: .*Europe/Atlantis"):
        tiny.audit()


def test_times_when_clocks_change(tiny: Tiny) -> None:
    """Designated times follow their time zone when clocks change."""
    # London's clocks skip 01:00 to 02:00 on 2026-03-29, and show it twice on 2026-10-25
    tiny.config = tiny.config.replace('["02:30"]', '["01:30", "2026-03-29T12:00:00+02:00"]')
    terms = read_terms(tiny.write()[1])
    monitor = terms.monitors[1]
    assert isinstance(monitor, AtTimesMonitor)
    hour = 3_600_000_000
    march = 1_774_742_400_000_000  # 2026-03-29T00:00:00Z
    assert monitor.find_times(march - 24 * hour, march + 48 * hour) == [
        march - 24 * hour + 3 * hour // 2,
        march + 3 * hour // 2,
        march + 10 * hour,
        march + 24 * hour + hour // 2,
    ]
    october = 1_792_886_400_000_000  # 2026-10-25T00:00:00Z
    assert monitor.find_times(october, october + 24 * hour) == [october + hour // 2]


def test_times_on_days_of_the_week(tiny: Tiny) -> None:
    """A day of the week is that of the date in the time zone: in Tokyo, Tuesday begins on Monday at 15:00 UTC."""
    tiny.config = tiny.config.replace('["02:30"]', '["Tue-Wed 02:30"]').replace("Europe/London", "Asia/Tokyo")
    monitor = read_terms(tiny.write()[1]).monitors[1]
    assert isinstance(monitor, AtTimesMonitor)
    hour = 3_600_000_000
    monday = 1_774_828_800_000_000  # 2026-03-30T00:00:00Z
    times = monitor.find_times(monday - 24 * hour, monday + 14 * 24 * hour)
    assert times == [monday + (17 + 24 * day) * hour + hour // 2 for day in (0, 1, 7, 8)]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        *((file, None) for file in (0, 1, 2)),
        (0, "person_id\np1\n"),
        (1, "service: {}\n"),
        (1, "- 1\n"),
        (1, "a: [\n"),
        (2, "{}\n"),
        (2, "x\n"),
    ],
)
def test_wrong_file_is_named(tiny: Tiny, file: int, text: str | None) -> None:
    """The message names a file that is missing, or has another form."""
    files = tiny.write()
    if text is None:
        files[file].unlink()
    else:
        files[file].write_text(text)
    with pytest.raises(AuditError, match=files[file].name):
        audit(*files)


@pytest.mark.parametrize("depth", [199, 200, 201, 202])
@pytest.mark.parametrize("inner", [b"", b" ", b"1", b'"a"', b'"[]"', b"{}", b"[],[]", b"[1],[]"])
def test_nesting_is_limited_as_by_the_service(depth: int, inner: bytes) -> None:
    """The audit refuses exactly the records whose nesting the service refuses, whatever the innermost value is."""
    record = b'{"visits": [], "other": ' + b"[" * (depth - 1) + inner + b"]" * (depth - 1) + b"}"
    assert (parse_visits(record) is None) == isinstance(open_record(record), Fault)


@pytest.mark.parametrize("mark", ["true", True, "false", False, None, 1, 1.0, "TRUE", [True]])
def test_deletions_are_read_as_by_the_service(mark: object, tiny: Tiny) -> None:
    """The audit refuses exactly the rows marked as deleted that the service refuses."""
    visit = {"person_id": "p1", "location_id": "inn", "arrived_at": "2026-11-20T08:15:00Z", "__deleted": mark}
    [read] = decode(json.dumps(visit).encode(), 7, read_terms(tiny.write()[1]))
    assert isinstance(read, int) == isinstance(read_visit(visit), Fault)
    assert isinstance(read, int) == (json.dumps(mark).strip('"') == "true")


NINE = "2026-01-01T00:10:00Z"
HIDDEN = {
    "an open quote": ['p1,park,{t},,,"x', "p2,park,{t},,,", "p3,park,{t},,,"],
    "text after a quote": ['p1,park,{t},,,"x', 'p2,park,{t},,,"y', "p3,park,{t},,,"],
    "two quotes": ['p1,park,{t},,,"x', "p2,park,{t},,,", 'p3,park,{t},,,y"'],
    "a quote in a place": ['p1,"park,{t},,,', "p2,park,{t},,,", 'p3,park",{t},,,'],
}


@pytest.mark.parametrize("lines", HIDDEN.values(), ids=HIDDEN)
def test_hidden_visits_are_refused(lines: list[str], tiny: Tiny) -> None:
    """A file in which a quote hides visits is refused, with the line: they would be missing in each recount."""
    tiny.lines[:] = [f"{tiny.lines[0]},note", *(line.format(t=NINE) for line in lines)]
    visits, config, _alerts = tiny.write()
    with pytest.raises(AuditError, match="line"):
        list(read_visits(visits, read_terms(config)))


def test_mark_and_line_breaks_are_read(tiny: Tiny) -> None:
    """A byte order mark is no part of the header, and a note may have line breaks."""
    tiny.lines[:] = [f"\ufeff{tiny.lines[0]},note", f'p1,park,{NINE},,,"a', 'b, c, d"', f"p2,park,{NINE},,,"]
    visits, config, _alerts = tiny.write()
    read = list(read_visits(visits, read_terms(config)))
    assert [line.person for line in read if not isinstance(line, int)] == ["p1", "p2"]


@pytest.mark.parametrize("name", ["person_id", "left_at"])
def test_repeated_columns_are_refused(name: str, tiny: Tiny) -> None:
    """A column that occurs twice is refused, because either could be meant."""
    tiny.lines[0] += f",{name}"
    visits, config, _alerts = tiny.write()
    with pytest.raises(AuditError, match=f"{name} more than once"):
        list(read_visits(visits, read_terms(config)))
