"""`plan` with targets on belief and on alarms of noise."""

from __future__ import annotations

import json
import shlex
from fractions import Fraction
from typing import Any

import pytest
from click.testing import CliRunner, Result

from monitor.cli import main
from monitor.errors import EXIT_USAGE
from monitor.kinds.over_time.words import design_over_time
from monitor.operate.plan.find_threshold_and_epsilon import find_quiet_threshold
from monitor.operate.plan.outcomes import Plan
from monitor.operate.plan.targets import Targets
from monitor.privacy.alarm_chances import compute_belief
from monitor.time.instants import HOUR


def run(line: str) -> Result:
    return CliRunner().invoke(main, ["plan", *shlex.split(line)])


def list_plans(line: str) -> list[dict[str, Any]]:
    result = run(f"{line} --json")
    assert result.exit_code == 0, result.output
    plans: list[dict[str, Any]] = json.loads(result.output)["plans"]
    return plans


@pytest.mark.parametrize(("visit", "person"), [("2%", "20%"), ("5%", "5%"), ("3%", "50%")])
def test_plans_keep_the_beliefs(visit: str, person: str) -> None:
    """Each plan raises 1 % to at most the two targets, and the next larger ε of one of them would not."""
    plans = list_plans(f"--visit-belief {visit} --person-belief {person} --noise-in-sight 2% --window 14d")
    assert {plan["answers_per_window"] for plan in plans} == {1, 2, 3}
    for plan in plans:
        pays, epsilon = Fraction(plan["pays"]), Fraction(plan["epsilon"])
        beliefs = [
            (compute_belief(each * Fraction(21, 20), 0.01), compute_belief(each, 0.01), float(limit[:-1]) / 100)
            for each, limit in ((epsilon / plan["answers_per_window"], visit), (pays, person))
        ]
        assert all(now <= limit for _, now, limit in beliefs)
        assert plan["noise_in_sight"] <= 0.02


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
@pytest.mark.parametrize("answers", [1, 2])
def test_quiet_threshold_is_smallest(epsilon: Fraction, answers: int) -> None:
    """The threshold for a share of noise in sight is the smallest one that meets it."""
    design = design_over_time(HOUR, 14, 2, answers)
    threshold = find_quiet_threshold(design, epsilon, Fraction(2, 100))
    shares = [Plan(design, epsilon, each).compute_noise_in_sight() for each in range(1, threshold + 1)]
    assert shares[-1] <= 0.02
    assert all(share > 0.02 for share in shares[:-1])


def test_beliefs_become_exact_epsilons() -> None:
    """A belief allows the largest ε, in thousandths, whose answers keep it."""
    targets = Targets(visit=Fraction(5, 100), person=Fraction(20, 100))
    assert (targets.visit_epsilon, targets.person_epsilon) == (Fraction(1650, 1000), Fraction(3208, 1000))
    for epsilon, belief in ((Fraction(1650, 1000), 0.05), (Fraction(3208, 1000), 0.20)):
        assert compute_belief(epsilon, 0.01) <= belief < compute_belief(epsilon + Fraction(1, 1000), 0.01)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--visit-belief 1% --noise-in-sight 2%", ("--visit-belief", "more than 1 %", "such as 5%")),
        ("--person-belief 0.5% --noise-in-sight 2%", ("--person-belief", "more than 1 %")),
        ("--noise-in-sight 2%", ("Nothing bounds ε", "--visit-belief", "--person-belief")),
        ("--visit-belief 5%", ("Nothing bounds T", "--noise-in-sight")),
        ("--noise-in-sight 0 --visit-belief 5%", ("--noise-in-sight",)),
        ("--noise-in-sight 2% --visit-belief 5% --in 7d", ("--in is the period of", "--person-belief")),
    ],
)
def test_wrong_targets_are_named(line: str, words: tuple[str, ...]) -> None:
    """A target that cannot be used is an error that names the option and what to do."""
    result = run(line)
    assert result.exit_code == EXIT_USAGE
    assert all(word in result.output for word in words), result.output


def test_collision_names_the_nearest_targets() -> None:
    """Targets that cannot be met together are named, with the reason and with targets that can be met."""
    result = run("--visit-belief 2% --noise-in-sight 2% --alarm-at 5 --with 95%")
    text = " ".join(result.output.split())
    assert result.exit_code == EXIT_USAGE
    assert "--noise-in-sight 2% and --alarm-at 5 --with 19/20 collide" in text
    nearest = text.partition("The nearest that can be met: --noise-in-sight ")[2].partition("%")[0]
    assert list_plans(f"--visit-belief 2% --noise-in-sight {nearest}% --alarm-at 5 --with 95%")
    assert run(f"--visit-belief 2% --noise-in-sight {float(nearest) - 0.5}% --alarm-at 5 --with 95%").exit_code != 0
