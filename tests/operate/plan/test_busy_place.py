"""The share of time in which a busy location answers."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner

from monitor.cli import main
from monitor.operate.plan.outcomes import simulate_answered_share
from monitor.privacy import over_time
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.privacy.over_time import Mark, OverTimeRule

TICKS = 8_000


def run_service(rule: OverTimeRule, people: float) -> float:
    """Return the share of ticks at which the service's own function answers about a location with new people only."""
    reported = np.random.default_rng(3).poisson(people, TICKS)
    noise = OneSidedNoise(SeededEntropy(4)).geometric(rule.answer_epsilon, TICKS).tolist()
    marks: tuple[Mark, ...] = ()
    paused = 0
    for tick in range(TICKS):
        since = over_time.find_count_start(rule, marks, tick)
        first = max(0, tick - rule.window + 1, 0 if since is None else since + 1)
        answer = over_time.step(rule, marks, tick, int(reported[first : tick + 1].sum()), noise[tick])
        marks, paused = answer.marks, paused + (answer.status == "paused")
    return 1 - paused / TICKS


@pytest.mark.parametrize("answers", [1, 2, 4, 6])
@pytest.mark.parametrize("max_lead", [0, 3])
def test_share_is_that_of_the_service(answers: int, max_lead: int) -> None:
    """The simulated share is within 4 in a hundred of the service's, where places are silent, in turns, or never.

    The seeds are fixed, so the result is always the same. Over 30,000 ticks the two differed by one in a hundred.
    """
    rule = OverTimeRule(Fraction(answers, 2), answers, 12, 48, max_lead)
    share = simulate_answered_share(rule.answer_epsilon, 12, answers, 48, max_lead, 0.8)
    assert share == pytest.approx(run_service(rule, 0.8), abs=0.04)


def test_more_answers_fit_more_people() -> None:
    """With T = 60, W = 14 d, hourly and ε_l = 1, six people a day need k = 3, and fifteen k = 7."""
    six, fifteen = (
        [simulate_answered_share(Fraction(1, k), 60, k, 336, 0, people / 24) for k in (1, 3, 7)] for people in (6, 15)
    )
    assert six[0] < 0.02
    assert six[1] > 0.97
    assert fifteen[1] < 0.1
    assert fifteen[2] > 0.9


def plan(*arguments: str) -> dict[str, object]:
    """Return the first plan for a location with hourly slots and a window of 14 days."""
    fixed = ("--slot", "1h", "--window", "14d", "--threshold", "60", "--in", "14d", "--json")
    result = CliRunner().invoke(main, ["plan", *fixed, *arguments])
    assert result.exit_code == 0, result.output
    first: dict[str, object] = json.loads(result.stdout)["plans"][0]
    return first


def test_plan_chooses_answers() -> None:
    """The plan has the smallest k with which a location of that many people a day answers nine tenths of the time."""
    busy = ("--pays-at-most", "2", "--people-a-day", "15")
    found = plan(*busy)
    assert isinstance(found["answers_per_window"], int)
    assert isinstance(found["busy_share"], float)
    assert found["busy_share"] >= 0.9
    fewer = plan(*busy, "--answers", str(found["answers_per_window"] - 1), "--answers-at-least", "1%")
    assert isinstance(fewer["busy_share"], float)
    assert fewer["busy_share"] < 0.9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--answers-at-least", "50%"), "add --people-a-day"),
        (("--people-a-day", "5", "--kind", "at_times"), "--people-a-day: only for monitors of kind over_time"),
        (
            ("--people-a-day", "500", "--threshold", "60", "--epsilon", "1", "--slot", "1h", "--window", "14d"),
            "--people-a-day 500 --answers-at-least 90%",
        ),
    ],
)
def test_targets_that_cannot_be_met(arguments: tuple[str, ...], message: str) -> None:
    """An option without its other one is refused, and so is a location that is too busy for every k."""
    result = CliRunner().invoke(main, ["plan", *arguments])
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())
