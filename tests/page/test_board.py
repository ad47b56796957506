"""The kept records: the latest of each key, the past, the position of a subscriber, and what is dropped."""

from __future__ import annotations

from monitor.kinds.over_time.record import OVER_TIME
from monitor.page.board import Board
from monitor.page.entries import Entry
from monitor.page.feed import format_position, parse_position

LINE = b'{"value":{}}'


def entry(offset: int, key: str, tick: int, kind: str = OVER_TIME) -> Entry:
    """Return a record of partition 0. Ticks are a second long."""
    return Entry(0, offset, kind, key, tick * 1_000_000, 0, LINE, 9)


def board(*entries: Entry, history: int = 10**12, most_bytes: int = 10**9, valid: int = 0) -> Board:
    """Return a board to which the records were added one by one."""
    made = Board(history, most_bytes, valid)
    for each in entries:
        made.add([each], {0: each.offset + 1})
    return made


def find_records(kept: Board, at: int | None = None) -> list[tuple[str, int]]:
    return [(each.key, each.as_of // 1_000_000) for each in kept.find_state(None if at is None else at * 1_000_000)]


def test_state_has_latest_records() -> None:
    """The state has the latest record of each key, now or at a time. Repetitions and older ticks change nothing."""
    kept = board(entry(0, "m/a", 1), entry(1, "m/a", 2), entry(2, "m/b", 2), entry(3, "m/a", 2), entry(4, "m/a", 1))
    assert find_records(kept) == [("m/a", 2), ("m/b", 2)]
    assert find_records(kept, at=1) == [("m/a", 1)]
    assert find_records(kept, at=0) == []
    assert kept.version == 3


def test_state_has_alarms_that_a_count_continues() -> None:
    """The state has the latest alarm of a place, and the alarms since which it counts, so that their sum is known."""

    def alarm(tick: int, since: int | None = None) -> Entry:
        start = None if since is None else since * 1_000_000
        return entry(tick, "m/a", tick)._replace(alarms=1, counted_since=start)

    kept = board(alarm(1), alarm(2), alarm(3, since=2), entry(4, "m/a", 4), alarm(5, since=3), entry(6, "m/a", 6))
    assert find_records(kept) == [("m/a", 2), ("m/a", 3), ("m/a", 5), ("m/a", 6)]
    assert find_records(kept, at=4) == [("m/a", 2), ("m/a", 3), ("m/a", 4)]


def test_state_has_latest_times() -> None:
    """Of the designated times of a monitor, the state has the three latest ones of each shard.

    Shard 0 has the days 1 to 5, and shard 1, which has stopped, the days 1 and 2.
    """
    keys = [f"noon/2026-01-0{day}T12:00:00Z/{shard}" for shard, days in ((0, 6), (1, 3)) for day in range(1, days)]
    kept = board(*(entry(offset, key, 9, "org.location-monitor.at_times") for offset, key in enumerate(keys)))
    assert [key for key, _tick in find_records(kept)] == sorted(keys[2:])


def test_subscriber_resumes_at_position() -> None:
    """A position leads to the records at and after it; one at the end to none.

    One beyond the end, or in an earlier topic of the same name, leads to a reset. What was read of that topic stays.
    """
    kept = board(entry(0, "m/a", 1), entry(1, "m/a", 2), entry(5, "m/a", 3))

    def ticks(position: dict[int, int], topic_id: str = "") -> list[int] | None:
        batches = kept.list_since(topic_id, position)
        return None if batches is None else [each.as_of // 1_000_000 for batch in batches for each in batch.entries]

    assert ticks({0: 0}) == [1, 2, 3]
    assert ticks({0: 2}) == [3]
    assert ticks({0: 6}) == []
    assert ticks({0: 7}) is None
    assert ticks({1: 0}) is None
    assert ticks({}) is None
    kept.begin("T2")
    kept.add([entry(0, "m/b", 4)], {0: 1})
    assert ticks({0: 0}) is None
    assert ticks({0: 0}, "T2") == [4]
    assert ticks({0: 1}, "T2") == []
    assert find_records(kept) == [("m/a", 3), ("m/b", 4)]


def test_old_records_are_dropped() -> None:
    """Records older than the history are dropped, and a subscriber that needs them is reset."""
    kept = board(entry(0, "m/a", 1), entry(1, "m/b", 2), entry(2, "m/b", 9), history=5_000_000)
    assert find_records(kept) == [("m/b", 9)]
    assert kept.list_since("", {0: 0}) is None
    assert kept.list_since("", {0: 2}) is not None
    assert kept.list_by_key("m/a") == ()


def test_size_is_bounded() -> None:
    """Above the limit of bytes the oldest records are dropped first."""
    kept = board(*(entry(tick, "m/a", tick) for tick in range(100)), most_bytes=5_000)
    assert find_records(kept) == [("m/a", 99)]
    assert 5 < len(kept.list_by_key("m/a")) < 15


def test_valid_alarm_outlives_limits() -> None:
    """The latest record of a key stays while it may be valid, also above the limit of bytes and beyond the history.

    Otherwise a place with an alarm of one monitor would look safe by the repeated answers of another.
    """
    for limits in ({"most_bytes": 2_000}, {"history": 5_000_000}):
        alarm, answers = entry(0, "noon/a", 1), [entry(tick, "m/a", tick) for tick in range(2, 30)]
        kept = board(alarm, *answers, **limits, valid=30_000_000)
        assert find_records(kept) == [("noon/a", 1), ("m/a", 29)]
        assert len(kept.list_by_key("m/a")) < 10
        kept.add([entry(50, "m/a", 32)], {0: 51})
        assert find_records(kept) == [("m/a", 32)]


def test_incomplete_past_is_not_shown() -> None:
    """The state at an instant is empty if a record that was valid then has been dropped; so are its ticks."""
    noon, repeated = entry(0, "noon/a", 1), [entry(tick, "m/a", tick) for tick in range(2, 30)]
    kept = board(noon, *repeated, history=20_000_000, valid=12_000_000)
    assert kept.complete_since == 13_000_000
    assert find_records(kept, at=12) == []
    assert find_records(kept, at=13) == [("m/a", 13)]
    assert kept.ticks[0].as_of == 13_000_000


def test_position_survives_text() -> None:
    """A position is read as it was written; anything else is no position."""
    assert parse_position(format_position("a-B_9", {1: 5, 0: 17})) == ("a-B_9", {0: 17, 1: 5})
    for text in (
        "",
        "T/",
        "T/0",
        "T/0:",
        "T/0:x",
        "T/0:1,",
        "T/٣:1",
        "T/0:1;DROP",
        "T/" + "0:1," * 5_000,
        "0:1",
        "/0:1",
    ):
        assert parse_position(text) is None
