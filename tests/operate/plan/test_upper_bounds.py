"""`plan` with targets on belief and noise in sight, and of upper bounds: by what a visit and a person pay."""

from __future__ import annotations

import json
import math
import shlex
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from monitor.cli import main
from monitor.errors import EXIT_USAGE
from monitor.kinds.over_time.words import design_over_time
from monitor.operate.plan.find_threshold_and_epsilon import find_quiet_threshold
from monitor.operate.plan.outcomes import Plan
from monitor.operate.plan.targets import Targets
from monitor.privacy.alarm_chances import compute_belief, compute_excess
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.time.instants import HOUR

BOUND = "--kind upper_bound"


def run(line: str) -> Result:
    return CliRunner().invoke(main, ["plan", *shlex.split(line)])


def list_plans(line: str) -> list[dict[str, Any]]:
    result = run(f"{line} --json")
    assert result.exit_code == 0, result.output
    plans: list[dict[str, Any]] = json.loads(result.output)["plans"]
    return plans


@pytest.mark.parametrize("most", [1, 10, 100])
def test_least_epsilon_is_found(most: int) -> None:
    """With a target for the bound, each plan meets it, and an ε that is a twentieth smaller does not."""
    plans = list_plans(f"{BOUND} --too-high-at-most {most} --locations 3")
    assert {plan["bucket"] for plan in plans} == {"1h", "6h", "1d", "7d"}
    payments = [Fraction(plan["pays"]) for plan in plans]
    assert payments == sorted(payments)
    for plan in plans:
        number = Fraction(plan["epsilon_of_a_number"])
        buckets = round(plan["excess"]["mean"] * math.expm1(number))
        assert plan["excess"]["mean"] <= most < compute_excess(buckets, number * Fraction(4, 5))[0]


@pytest.mark.parametrize(("visit", "person"), [("2%", "20%"), ("5%", "50%")])
def test_bounds_keep_the_beliefs(visit: str, person: str) -> None:
    """Without a target for the bound, ε is the largest that keeps both beliefs, and the closest bound comes first."""
    plans = list_plans(f"{BOUND} --visit-belief {visit} --person-belief {person} --in 14d --locations 2")
    excesses = [plan["excess"]["mean"] for plan in plans]
    assert excesses == sorted(excesses)
    for plan in plans:
        pairs = (plan["epsilon_of_a_number"], visit), (plan["pays"], person)
        limits = [(Fraction(epsilon), float(limit[:-1]) / 100) for epsilon, limit in pairs]
        assert all(compute_belief(epsilon, 0.01) <= limit for epsilon, limit in limits)
        assert any(compute_belief(epsilon * Fraction(5, 4), 0.01) > limit for epsilon, limit in limits)


def test_plan_is_what_check_says(tmp_path: Path) -> None:
    """`check` computes the payment and the excess of a plan from its configuration."""
    (plan,) = list_plans(f"{BOUND} --epsilon 14 --window 14d --bucket 1d --accept-ahead 1d --locations 2")
    monitor = {name: plan[name] for name in ("kind", "window", "bucket", "epsilon")}
    places = ["a", "b"]
    (tmp_path / "places.csv").write_text("\n".join(["location_id", *places]) + "\n")
    tree = {
        "service": {"name": "town"},
        "clock": {"slot": plan["slot"], "origin": "2026-01-01T00:00:00Z", "release_delay": "30s"},
        "locations": {"file": "places.csv"},
        "visits": {"default_stay": plan["accept_ahead"], "accept_ahead": "0s"},
        "privacy": {"epsilon": plan["pays"], "period": "14d"},
        "monitors": [monitor | {"name": "curve", "locations": places}],
        "kafka": {
            "bootstrap_servers": ["localhost:9092"],
            "topics": {"visits": "v", "alerts": "a", "dead_letters": "d"},
        },
        "redis": {"url": "redis://localhost"},
    }
    (tmp_path / "town.yaml").write_text(yaml.safe_dump(tree))
    result = CliRunner().invoke(main, ["check", "--config", str(tmp_path / "town.yaml"), "--json"])
    report = json.loads(result.output)
    assert (report["total"], report["one_visit"]) == (plan["pays"], plan["epsilon_of_a_number"])
    assert report["monitors"][0]["upper_bound"]["excess"] == [{"epsilon": "1/2", **plan["excess"]}]


def test_excess_is_that_of_the_noise() -> None:
    """The mean and the deviation are those of 100,000 sums of drawn noise, within six standard errors (10^-8)."""
    number, buckets, sums = Fraction(1, 2), 15, 100_000
    drawn = OneSidedNoise(SeededEntropy(3)).geometric(number, buckets * sums).reshape(sums, buckets).sum(axis=1)
    mean, deviation = compute_excess(buckets, number)
    assert abs(drawn.mean() - mean) < 6 * deviation / math.sqrt(sums)
    assert abs(drawn.std() / deviation - 1) < 0.03


def test_table_has_each_plan() -> None:
    """The table has the payment, ε, and how much too high a bound is."""
    result = run(f"{BOUND} --epsilon 14 --window 14d --bucket 1d --accept-ahead 1d")
    assert result.exit_code == 0
    assert " >  29    14  1          14d     1d      8.7 ± 3.7" in result.output


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (BOUND, ("Nothing bounds ε", "--too-high-at-most", "--visit-belief")),
        (
            f"{BOUND} --too-high-at-most 1 --pays-at-most 1",
            ("No plan meets all targets", "--too-high-at-most", "--bucket"),
        ),
        (f"{BOUND} --epsilon 2 --alarm-at 3 --with 0.9", ("--alarm-at", "no threshold", "leave it out")),
        (f"{BOUND} --epsilon 2 --threshold 3", ("--threshold", "no threshold")),
        (f"{BOUND} --epsilon 2 --answers 2", ("--answers", "only for monitors of kind over_time", "--kind over_time")),
        (f"{BOUND} --epsilon 2 --at 18:00", ("--at", "only for monitors of kind at_times")),
        (f"{BOUND} --epsilon 2 --bucket 5h --window 14d", ("No bucket fits", "divides --window")),
        ("--visit-belief 1% --noise-in-sight 2%", ("--visit-belief", "more than 1 %", "such as 5%")),
        ("--person-belief 0.5% --noise-in-sight 2%", ("--person-belief", "more than 1 %")),
        ("--noise-in-sight 2%", ("Nothing bounds ε", "--visit-belief", "--person-belief")),
        ("--visit-belief 5%", ("Nothing bounds T", "--noise-in-sight")),
        ("--noise-in-sight 0 --visit-belief 5%", ("--noise-in-sight",)),
        ("--noise-in-sight 2% --visit-belief 5% --in 7d", ("--in is the period of", "--person-belief")),
    ],
)
def test_wrong_options_are_named(line: str, words: tuple[str, ...]) -> None:
    """An option that cannot be used is an error that names it and what to do."""
    result = run(line)
    assert result.exit_code == EXIT_USAGE
    assert all(word in result.output for word in words), result.output


@pytest.mark.parametrize("option", ["--bucket 1d", "--too-high-at-most 3"])
def test_other_kinds_have_no_bucket(option: str) -> None:
    """An option of upper bounds is refused for another kind."""
    result = run(f"{option} --epsilon 1 --threshold 3")
    assert result.exit_code == EXIT_USAGE
    assert "only for monitors of kind upper_bound; leave it out, or set --kind upper_bound" in result.output


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


def test_collision_names_the_nearest_targets() -> None:
    """Targets that cannot be met together are named, with the reason and with targets that can be met."""
    result = run("--visit-belief 2% --noise-in-sight 2% --alarm-at 5 --with 95%")
    text = " ".join(result.output.split())
    assert result.exit_code == EXIT_USAGE
    assert "--noise-in-sight 2% and --alarm-at 5 --with 19/20 collide" in text
    nearest = text.partition("The nearest that can be met: --noise-in-sight ")[2].partition("%")[0]
    assert list_plans(f"--visit-belief 2% --noise-in-sight {nearest}% --alarm-at 5 --with 95%")
    assert run(f"--visit-belief 2% --noise-in-sight {float(nearest) - 0.5}% --alarm-at 5 --with 95%").exit_code != 0
