"""The time at which answers are published does not depend on the visits: the work after the wait is always the same."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import monitor
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.facts_and_questions import OffsetRange, Portion
from monitor.kinds.hot_spots.keys_and_parameters import HotSpots
from monitor.kinds.parameters import Parameters
from monitor.ticks.owner import Owner
from monitor.ticks.run_partition import find_latest_release, find_reading_end, find_release_time
from monitor.time.clock import SteppedClock
from monitor.time.instants import HOUR, SECOND
from monitor.time.schedule import Schedule
from monitor.time.slot_grid import SlotGrid
from tests.builders import ORIGIN, replace_monitors
from tests.kinds.examples import LENGTHS, measure_lengths
from tests.store.packed import pack_shard_facts

SOURCES = str(Path(monitor.__file__).parent)
HIGH = 10_000  # a threshold that no count reaches, so that the answers are the same with and without visits
NOON = ORIGIN + HOUR // 2


class Work:
    """Counts the calls of the service's functions, in all threads, from the last wait until the append returns."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._counts = False

    def begin(self) -> None:
        self.calls.clear()
        self._counts = True
        sys.setprofile(self._note)
        threading.setprofile(self._note)

    def end(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "return" and frame.f_code is Owner.append.__code__:
            self._counts = False
        elif event == "call" and self._counts and frame.f_code.co_filename.startswith(SOURCES):
            self.calls[frame.f_code.co_qualname] += 1


class WatchedClock(SteppedClock):
    """A clock that moves to the end of each wait, where the counting begins."""

    def __init__(self, start: int, work: Work) -> None:
        super().__init__(start)
        self._work = work

    def wait_until(self, instant: int, wake: threading.Event) -> bool:  # noqa: ARG002  # never woken
        self.move_to(max(instant, self.now()))
        self._work.begin()
        return True


def ask_everything(parameters: Parameters) -> Parameters:
    """Return parameters with a monitor of each kind, all of which answer at tick 0."""
    times = Schedule((NOON,))
    return replace_monitors(
        parameters,
        at_times=(AtTimes("noon", times, Fraction(1), HIGH, HOUR, Fraction(1)),),
        hot_spots=(HotSpots("busiest", times, Fraction(1), 2, HOUR),),
        **{LENGTHS: (measure_lengths(times, HOUR),)},
    )


def report(people: int) -> list[Portion]:
    """Return the facts of people who are at row 1 at noon for ten minutes."""
    hashes = [number.to_bytes(16) for number in range(people)]
    stays = [(NOON, 600, 1, each) for each in hashes]
    return pack_shard_facts(0, {1: [(each, 0) for each in hashes]}, {NOON: [(1, each) for each in hashes]}, stays)


@pytest.mark.promise(20)
@pytest.mark.parametrize("read_at", ["at once", "at the end of reading", "after it"])
def test_work_after_the_wait_is_constant(
    make_site: Callable[..., Any], make_parameters: Callable[..., Parameters], read_at: str
) -> None:
    """
    All kinds of answers are drawn before the wait. After it, the same functions run equally often for 0 and 300 visits.

        as_of + tolerance     end of reading    release time          append
               | read, draw ······· | draw ········· |  the same calls  |
                                    | nothing is read: unknown          |
    """
    parameters = ask_everything(make_parameters(places=4, threshold=HIGH))
    seen: dict[int, Counter[str]] = {}
    for people in (0, 0, 300):  # the first run fills the cache of encoded headers, which are public
        work = Work()
        clock = WatchedClock(parameters.grid.start(0), work)
        site = make_site(parameters, clock)
        assert site.release.take_over()
        site.windows.write([OffsetRange(0, 0, 1)], {0: report(people)})
        until = find_reading_end(parameters, 0, 0)
        clock.move_to({"at once": parameters.grid.as_of(0) + SECOND, "after it": until + 1}.get(read_at, until))
        try:
            assert site.tick(0)
        finally:
            work.end()
        expected = ["unknown"] * 7 if read_at == "after it" else ["safe"] * 4 + ["complete"] * 3
        assert site.statuses() == expected
        seen[people] = work.calls
    assert seen[0]["Writer.append"] == 1
    assert seen[300] == seen[0]


@pytest.mark.promise(20)
@pytest.mark.parametrize(
    ("slot", "delay", "tolerance", "taken_at", "until"),
    [
        (HOUR, 30 * SECOND, SECOND, 0, 31 * SECOND // 2),
        (2 * SECOND, 900_000, 100_000, 0, 500_000),  # the smallest slots
        (2 * SECOND, 101_000, 100_000, 0, 100_500),
        (HOUR, 30 * SECOND, SECOND, 10 * SECOND, 25 * SECOND),  # a takeover in the next slot
        (HOUR, 30 * SECOND, SECOND, HOUR - 10 * SECOND, HOUR - 6 * SECOND),  # shortly before it closes
    ],
)
def test_reading_ends_halfway(
    make_parameters: Callable[..., Parameters], slot: int, delay: int, tolerance: int, taken_at: int, until: int
) -> None:
    """Half of the time from the earliest reading to the release time is left for the decision."""
    grid = SlotGrid(ORIGIN, slot)
    parameters = replace(make_parameters(grid=grid), release_delay=delay, tolerance=tolerance)
    as_of = grid.as_of(0)
    assert find_reading_end(parameters, 0, as_of + taken_at) == as_of + until
    due = find_release_time(parameters, 0, as_of + taken_at)
    assert as_of + max(tolerance, taken_at) < as_of + until < due <= find_latest_release(parameters, 0)
