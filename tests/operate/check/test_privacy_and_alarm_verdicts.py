"""The first verdicts of `check`: what one visit and one person can reveal, and how many alarms in sight are noise."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from click.testing import CliRunner

from monitor.cli import main
from monitor.config.load import load_config
from monitor.config.registry import load_registry
from monitor.config.valid_config import validate_config
from monitor.kinds.at_times.keys_and_parameters import AtTimesMonitor
from monitor.kinds.at_times.words import design_at_times
from monitor.kinds.designs import Design
from monitor.kinds.over_time.words import design_over_time
from monitor.operate.check.compute_report import compute_report
from monitor.operate.check.report import CheckReport
from monitor.privacy.alarm_chances import compute_busy_share, find_most_noise
from monitor.time.instants import HOUR
from monitor.values.levels import NOISE_IN_SIGHT, ONE_PERSON, ONE_VISIT

CITY: Final = Path(__file__).parents[2] / "kit" / "configs" / "city.yaml"


def report(**changes: str) -> CheckReport:
    """Return the report of the tests' city, with changes as from the environment."""
    config = load_config(CITY, {f"LOCATION_MONITOR__{key}": value for key, value in changes.items()})
    return compute_report(validate_config(config, load_registry(config.locations.file)))


def test_limits_of_the_verdicts() -> None:
    """A value at a limit has the better verdict, and a value above it the worse one."""
    for limits, fine, risky in ((ONE_VISIT, 0.05, 0.2), (ONE_PERSON, 0.2, 0.5), (NOISE_IN_SIGHT, 1 / 50, 1 / 10)):
        found = [limits.judge(value) for value in (fine, fine + 1e-9, risky, risky + 1e-9)]
        assert found == ["fine", "risky", "risky", "useless"]


def test_epsilons_by_hand() -> None:
    """A chance of 1 % has the odds 1/99. So it becomes 5 % at ε = ln(99/19) = 1.65, and 20 % at ε = ln(99/4) = 3.21."""
    visits = [ONE_VISIT.judge_belief(Fraction(n, 100)) for n in (165, 166, 320, 321)]
    people = [ONE_PERSON.judge_belief(Fraction(n, 100)) for n in (320, 321, 459, 460)]
    assert math.log(99 / 19) == pytest.approx(1.6507, abs=1e-4)
    assert visits == ["fine", "risky", "risky", "useless"]
    assert people == ["fine", "risky", "risky", "useless"]


@pytest.mark.parametrize(("shared", "expected"), [("clinic-1", Fraction(6, 5)), ("station-1", Fraction(17, 10))])
def test_one_visit_pays_all_monitors_of_its_place(shared: str, expected: Fraction) -> None:
    """A visit pays one answer of each monitor that watches its place, and one designated time of each other monitor.

    `hubs` has 6/5 at station-1. `clinics` has 1 at its only place, and two answers: 1/2 each.
    """
    monitors = json.dumps(
        [
            {"name": "hubs", "kind": "over_time", "locations": {"station-1": 6, "station-2": 4}, "epsilon": "2",
             "threshold": 60, "window": "14d"},
            {"name": "clinics", "kind": "over_time", "locations": [shared], "epsilon": "1", "threshold": 40,
             "window": "14d", "answers_per_window": 2},
            {"name": "evening", "kind": "at_times", "at": ["Tue 18:00"], "timezone": "UTC", "reporting_horizon": "1d",
             "epsilon": "1/3", "threshold": 40},
        ]
    )  # fmt: skip
    assert report(MONITORS=monitors).one_visit == expected + Fraction(1, 3)


def test_verdicts_come_first() -> None:
    """The first three verdicts are about privacy and noise. The formulas are printed on request only."""
    assert [verdict.about for verdict in report().verdicts[:3]] == ["one visit", "one person", "the page"]
    assert (
        report()
        .verdicts[1]
        .text.startswith(
            "everything within any 14 days: a reader who gave it a chance of 1 % gives it > 99.9 % at most (ε = 15). "
            "That hides next to nothing. Lower privacy.epsilon"
        )
    )
    short, long = (
        CliRunner().invoke(main, ["check", "--config", str(CITY), *options]).output for options in ((), ("--formulas",))
    )
    for part in ("N = H + W + F - 1", "How often noise alone raises an alarm"):
        assert part not in " ".join(short.split())
        assert part in " ".join(long.split())


def simulate_over_time(answers: int, lifetime: int, alarm: float, ticks: int) -> tuple[float, float]:
    """Return the shares of ticks at which a location is paused, and at which an alarm is in sight."""
    draws = np.random.default_rng(7).random(ticks) < alarm
    marks: list[int] = []
    paused = seen = 0
    for tick in range(ticks):
        running = [mark for mark in marks[-answers:] if mark + lifetime > tick]
        paused += len(running) == answers
        if len(running) < answers and draws[tick]:
            marks.append(tick)
        seen += bool(marks) and tick <= marks[-1] + lifetime  # for two slots after the last tick of the mark
    return paused / ticks, seen / ticks


@pytest.mark.parametrize(("answers", "alarm"), [(1, 0.002), (1, 0.02), (2, 0.002), (2, 0.02), (3, 0.01)])
def test_share_in_sight_covers_a_simulation(answers: int, alarm: float) -> None:
    """Noise of a million ticks shows an alarm for at most the computed share of them, and not for much less.

    Two alarms at once are one alarm in sight, so with several answers the share is an upper bound.
    """
    window, lead = 8, 2
    _, seen = simulate_over_time(answers, window + lead, alarm, 1_000_000)
    computed = design_over_time(HOUR, window, lead, answers).compute_share_in_sight(alarm)
    assert seen <= computed * 1.1  # at least 1,900 alarms: the standard deviation is 2.3 %
    assert computed <= seen * (1.1 if answers == 1 else 1.35)


def test_busy_places_answer_k_times() -> None:
    """If each answer is an alarm, a place answers at k of W + F ticks, as in a simulation."""
    for answers in (1, 2, 3):
        paused, _ = simulate_over_time(answers, 10, 1.0, 1_000)
        assert compute_busy_share(answers, 10) == pytest.approx(1 - paused) == pytest.approx(answers / 10)


def simulate_times(design: Design, alarm: float, every: int, days: int) -> float:
    """Return the share of ticks at which a location shows an alarm about one of the times, one in `every` days."""
    draw, shown = np.random.default_rng(11), np.zeros(days * 4, dtype=bool)
    for start in range(0, days * 4, every * 4):
        (ticks,) = np.nonzero(draw.random(design.updates) < alarm)
        if ticks.size:
            shown[start + ticks[0] : start + design.updates - 1 + 4] = True  # until a day after the last tick
    return float(shown.mean())


@pytest.mark.parametrize(("at", "every"), [(["12:00"], 1), (["Mon 12:00"], 7)])
def test_share_in_sight_of_designated_times(at: Sequence[str], every: int) -> None:
    """Alarms about designated times are in sight until a day after the horizon; the computed share is an upper bound.

    It takes the largest number of times that a horizon can contain, so it may be twice the average.
    """
    settings = {"at": at, "timezone": "UTC", "reporting_horizon": "2d", "epsilon": "1", "threshold": 5}
    monitor = AtTimesMonitor.model_validate({"name": "noon", "kind": "at_times", **settings})
    design = design_at_times(6 * HOUR, monitor)
    seen, computed = simulate_times(design, 0.005, every, 70_000), design.compute_share_in_sight(0.005)
    assert seen <= computed * 1.15  # at least 390 alarms: the standard deviation is 5 %
    assert computed <= seen * (1.2 if every == 1 else 2.4)


def test_noise_has_fewer_people_than_half_of_the_threshold() -> None:
    """An alarm is early from half of the threshold on, so noise has at most one person fewer than that."""
    for threshold in range(1, 20):
        people = find_most_noise(threshold)
        assert 2 * people < threshold <= 2 * (people + 1)


def test_page_adds_up_its_monitors() -> None:
    """The verdict on the page has the sum over the monitors, and never more than all places."""
    found = report(MONITORS__2__THRESHOLD="120", MONITORS__1__THRESHOLD="400", MONITORS__0__THRESHOLD="600")
    noises = [monitor.noise for monitor in found.monitors if monitor.noise is not None]
    total = sum(noise.at_most for noise in noises)
    assert len(noises) == 3
    assert 0 < total < 4
    assert found.verdicts[2].level == "fine"
    assert f"at any time, {total:.2g} of 200 places on average" in found.verdicts[2].text
    assert "at any time, 200 of 200 places" in report().verdicts[2].text
