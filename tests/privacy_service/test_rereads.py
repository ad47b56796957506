"""What a reading must hold before a count is told: all from `since` on, up to the barrier, before the release."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import pytest

from monitor.ingest.reader import Reader
from monitor.public.clock import SteppedClock
from monitor.public.instants import HOUR, SECOND
from monitor.public.parameters import Parameters
from monitor.release.evidence import EvidenceReader
from monitor.release.parts import Parts
from monitor.release.upkeep import Upkeep
from monitor.signals import Signal
from monitor.windows.facts import COMPLETE_FROM_START, Question
from tests.windows.memory import MemoryWindows


class PublicClock(SteppedClock):
    """A clock that is moved by hand and says that it is the real one."""

    simulated = False


@dataclass
class Log:
    """An input partition with a record at the beginning of each of these slots, of which `gone` have expired."""

    origin: int
    slots: range
    gone: int = 0

    def offset_at(self, partition: int, instant: int) -> int | None:  # noqa: ARG002  # there is one
        later = [offset for offset, slot in enumerate(self.slots) if self.origin + slot * HOUR >= instant]
        return max(later[0], self.gone) if later and self.gone < len(self.slots) else None

    def bounds(self, partition: int) -> tuple[int, int]:  # noqa: ARG002  # as above
        return self.gone, len(self.slots)


def reader_of(parameters: Parameters, log: Log, now: int) -> Any:
    """A reader whose own clock is half a day slow: what counts is the store's, which says `now`."""
    windows = MemoryWindows(parameters, PublicClock(now))
    return cast("Any", Reader)(parameters, log, windows, None, None, None, PublicClock(now - 12 * HOUR))


@pytest.mark.parametrize(("window", "max_lead"), list(product((1, 2, 3), (0, 1, 2))))
def test_facts_that_are_read_again_hold_every_visit_from_since_on(
    window: int, max_lead: int, make_town: Callable[..., Any]
) -> None:
    """
    After a flush: a visit of slot s may have been reported in slot s - F, so reading begins F slots before `since`.

        slot      … since-F      since
        reports        |←  read    |←  whole
    """
    parameters = make_town(window, max_lead, 1, 1).parameters
    for slot in range(20, 24):
        log = Log(parameters.grid.origin, range(-5, slot + 1))
        reader = reader_of(parameters, log, parameters.grid.start(slot))
        offset, complete_from = reader._beginnings._whole_from(0, *log.bounds(0))
        assert log.slots[offset] <= complete_from - max_lead
        assert complete_from <= slot - window  # whole for the tick that closes next


@pytest.mark.parametrize(("window", "max_lead"), list(product((1, 2, 3, 12), (0, 1, 2))))
def test_what_expired_under_a_shorter_window_is_not_claimed_by_a_longer_one(
    window: int, max_lead: int, make_town: Callable[..., Any]
) -> None:
    """
    The window was lengthened, and with it the topic's retention: what had expired before is gone all the same.

        slot      … 15 16 17 18 19 20      F = 1
        log         .  .  .  x  x  x       "." has expired, in slot 18 at the latest: its visits end in slot 19 at most
        since                      ^
    """
    parameters = make_town(window, max_lead, 1, 1).parameters
    slot = 20
    for first in (-5, 15):
        slots = range(first, slot + 1)
        for gone in range(len(slots) + 1):
            log = Log(parameters.grid.origin, slots, gone)
            reader = reader_of(parameters, log, parameters.grid.start(slot) + 1)
            offset, complete_from = reader._beginnings._whole_from(0, *log.bounds(0))
            unread = [at + max_lead for at in slots[:offset]]
            assert all(last < complete_from for last in unread)
            kept = slots[gone] if gone < len(slots) else slot
            if kept < slot - parameters.history_slots - max_lead:
                assert (
                    complete_from == slot - parameters.history_slots
                )  # one record of before shows that nothing is missing
            elif gone == 0:
                assert complete_from == COMPLETE_FROM_START
            else:
                assert complete_from == kept + max_lead + 1


@pytest.mark.parametrize(
    ("progress", "late", "complete"),
    [
        ({0: 5, 1: 7}, 0, True),
        ({0: 6, 1: 9}, 0, True),
        ({0: 4, 1: 7}, 0, False),  # one record was not read
        ({0: 5}, 0, False),  # a partition that nobody reads yet
        ({0: 5, 1: 7}, 1, False),  # read after the release: what is said then would tell of the load
    ],
)
def test_a_reading_is_complete_if_it_holds_all_before_the_barrier_and_was_made_in_time(
    progress: dict[int, int], late: int, complete: bool, make_town: Callable[..., Any]
) -> None:
    """The barrier is at offsets 5 and 7; the release 30 s after the slot's end."""
    parameters = make_town(2, 0, 1, 1).parameters
    due = parameters.grid.as_of(3) + 30 * SECOND
    clock = PublicClock(due + late)
    windows = MemoryWindows(parameters, clock)
    for partition, offset in progress.items():
        windows.begin(partition, offset, 0)
    parts = Parts(parameters, windows, *(cast("Any", None),) * 3, clock, Signal())
    reader = EvidenceReader(parts, 3, {0: Question(tick=3)}, due, threading.Event(), lambda: None)
    reader._read_complete({0: 5, 1: 7})
    assert (0 in reader._readings) == complete


@pytest.mark.parametrize("store", ["before as_of", "within the tolerance", "in the slot", "after the slot"])
def test_a_tick_is_counted_while_the_store_is_in_the_slot_after_it_and_no_sooner(
    store: str, make_town: Callable[..., Any]
) -> None:
    """By the store's clock: what any broker stamps before as_of has been stamped a tolerance later."""
    parameters = make_town(2, 0, 1, 1).parameters
    as_of = parameters.grid.as_of(3)
    at = {
        "before as_of": as_of - 1,
        "within the tolerance": as_of + parameters.tolerance - 1,
        "in the slot": as_of + parameters.tolerance,
        "after the slot": as_of + HOUR,
    }
    clock = PublicClock(at[store])
    windows = MemoryWindows(parameters, clock)
    windows.begin(0, 5, 0)
    assert windows.read({0: Question(tick=3)})[0].settled == (store == "in the slot")


@pytest.mark.parametrize("tick", [0, 1, 2, 3])
def test_the_next_slot_is_opened_by_its_owner_but_not_where_hot_spots_are_due(
    tick: int, make_town: Callable[..., Any]
) -> None:
    """τ = 01:30 with a horizon of an hour: the tick of 02:00 is the last that asks, and it asks about all shards."""
    town = make_town(1, 0, 1, 1, times=(90,), horizon=1)
    clock = SteppedClock(town.parameters.grid.as_of(tick))
    windows = MemoryWindows(town.parameters, clock)
    windows.begin(0, 0, COMPLETE_FROM_START)
    Upkeep(town.parameters, windows).after(tick, [0])
    assert windows.read({0: Question(tick=tick)})[0].settled == (tick == 1)
