"""The fingerprint changes with everything that decides facts, and with nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import time
from fractions import Fraction
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest

from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.locations import Registry
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.kinds.parameters import Parameters
from monitor.store.fingerprint import compute_fingerprint, compute_published_fingerprint
from monitor.time.instants import DAY
from monitor.time.schedule import Schedule
from monitor.time.times_of_day import TimeOfDay
from tests.builders import replace_monitors, select
from tests.kinds.examples import LENGTHS, measure_lengths

KEY_DIGEST, TOPIC = b"k" * 16, "topic-id"
Change = Callable[[Parameters], Parameters]


def _with_rule(parameters: Parameters, **changes: object) -> Parameters:
    monitor = select(parameters, OverTime)[0]
    rules = tuple(replace(rule, **changes) for rule in monitor.rules)  # type: ignore[arg-type]  # one test, many fields
    return replace_monitors(parameters, over_time=(replace(monitor, rules=rules),))


def _at(parameters: Parameters, *times: str, zone: str = "Asia/Tokyo") -> Parameters:
    return replace_monitors(
        parameters, at_times=(replace(select(parameters, AtTimes)[0], times=Schedule.of(times, zone)),)
    )


def _with_bounds(parameters: Parameters, epsilon: Fraction) -> Parameters:
    return replace_monitors(parameters, at_times=(replace(select(parameters, AtTimes)[0], at_least=epsilon),))


def _with_answers(parameters: Parameters, answers: int) -> Parameters:
    return replace_monitors(parameters, at_times=(replace(select(parameters, AtTimes)[0], answers=answers),))


def _with_lengths(parameters: Parameters, longest: int, epsilon: int = 1) -> Parameters:
    evening = select(parameters, AtTimes)[0]
    lengths = measure_lengths(evening.times, evening.horizon, longest, Fraction(epsilon))
    return replace_monitors(parameters, **{LENGTHS: (lengths,)})


def _watching(parameters: Parameters, rows: tuple[int, ...]) -> Parameters:
    monitor = select(parameters, OverTime)[0]
    return replace_monitors(parameters, over_time=(replace(monitor, rows=rows, rules=monitor.rules[: len(rows)]),))


DECIDING: dict[str, Change] = {
    "slot": lambda parameters: replace(parameters, grid=replace(parameters.grid, length=parameters.grid.length * 2)),
    "origin": lambda parameters: replace(parameters, grid=replace(parameters.grid, origin=parameters.grid.origin + 1)),
    "accept_ahead": lambda parameters: replace(parameters, accept_ahead=2),
    "default_stay": lambda parameters: replace(parameters, default_stay=1),
    "shards": lambda parameters: replace(parameters, registry=Registry(parameters.registry.ids, 5)),
    "registry": lambda parameters: replace(parameters, registry=Registry((*parameters.registry.ids, "new"), 4)),
    "order": lambda parameters: replace(parameters, registry=Registry(parameters.registry.ids[::-1], 4)),
    "window": lambda parameters: _with_rule(parameters, window=7),
    "watched": lambda parameters: _watching(parameters, tuple(range(39))),
    "times": lambda parameters: _at(parameters, "18:00", "06:00"),
    "instant": lambda parameters: _at(parameters, "2026-01-01T18:00:00Z"),
    "zone": lambda parameters: _at(parameters, "18:00", zone="Europe/Oslo"),
    "horizon": lambda parameters: replace_monitors(
        parameters, at_times=(replace(select(parameters, AtTimes)[0], horizon=DAY),)
    ),
    "lower bounds": lambda parameters: _with_bounds(parameters, Fraction(1)),
    "several answers per time": lambda parameters: _with_answers(parameters, 2),  # the stamps are stored then
    "no lengths": lambda parameters: replace_monitors(parameters, **{LENGTHS: ()}),
    "longest_visit": lambda parameters: _with_lengths(parameters, 3_601),  # lengths are stored up to it
    "no times": lambda parameters: replace_monitors(parameters, at_times=(), **{LENGTHS: ()}),
    "one answer per window": lambda parameters: _with_rule(parameters, answers=1),  # no reports are stored then
}
IDLE: dict[str, Change] = {
    "ε of lower bounds": lambda parameters: _with_bounds(parameters, Fraction(2)),
    "ε of lengths": lambda parameters: _with_lengths(parameters, 3_600, 2),
    "threshold": lambda parameters: _with_rule(parameters, threshold=9),
    "more answers per window": lambda parameters: _with_rule(parameters, answers=3),
    "epsilon": lambda parameters: _with_rule(parameters, epsilon=Fraction(1, 3)),
    "release_delay": lambda parameters: replace(parameters, release_delay=1),
    "tolerance": lambda parameters: replace(parameters, tolerance=2),
    "at_times epsilon": lambda parameters: replace_monitors(
        parameters, at_times=(replace(select(parameters, AtTimes)[0], epsilon=Fraction(2), threshold=8, name="night"),)
    ),
    "a zone whose clocks show the same": lambda parameters: _at(parameters, "18:00", zone="Etc/GMT-9"),
    "a monitor twice": lambda parameters: replace_monitors(
        parameters, over_time=select(parameters, OverTime) * 2, at_times=select(parameters, AtTimes) * 2
    ),
}


def test_fingerprint_format(parameters: Parameters) -> None:
    """The fingerprint has 16 hexadecimal digits, and is reproducible."""
    digits = compute_fingerprint(parameters, KEY_DIGEST, TOPIC)
    assert len(digits) == 16
    assert int(digits, 16) >= 0
    assert digits == compute_fingerprint(replace(parameters), KEY_DIGEST, TOPIC)


@pytest.mark.promise(8)
@pytest.mark.parametrize("change", DECIDING.values(), ids=DECIDING)
def test_facts_change_fingerprint(parameters: Parameters, change: Change) -> None:
    """Everything that decides facts changes the fingerprint."""
    parameters = replace_monitors(parameters)  # without upper bounds, which the changes drop as well
    assert compute_fingerprint(change(parameters), KEY_DIGEST, TOPIC) != compute_fingerprint(
        parameters, KEY_DIGEST, TOPIC
    )


@pytest.mark.parametrize("change", IDLE.values(), ids=IDLE)
def test_other_settings_keep_fingerprint(parameters: Parameters, change: Change) -> None:
    """Settings that decide no facts keep the fingerprint. Whether there are lower bounds decides facts, their ε not."""
    parameters = _with_bounds(parameters, Fraction(1))
    assert compute_fingerprint(change(parameters), KEY_DIGEST, TOPIC) == compute_fingerprint(
        parameters, KEY_DIGEST, TOPIC
    )


def test_number_of_answers_per_time_keeps_fingerprint(parameters: Parameters) -> None:
    """Whether there are several answers per time decides facts, their number does not."""
    digits = [compute_fingerprint(_with_answers(parameters, answers), KEY_DIGEST, TOPIC) for answers in (2, 3)]
    assert digits[0] == digits[1]


@pytest.mark.promise(8)
def test_zone_rules_change_fingerprint(parameters: Parameters) -> None:
    """
    Other rules of the same zone change it, as another image may have them: Cairo with and without summer time.

    With one set of rules, facts of 18:00 are stored under 15:00Z. With the other, they would be read under 16:00Z,
    where there are none although the progress claims them.
    """
    digits = set()
    for rules in ("Cairo", "Johannesburg"):
        with files("tzdata").joinpath("zoneinfo", "Africa", rules).open("rb") as file:
            zone = ZoneInfo.from_file(file, key="Africa/Cairo")
        times = Schedule((), (TimeOfDay(time(18)),), zone)
        changed = replace_monitors(parameters, at_times=(replace(select(parameters, AtTimes)[0], times=times),))
        digits.add(compute_fingerprint(changed, KEY_DIGEST, TOPIC))
    assert len(digits) == 2


def test_key_and_topic_change_fingerprint(parameters: Parameters) -> None:
    """Another hash key or another input topic changes the fingerprint."""
    digits = compute_fingerprint(parameters, KEY_DIGEST, TOPIC)
    assert compute_fingerprint(parameters, b"x" * 16, TOPIC) != digits
    assert compute_fingerprint(parameters, KEY_DIGEST, "recreated") != digits


@pytest.mark.promise(23)
def test_published_fingerprint_hides_the_key(parameters: Parameters) -> None:
    """The published fingerprint does not depend on the person key, so it can't confirm a guess."""
    published = compute_published_fingerprint(parameters, TOPIC)
    assert published not in {compute_fingerprint(parameters, key, TOPIC) for key in (KEY_DIGEST, b"x" * 16)}
    assert published != compute_published_fingerprint(parameters, "recreated")
    assert published != compute_published_fingerprint(_with_rule(parameters, window=7), TOPIC)
