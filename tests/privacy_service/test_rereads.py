"""What a reading must hold before a count is told: all from `since` on, up to the barrier, before the release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import pytest

from monitor.clock import SteppedClock
from monitor.ingest.reader import Reader
from monitor.release.loop import ReleaseLoop
from monitor.signals import Signal
from monitor.times import HOUR, SECOND
from monitor.windows.facts import Question
from monitor.windows.memory import MemoryWindows


class PublicClock(SteppedClock):
    """A clock that is moved by hand and says that it is the real one."""

    simulated = False


@dataclass
class Log:
    """An input partition with a record at the beginning of every slot from `first` on: its offset is slot - first."""

    origin: int
    first: int

    def offset_at(self, partition: int, instant: int) -> int:  # noqa: ARG002  # there is one
        return max(0, -((self.origin - instant) // HOUR) - self.first)


@pytest.mark.parametrize(("window", "ahead"), list(product((1, 2, 3), (0, 1, 2))))
def test_facts_that_are_read_again_hold_every_visit_from_since_on(
    window: int, ahead: int, make_town: Callable[..., Any]
) -> None:
    """
    After a flush: a visit of slot s may have been reported in slot s - F, so reading begins F slots before `since`.

        slot      … since-F      since
        reports        |←  read    |←  whole
    """
    scheme = make_town(window, ahead, 1, 1).scheme
    for slot in range(20, 24):
        clock = PublicClock(scheme.slots.start(slot))
        log = Log(scheme.slots.origin, first=-5)
        reader = cast("Any", Reader)(scheme, log, None, None, None, None, clock)
        offset, since = reader._whole_from(0, 0, 1_000)
        earliest_report = since - ahead
        assert offset <= earliest_report - log.first
        assert since <= slot - window  # whole for the tick that closes next


@pytest.mark.parametrize(
    ("progress", "late", "complete"),
    [
        ({0: 5, 1: 7}, 0, True),
        ({0: 6, 1: 9}, 0, True),
        ({0: 4, 1: 7}, 0, False),  # one record was not read
        ({0: 5}, 0, False),  # a partition that nobody reads yet
        ({0: 5, 1: 7}, 1, False),  # read after the release, when a visit of one slot more may be in (rule 2)
    ],
)
def test_a_reading_is_complete_if_it_holds_all_before_the_barrier_and_was_made_in_time(
    progress: dict[int, int], late: int, complete: bool, make_town: Callable[..., Any]
) -> None:
    """The barrier is at offsets 5 and 7; the release 30 s after the slot's end."""
    scheme = make_town(2, 0, 1, 1).scheme
    clock = PublicClock(scheme.slots.as_of(3) + 30 * SECOND + late)
    windows = MemoryWindows(scheme, clock)
    for partition, offset in progress.items():
        windows.begin(partition, offset, 0)
    loop = cast("Any", ReleaseLoop)(scheme, windows, None, None, None, None, clock, Signal())
    assert (0 in loop._complete(3, {0: 5, 1: 7}, {0: Question()})) == complete
