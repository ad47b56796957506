"""`plan --kind upper_bound`: buckets and ε by how much too high a bound is, and by what a visit and a person pay."""

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
from monitor.privacy.alarm_chances import compute_belief, compute_excess
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy


def run(line: str) -> Result:
    return CliRunner().invoke(main, ["plan", "--kind", "upper_bound", *shlex.split(line)])


def list_plans(line: str) -> list[dict[str, Any]]:
    result = run(f"{line} --json")
    assert result.exit_code == 0, result.output
    plans: list[dict[str, Any]] = json.loads(result.output)["plans"]
    return plans


@pytest.mark.parametrize("most", [1, 10, 100])
def test_least_epsilon_is_found(most: int) -> None:
    """With a target for the bound, each plan meets it, and an ε that is a twentieth smaller does not."""
    plans = list_plans(f"--too-high-at-most {most} --locations 3")
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
    plans = list_plans(f"--visit-belief {visit} --person-belief {person} --in 14d --locations 2")
    excesses = [plan["excess"]["mean"] for plan in plans]
    assert excesses == sorted(excesses)
    for plan in plans:
        pairs = (plan["epsilon_of_a_number"], visit), (plan["pays"], person)
        limits = [(Fraction(epsilon), float(limit[:-1]) / 100) for epsilon, limit in pairs]
        assert all(compute_belief(epsilon, 0.01) <= limit for epsilon, limit in limits)
        assert any(compute_belief(epsilon * Fraction(5, 4), 0.01) > limit for epsilon, limit in limits)


def test_plan_is_what_check_says(tmp_path: Path) -> None:
    """`check` computes the payment and the excess of a plan from its configuration."""
    (plan,) = list_plans("--epsilon 14 --window 14d --bucket 1d --accept-ahead 1d --locations 2")
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
    result = run("--epsilon 14 --window 14d --bucket 1d --accept-ahead 1d")
    assert result.exit_code == 0
    assert " >  29    14  1          14d     1d      8.7 ± 3.7" in result.output


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", ("Nothing bounds ε", "--too-high-at-most", "--visit-belief")),
        ("--too-high-at-most 1 --pays-at-most 1", ("No plan meets all targets", "--too-high-at-most", "--bucket")),
        ("--epsilon 2 --alarm-at 3 --with 0.9", ("--alarm-at", "no threshold", "leave it out")),
        ("--epsilon 2 --threshold 3", ("--threshold", "no threshold")),
        ("--epsilon 2 --answers 2", ("--answers", "only for monitors of kind over_time", "--kind over_time")),
        ("--epsilon 2 --at 18:00", ("--at", "only for monitors of kind at_times")),
        ("--epsilon 2 --bucket 5h --window 14d", ("No bucket fits", "divides --window")),
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
    result = CliRunner().invoke(main, ["plan", *shlex.split(f"{option} --epsilon 1 --threshold 3")])
    assert result.exit_code == EXIT_USAGE
    assert "only for monitors of kind upper_bound; leave it out, or set --kind upper_bound" in result.output
