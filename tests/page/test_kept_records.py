"""The kept records: the latest of each key, the past, and what is dropped."""

from __future__ import annotations

from monitor.kinds.over_time.record import OVER_TIME
from monitor.page.kept_records import Board
from monitor.page.public_records import Entry

VALUE = b"{}"


def entry(key: str, tick: int, kind: str = OVER_TIME) -> Entry:
    """Return a record. Ticks are a second long."""
    return Entry(kind, key, tick * 1_000_000, 0, VALUE)


def board(*entries: Entry, history: int = 10**12, most_bytes: int = 10**9, valid: int = 0) -> Board:
    """Return a board to which the records were added one by one."""
    made = Board(history, most_bytes, valid)
    for each in entries:
        made.add([each])
    return made


def find_records(kept: Board, at: int | None = None) -> list[tuple[str, int]]:
    return [(each.key, each.as_of // 1_000_000) for each in kept.find_state(None if at is None else at * 1_000_000)]


def test_state_has_latest_records() -> None:
    """The state has the latest record of each key, now or at a time. Repetitions and older ticks change nothing."""
    kept = board(entry("m/a", 1), entry("m/a", 2), entry("m/b", 2), entry("m/a", 2), entry("m/a", 1))
    assert find_records(kept) == [("m/a", 2), ("m/b", 2)]
    assert find_records(kept, at=1) == [("m/a", 1)]
    assert find_records(kept, at=0) == []
    assert kept.version == 3


def test_state_has_alarms_that_a_count_continues() -> None:
    """The state has the latest alarm of a place, and the alarms since which it counts, so that their sum is known."""

    def alarm(tick: int, since: int | None = None) -> Entry:
        start = None if since is None else since * 1_000_000
        return entry("m/a", tick)._replace(alarms=1, counted_since=start)

    kept = board(alarm(1), alarm(2), alarm(3, since=2), entry("m/a", 4), alarm(5, since=3), entry("m/a", 6))
    assert find_records(kept) == [("m/a", 2), ("m/a", 3), ("m/a", 5), ("m/a", 6)]
    assert find_records(kept, at=4) == [("m/a", 2), ("m/a", 3), ("m/a", 4)]


def test_state_has_latest_times() -> None:
    """Of the designated times of a monitor, the state has the three latest ones of each shard.

    Shard 0 has the days 1 to 5, and shard 1, which has stopped, the days 1 and 2.
    """
    keys = [f"noon/2026-01-0{day}T12:00:00Z/{shard}" for shard, days in ((0, 6), (1, 3)) for day in range(1, days)]
    kept = board(*(entry(key, 9, "org.location-monitor.at_times") for key in keys))
    assert [key for key, _tick in find_records(kept)] == sorted(keys[2:])


def test_old_records_are_dropped() -> None:
    """Records older than the history are dropped."""
    kept = board(entry("m/a", 1), entry("m/b", 2), entry("m/b", 9), history=5_000_000)
    assert find_records(kept) == [("m/b", 9)]
    assert kept.list_by_key("m/a") == ()


def test_size_is_bounded() -> None:
    """Above the limit of bytes the oldest records are dropped first."""
    kept = board(*(entry("m/a", tick) for tick in range(100)), most_bytes=5_000)
    assert find_records(kept) == [("m/a", 99)]
    assert 5 < len(kept.list_by_key("m/a")) < 15


def test_valid_alarm_outlives_limits() -> None:
    """The latest record of a key stays while it may be valid, also above the limit of bytes and beyond the history.

    Otherwise a place with an alarm of one monitor would look safe by the repeated answers of another.
    """
    for limits in ({"most_bytes": 2_000}, {"history": 5_000_000}):
        alarm, answers = entry("noon/a", 1), [entry("m/a", tick) for tick in range(2, 30)]
        kept = board(alarm, *answers, **limits, valid=30_000_000)
        assert find_records(kept) == [("noon/a", 1), ("m/a", 29)]
        assert len(kept.list_by_key("m/a")) < 10
        kept.add([entry("m/a", 32)])
        assert find_records(kept) == [("m/a", 32)]


def test_incomplete_past_is_not_shown() -> None:
    """The state at an instant is empty if a record that was valid then has been dropped; so are its ticks."""
    noon, repeated = entry("noon/a", 1), [entry("m/a", tick) for tick in range(2, 30)]
    kept = board(noon, *repeated, history=20_000_000, valid=12_000_000)
    assert kept.complete_since == 13_000_000
    assert find_records(kept, at=12) == []
    assert find_records(kept, at=13) == [("m/a", 13)]
    assert kept.ticks[0].as_of == 13_000_000
