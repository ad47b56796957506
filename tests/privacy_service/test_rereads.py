"""The conditions for a complete reading: facts from `complete_from` to the end offsets, read before the release."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any, cast

import pytest

from monitor.ingest.offsets import InputOffsets
from monitor.ingest.start_offsets import Start, StartOffsets
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.kafka_python_3_0.batches import FetchedRecord
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, Question
from monitor.kinds.parameters import Parameters
from monitor.observe.update_service_metrics import Metrics
from monitor.thread_signals import Signal
from monitor.ticks.await_complete_input import EvidenceReader
from monitor.ticks.run_partition import find_reading_end
from monitor.ticks.shared_by_partitions import TickContext
from monitor.ticks.store_upkeep import Upkeep
from monitor.time.clock import SteppedClock
from monitor.time.instants import HOUR, SECOND
from tests.ingest import crafted, crafted_batches
from tests.privacy_service.town import Town
from tests.store.memory import MemoryWindows

pytestmark = pytest.mark.long


class ByProducer(float):
    """The time at which a producer, and no broker, stamped a record."""


class Log(InputOffsets):
    """An input partition with a record that was stamped at each of these times, in slots, of which `gone` have expired.

    The timestamp of a record without a time is not known.
    """

    def __init__(self, origin: int, slots: Sequence[float | None], gone: int = 0) -> None:
        super().__init__(KafkaConnections(("nowhere:9092",)), "visits", "", "town")
        self.origin, self.slots, self.gone = origin, slots, gone

    def _fetch_one(self, tp: Any, offset: int, end: int) -> FetchedRecord | None:  # noqa: ARG002  # there is one partition
        """Return the first record from an offset on, as it is read from a batch of Kafka."""
        if offset >= end:
            return None
        at = max(offset, self.gone)
        slot = self.slots[at]
        if slot is None:
            return FetchedRecord(at, None, b"{}")
        stamp = (self.origin + round(slot * HOUR)) // 1_000
        (record,) = crafted_batches.read(encode(stamp, by_broker=not isinstance(slot, ByProducer)))
        return record._replace(offset=at)

    def list_partitions(self) -> list[int]:
        return [0]

    def read_committed_offsets(self) -> dict[int, Any]:
        return {}

    def commit_starts(self, offsets: Mapping[int, int]) -> None:
        assert list(offsets) == [0]

    def read_bounds(self, partition: int) -> tuple[int, int]:  # noqa: ARG002  # as above
        return self.gone, len(self.slots)


@cache
def encode(stamp: int, *, by_broker: bool) -> bytes:
    """Return a batch of one record, which a broker or a producer stamped (in ms)."""
    return crafted.batch(crafted.record(b"{}"), 1, crafted.BY_BROKER if by_broker else 0, stamp)


def find_start(parameters: Parameters, log: Log, now: int) -> Start:
    """Return the start of the partition without progress, by a store whose clock shows `now`."""
    windows = MemoryWindows(parameters, SteppedClock(now))
    return StartOffsets(parameters, log, windows).find(0, [{}])


@pytest.mark.promise(6)
@pytest.mark.parametrize(("window", "max_lead"), list(product((1, 2, 3), (0, 1, 2))))
def test_reread_facts_are_complete(
    window: int,
    max_lead: int,
) -> None:
    """
    After a flush, reading begins F slots before `complete_from`, because visits may be reported F slots early.

        slot      … from-F       from
        reports        |←  read    |←  complete
    """
    parameters = Town(window, max_lead, 1, 1).parameters
    for slot in range(20, 24):
        log = Log(parameters.grid.origin, range(-5, slot + 1))
        start = find_start(parameters, log, parameters.grid.start(slot))
        assert cast("int", log.slots[start.offset]) <= start.complete_from - max_lead
        assert start.complete_from <= slot - window  # complete for the tick that closes next


@pytest.mark.promise(6)
@pytest.mark.parametrize(
    ("log", "first"),
    [
        pytest.param([-1, 0.0001, -0.0001, 1], 1, id="fast leader"),
        pytest.param([-1, 0.0001, None, 1], 1, id="damaged"),
        pytest.param([-1, -0.001, 0, 1], 2, id="in order"),
    ],
)
def test_no_later_record_is_left_out(
    log: list[float | None],
    first: int,
) -> None:
    """
    A start without progress reads every record stamped from an instant on, without asking Kafka for an offset by time.

        stamps         -1 h   +0.4 s   -0.4 s   +1 h     0.4 s: of an earlier leader, whose clock was fast
        read from             ^
    """
    parameters = Town(2, 0, 1, 1).parameters
    since = parameters.grid.start(10 - parameters.history_slots)
    assert find_start(parameters, Log(since, log), parameters.grid.start(10)).offset == first


@pytest.mark.promise(6, 36)
@pytest.mark.parametrize("records", range(1, 6))
def test_unstamped_records_hide_nothing(records: int) -> None:
    """
    A start without progress claims no slot whose visits it leaves out, wherever records without a stamp are in the log.

    All logs of up to five records: the first ones were appended too early to count, the others now. A broker stamped
    each record, or a producer did, long ago or far ahead. Each number of records has expired. F = 1.

        appended  old  old  now  now     left out or expired: their visits must end before `complete_from`
        stamped   old  2999 1970 now
        read from  ^                     ("now" would be left out after "1970", if that were a stamp)
    """
    parameters = Town(2, 1, 1, 1).parameters
    slot = 10
    early, now = slot - parameters.history_slots - parameters.max_lead - 2, slot - 1
    for old, kinds in product(range(records + 1), product(["broker", "past", "future"], repeat=records)):
        appended = [early if at < old else now for at in range(records)]
        stamps = {"past": ByProducer(early - 1_000), "future": ByProducer(slot + 1_000)}
        slots = [stamps.get(kind, at) for kind, at in zip(kinds, appended, strict=True)]
        for gone in range(records):
            log = Log(parameters.grid.origin, slots, gone)
            start = find_start(parameters, log, parameters.grid.start(slot))
            left_out = appended[: max(start.offset, gone)]
            assert all(at + parameters.max_lead < start.complete_from for at in left_out), (slots, old, gone)
            assert start.offset <= max(old, gone)


@pytest.mark.promise(7)
@pytest.mark.parametrize(("window", "max_lead"), list(product((1, 2, 3, 12), (0, 1, 2))))
def test_longer_window_excludes_expired_facts(
    window: int,
    max_lead: int,
) -> None:
    """
    The window and the retention were lengthened, but earlier records have expired and stay so.

        slot      … 15 16 17 18 19 20      F = 1
        log         .  .  .  x  x  x       "." has expired, in slot 18 at the latest: its visits end by slot 19
        from                       ^
    """
    parameters = Town(window, max_lead, 1, 1).parameters
    slot = 20
    for first in (-5, 15):
        slots = range(first, slot + 1)
        for gone in range(len(slots) + 1):
            log = Log(parameters.grid.origin, slots, gone)
            start = find_start(parameters, log, parameters.grid.start(slot) + 1)
            complete_from = start.complete_from
            unread = [at + max_lead for at in slots[: start.offset]]
            assert all(last < complete_from for last in unread)
            kept = slots[gone] if gone < len(slots) else slot
            if kept < slot - parameters.history_slots - max_lead:
                assert (
                    complete_from == slot - parameters.history_slots
                )  # one earlier record shows that nothing is missing
            elif gone == 0:
                assert complete_from == COMPLETE_FROM_START
            else:
                assert complete_from == kept + max_lead + 1


@pytest.mark.promise(5)
@pytest.mark.parametrize(
    ("progress", "late", "complete"),
    [
        ({0: 5, 1: 7}, 0, True),
        ({0: 6, 1: 9}, 0, True),
        ({0: 4, 1: 7}, 0, False),  # one record was not read
        ({0: 5}, 0, False),  # a partition without a reader
        ({0: 5, 1: 7}, 1, False),  # read after the end of reading: the decision might end after the release time
    ],
)
def test_reading_is_complete_and_timely(progress: dict[int, int], late: int, complete: bool) -> None:
    """The end offsets are 5 and 7, and reading ends 15.5 s after the end of the slot."""
    parameters = Town(2, 0, 1, 1).parameters
    until = find_reading_end(parameters, 3, 0)
    assert until == parameters.grid.as_of(3) + 31 * SECOND // 2
    clock = SteppedClock(until + late)
    windows = MemoryWindows(parameters, clock)
    for partition, offset in progress.items():
        windows.begin(partition, offset, 0)
    parts = TickContext(parameters, windows, cast("Any", None), Metrics(), clock, Signal())
    reader = EvidenceReader(parts, 3, {0: Question(tick=3)}, until, threading.Event(), lambda: None)
    reader.end_offsets = {0: 5, 1: 7}
    reader.read_once()
    assert (0 in reader.readings) == complete


@pytest.mark.parametrize("store", ["before as_of", "within the tolerance", "in the slot", "after the slot"])
def test_tick_counts_in_the_next_slot(
    store: str,
) -> None:
    """A tick is counted when the store's clock is a tolerance after as_of, when all earlier stamps are given."""
    parameters = Town(2, 0, 1, 1).parameters
    as_of = parameters.grid.as_of(3)
    at = {
        "before as_of": as_of - 1,
        "within the tolerance": as_of + parameters.tolerance - 1,
        "in the slot": as_of + parameters.tolerance,
        "after the slot": as_of + HOUR,
    }
    clock = SteppedClock(at[store])
    windows = MemoryWindows(parameters, clock)
    windows.begin(0, 5, 0)
    assert windows.read({0: Question(tick=3)})[0].settled == (store == "in the slot")


@pytest.mark.parametrize("tick", [0, 1, 2, 3])
def test_owner_opens_the_next_slot(
    tick: int,
) -> None:
    """The owner opens the next slot, except at the final tick of τ = 01:30, 02:00, which asks about all shards."""
    town = Town(1, 0, 1, 1, times=(90,), horizon=1)
    clock = SteppedClock(town.parameters.grid.as_of(tick) + town.parameters.tolerance)
    windows = MemoryWindows(town.parameters, clock)
    windows.begin(0, 0, COMPLETE_FROM_START)
    Upkeep(town.parameters, windows).finish_tick(tick, [0])
    assert windows.read({0: Question(tick=tick)})[0].settled == (tick == 1)
