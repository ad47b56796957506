"""The evidence of the next ticks of a replay, read ahead, is that of each tick."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from monitor.contracts.clock import SteppedClock
from monitor.contracts.instants import HOUR
from monitor.contracts.parameters import HotSpots, Parameters
from monitor.contracts.schedule import Schedule
from monitor.store.facts import Span
from monitor.store.packing import pack_shard_facts
from monitor.ticks.decide import Decider
from monitor.ticks.read_ahead import ReadAhead
from tests.ticks.worlds import release_instant

Make = Callable[..., Parameters]
MakeSite = Callable[..., Any]
ANN, BOB = b"a" * 16, b"b" * 16


def start(site: Any, parameters: Parameters, noise: Any, stop: threading.Event) -> ReadAhead:
    """Begin to read tick 0 and the following ones, up to tick 3. Ann is stamped in slot 0 and Bob in slot 1."""
    facts = [pack_shard_facts(slot, {1: [(person, slot)]}) for slot, person in enumerate((ANN, BOB))]
    site.windows.write([Span(0, 0, 2)], {0: facts})
    context = replace(site.context, windows_at=site.windows.at)
    context.input_topic.expect_input(3)
    ahead = ReadAhead(context)
    ahead.start(0, Decider(parameters, [0], noise).build_questions, stop, lambda: None, {})
    return ahead


@pytest.mark.promise(27)
def test_each_tick_counts_its_facts(
    make_site: MakeSite, make_parameters: Make, clock: SteppedClock, noise: Any
) -> None:
    """Tick 0 counts Ann only, although Bob's fact is in the store. Ticks whose input is not expected are not read."""
    parameters = make_parameters()
    site = make_site(parameters, clock)
    with closing(start(site, parameters, noise, site.stop)) as ahead:
        assert [ahead.has_begun(tick) for tick in range(5)] == [True, True, True, True, False]
        counts = []
        for tick in range(2):
            evidence = ahead.take(tick)
            assert evidence is not None
            assert evidence.causes == {}
            counts.append(int(evidence.readings[0].counts[0][1]))
        assert counts == [1, 2]
        assert ahead.take(4) is None


@pytest.mark.promise(27)
def test_hot_spots_stop_reading_ahead(
    make_site: MakeSite, make_parameters: Make, clock: SteppedClock, noise: Any
) -> None:
    """Hot spots are due at tick 1: it is not read ahead, and neither is tick 2, also if reading begins there."""
    parameters = make_parameters()
    spots = HotSpots("spots", Schedule((parameters.grid.start(0),)), Fraction(1), 1, 2 * HOUR)
    parameters = replace(parameters, hot_spots=(spots,))
    assert parameters.draws_totals_at(1)
    site = make_site(parameters, clock)
    with closing(start(site, parameters, noise, site.stop)) as ahead:
        assert [ahead.has_begun(tick) for tick in range(4)] == [True, False, False, False]
        assert ahead.take(0) is not None
        ahead.start(2, Decider(parameters, [0], noise).build_questions, site.stop, lambda: None, {})
        assert not ahead.has_begun(2)


@pytest.mark.promise(27)
def test_incomplete_tick_stops_reading_ahead(
    make_site: MakeSite, make_parameters: Make, clock: SteppedClock, noise: Any
) -> None:
    """If a tick could not be read, its slot remains the last open one, so that it can be read again."""
    parameters, stop = make_parameters(), threading.Event()
    site = make_site(parameters, clock)
    stop.set()
    with closing(start(site, parameters, noise, stop)) as ahead:
        assert [ahead.take(tick) for tick in range(4)] == [None] * 4
    assert site.release.take_over()
    clock.move_to(release_instant(parameters, 0))
    assert site.tick(0)
    assert "unknown" not in site.statuses()
