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
from monitor.contracts.clock import SteppedClock
from monitor.contracts.instants import HOUR, SECOND
from monitor.contracts.parameters import AtTimes, Dwell, HotSpots, Parameters
from monitor.contracts.schedule import Schedule
from monitor.privacy.dwell import DwellRule
from monitor.store.facts import OffsetRange, Portion
from monitor.ticks.owner import Owner
from tests.builders import ORIGIN
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
    return replace(
        parameters,
        at_times=(AtTimes("noon", times, Fraction(1), HIGH, HOUR, Fraction(1)),),
        hot_spots=(HotSpots("busiest", times, Fraction(1), 2, HOUR),),
        dwell=(Dwell("lengths", times, DwellRule(Fraction(1), 3_600), HOUR),),
    )


def report(people: int) -> list[Portion]:
    """Return the facts of people who are at row 1 at noon for ten minutes."""
    hashes = [number.to_bytes(16) for number in range(people)]
    stays = [(NOON, 600, 1, each) for each in hashes]
    return pack_shard_facts(0, {1: [(each, 0) for each in hashes]}, {NOON: [(1, each) for each in hashes]}, stays)


@pytest.mark.promise(20)
def test_work_after_the_wait_is_constant(
    make_site: Callable[..., Any], make_parameters: Callable[..., Parameters], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    All kinds of answers are drawn before the wait. After it, the same functions run equally often for 0 and 300 visits.

        as_of + tolerance     release time          append
               | read, draw ······· |  the same calls  |
    """
    parameters = ask_everything(make_parameters(places=4, threshold=HIGH))
    seen: dict[int, Counter[str]] = {}
    for people in (0, 0, 300):  # the first run fills the cache of encoded headers, which are public
        work = Work()
        clock = WatchedClock(parameters.grid.start(0), work)
        site = make_site(parameters, clock)
        assert site.release.take_over()
        site.windows.write([OffsetRange(0, 0, 1)], {0: report(people)})
        clock.move_to(parameters.grid.as_of(0) + SECOND)
        try:
            assert site.tick(0)
        finally:
            work.end()
        assert site.statuses() == ["safe"] * 4 + ["complete"] * 3
        seen[people] = work.calls
    assert seen[0]["Writer.append"] == 1
    assert seen[300] == seen[0]
