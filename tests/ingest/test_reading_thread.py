"""The reader on a real Kafka and a real Valkey loses no record and skips none (see `tests.ingest.world`)."""

from __future__ import annotations

from contextlib import closing, suppress

import pytest

from monitor.errors import UnreachableError
from monitor.ingest import reading_thread as reader_module
from monitor.ingest.poll_input import InputLog
from tests.conftest import Eventually
from tests.ingest.world import NOW_SLOT, Drain, World, persons, read_committed


@pytest.mark.promise(6)
def test_flush_rereads_everything(world: World, drain: Drain, caplog: pytest.LogCaptureFixture) -> None:
    """After a flush, everything is read again, even without new records. The log says what Redis has lost."""
    world.create(2)
    world.put(persons(20, "a"), partition=0)
    world.put(persons(10, "b"), partition=1)
    reader = world.reader()
    drain(world, reader)
    world.raw.flushall()
    assert world.count("inn", NOW_SLOT) == 0
    drain(world, reader)
    assert world.count("inn", NOW_SLOT) == 30
    assert world.windows.read_progress() == [{0: 20, 1: 10}] * 4
    lost = [line for line in caplog.messages if line.startswith("Redis has lost facts")]
    assert lost == [
        f"Redis has lost facts of input partition {partition}: it has them up to offset 0, and had them up to offset "
        f"{written}. They are read again"
        for partition, written in ((0, 20), (1, 10))
    ]


@pytest.mark.promise(6)
def test_batch_after_a_gap(world: World, drain: Drain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch after a gap is refused and read again with the gap.

    Facts roll back while later records are being written.
    """
    monkeypatch.setattr(reader_module, "CHECK_SECONDS", 3_600.0)
    world.create(2)
    world.put(persons(5, "a"))
    reader = world.reader()
    drain(world, reader)
    world.raw.flushall()
    world.put(persons(5, "b"))
    while not reader.step(100):
        pass
    world.put(persons(5, "c"), partition=1)
    drain(world, reader)
    assert world.seen.recoveries["windows_behind"] >= 1
    assert world.count("inn", NOW_SLOT) == 15
    assert world.windows.read_progress() == [{0: 10, 1: 5}] * 4


@pytest.mark.promise(26)
def test_dead_letters_precede_progress(world: World, drain: Drain) -> None:
    """Dead letters are written before progress passes them."""
    world.create()
    world.put_raw(b"not json")
    world.put(persons(1))
    world.dead.refuses = 2
    reader = world.reader()
    failures = 0
    while failures < 2:
        try:
            reader.step(50)
        except UnreachableError:
            failures += 1
            assert all(shard.get(0, 0) == 0 for shard in world.windows.read_progress())
            assert not world.dead.letters
    drain(world, reader)
    assert [(letter.refusal.reason, letter.partition, letter.offset) for letter in world.dead.letters] == [
        ("not_json", 0, 0)
    ]
    assert world.windows.read_progress() == [{0: 2}] * 4


def test_lag_includes_unwritten_records(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """While every write fails, the lag includes the records that were read and not written."""
    monkeypatch.setattr(reader_module, "LAG_SECONDS", 0.0)
    world.create()
    world.put_raw(b"not json")
    world.dead.refuses = 10
    reader = world.reader()
    seen: list[dict[int, int]] = []
    while world.dead.refuses:
        with suppress(UnreachableError):
            reader.step(50)
        seen.append(world.seen.lags)
    assert {0: 1} in seen
    assert all(lags == {0: 1} for lags in seen[seen.index({0: 1}) :])


def test_lag_includes_hidden_records(world: World, monkeypatch: pytest.MonkeyPatch, eventually: Eventually) -> None:
    """
    The lag is 5 while an open transaction hides five records, and 0 after it is committed, or aborted.

    Progress skips the aborted records and both markers: 2 visits, 5 of each transaction, and 2 markers.
    """
    monkeypatch.setattr(reader_module, "LAG_SECONDS", 0.0)
    world.create()
    world.put(persons(2))
    reader = world.reader()

    def has_lag(records: int) -> bool:
        reader.step(20)
        return world.seen.lags == {0: records}

    eventually(lambda: has_lag(0), 30)
    stamp = world.parameters.grid.start(NOW_SLOT) // 1_000
    with closing(world.connections.create_producer(transactional_id=world.topic, retry_backoff_ms=5)) as producer:
        producer.init_transactions()
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for person in persons(5, end.__name__):
                producer.send(world.topic, value=world.visit(person), partition=0, timestamp_ms=stamp)
            producer.flush()
            eventually(lambda: has_lag(5), 30)
            end()
            eventually(lambda: has_lag(0), 30)
    assert world.ends() == {0: 14}
    assert world.windows.read_progress() == [{0: 14}] * 4
    assert world.count("inn", NOW_SLOT) == 7


def test_pending_write_is_not_committed(
    world: World, drain: Drain, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """Offsets are not committed before the facts are in the windows."""
    monkeypatch.setattr(reader_module, "COMMIT_SECONDS", 0.0)
    commits: list[dict[int, int]] = []
    monkeypatch.setattr(InputLog, "commit", lambda _self, offsets: commits.append(dict(offsets)))
    world.create()
    reader = world.reader()
    drain(world, reader)
    world.put(persons(4))
    eventually(lambda: reader.step(100))
    assert commits[-1] in ({}, {0: 0})
    drain(world, reader)
    reader.step(20)
    assert commits[-1] == {0: 4}


def test_transaction_end_on_a_quiet_partition(world: World, drain: Drain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction's end on a quiet partition is passed while another partition is busy.

    A small part of the busy partition has been fetched by then.
    """
    monkeypatch.setattr("monitor.ingest.poll_input.PARTITION_FETCH_BYTES", 64 * 1_024)
    monkeypatch.setattr("monitor.ingest.poll_input.RECORDS_PER_POLL", 50)
    world.create(2)
    world.put(persons(4_000, "busy"), partition=0)
    with closing(world.connections.create_producer(transactional_id=world.topic, retry_backoff_ms=5)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(world.topic, value=world.visit("quiet"), partition=1)
        producer.commit_transaction()
    reader = world.reader()
    while world.windows.read_progress()[0].get(1, 0) < 2:
        reader.step(20)
        busy = world.windows.read_progress()[0].get(0, 0)
        assert busy < 4_000
    drain(world, reader)


@pytest.mark.promise(27)
def test_readers_join_and_leave(world: World, eventually: Eventually) -> None:
    """Readers that join and leave count every visit once."""
    #   first    ├─ a ─┼─ b ─┤        both read while b comes,
    #   second         ├─ b ─┼─ c ─┤  and each must take over from the other
    world.create(4)
    with world.running() as second:
        with world.running() as first:
            produce(world, "a")
            eventually(lambda: len(first.assigned) == len(second.assigned) == 2, 30)
            produce(world, "b")
        produce(world, "c")
        eventually(world.is_read, 30)
    assert world.count("inn", NOW_SLOT) == 600
    assert world.windows.read_progress() == [dict.fromkeys(range(4), 150)] * 4


@pytest.mark.promise(27)
def test_late_records_are_counted(world: World, drain: Drain, caplog: pytest.LogCaptureFixture) -> None:
    """
    Records that are stamped before a tick closed, but are not below its end offsets, are counted and logged.

        offset         0   1   2   3   4        as_of of the tick is the end of slot 44
        stamped in    44  44  44  44  45
        end offset             ^                so 2 and 3 are missing in the tick; 4 belongs to the next one
    """
    world.create(2)
    world.put(persons(4), slot=NOW_SLOT - 1)
    world.put(persons(1, "next"), slot=NOW_SLOT)
    world.put(persons(1, "other"), slot=NOW_SLOT - 1, partition=1)
    reader = world.reader()
    reader.tick_ends.set(world.parameters.grid.as_of(NOW_SLOT - 1), {0: 2, 1: 1})
    drain(world, reader)
    assert world.seen.late == 2
    assert "came after the end offsets of this tick" in caplog.text
    assert world.count("inn", NOW_SLOT - 1) == 6


def produce(world: World, label: str) -> None:
    for partition in range(4):
        world.put(persons(50, f"{label}{partition}"), partition=partition)


def test_stop_in_a_backlog(world: World, drain: Drain, monkeypatch: pytest.MonkeyPatch, eventually: Eventually) -> None:
    """A reader that stops in a backlog finishes its batch, and the next reader continues."""
    monkeypatch.setattr("monitor.ingest.poll_input.RECORDS_PER_POLL", 20)
    world.create()
    world.put(persons(600))
    with world.running():
        eventually(lambda: world.windows.read_progress()[0].get(0, 0) >= 20)
    reached = world.windows.read_progress()[0][0]
    assert read_committed(world) == {0: reached}
    assert world.count("inn", NOW_SLOT) == reached
    drain(world, world.reader())
    assert world.count("inn", NOW_SLOT) == 600
    assert world.seen.fates["applied"] == 600
