"""The planner: plans meet their targets, by separate calculations, and collisions are explained."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal, getcontext
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from monitor.cli import main
from monitor.config.load import load_config
from monitor.errors import EXIT_DONE, EXIT_USAGE
from monitor.kinds.designs import Design
from monitor.kinds.over_time.words import design_over_time
from monitor.operate.plan.find_plans import OverTimeOptions, find_colliding, find_nearest
from monitor.operate.plan.find_threshold_and_epsilon import GRID, find_plans, rank, solve
from monitor.operate.plan.nearby import PRESENT, list_choices
from monitor.operate.plan.outcomes import Plan
from monitor.operate.plan.render import compute_curves
from monitor.operate.plan.targets import Targets
from monitor.privacy.alarm_chances import compute_silent_share
from monitor.time.instants import DAY, HOUR, YEAR

EXAMPLES = Path(__file__).parents[2] / "kit" / "configs"

getcontext().prec = 60

ASKED = Targets(YEAR, 20, Fraction(95, 100), pays=Fraction(2))
FORTNIGHT = design_over_time(HOUR, 336, 0, 1)


def power(epsilon: Fraction, distance: int) -> Decimal:
    """Return e^(-ε·distance) with sixty digits."""
    exponent = epsilon * distance
    return (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()


def compute_paid(plan: Plan, slots: int) -> Fraction:
    """Return what a person pays in H slots: count, one by one, the most answers of N = H + W + F - 1 ticks."""
    mark_lifetime, k = plan.design.mark_lifetime, plan.design.answers
    answered: list[int] = []
    for tick in range(slots + mark_lifetime - 1):
        if len([other for other in answered if other > tick - mark_lifetime]) < k:
            answered.append(tick)
    return len(answered) * plan.epsilon * plan.design.largest


def run(line: str) -> Result:
    return CliRunner().invoke(main, ["plan", *line.split()])


@pytest.fixture
def every_design() -> tuple[Design, ...]:
    return tuple(OverTimeOptions().list_designs())


def test_found_plans_meet_all_targets(every_design: tuple[Design, ...]) -> None:
    """Each found plan meets all targets, by a calculation with sixty digits."""
    found = find_plans(every_design, ASKED)
    assert found
    for plan in found:
        updates = Decimal(YEAR // plan.design.slot)
        assert updates * power(plan.smallest_answer, plan.threshold) <= 1
        assert power(plan.largest_answer, max(plan.threshold - 20, 0)) >= Decimal("0.95")
        assert compute_paid(plan, 14 * DAY // plan.design.slot + 1) <= 2


def test_threshold_is_the_smallest() -> None:
    """The threshold is the smallest that meets the target for false alarms."""
    plan = solve(FORTNIGHT, Targets(YEAR, pays=Fraction(2)))
    assert plan is not None
    assert (plan.epsilon, plan.threshold) == (Fraction(1), 10)  # 8760·e^-9 = 1.08, 8760·e^-10 = 0.40
    assert Decimal(8760) * power(Fraction(1), 9) > 1 >= Decimal(8760) * power(Fraction(1), 10)


def test_threshold_without_false_alarms() -> None:
    """Without a target for false alarms, the threshold is the largest that meets the alarm."""
    plan = solve(FORTNIGHT, Targets(alarm=20, certain=Fraction(1, 2), epsilon=Fraction(1, 10)))
    assert plan is not None
    assert plan.threshold == 26  # e^-0.6 = 0.55, e^-0.7 = 0.497
    assert power(plan.epsilon, 6) >= Decimal("0.5") > power(plan.epsilon, 7)


@pytest.mark.parametrize("chance", [Fraction(95, 100), Fraction(1, 2), Fraction(1, 10), Fraction(1)])
@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 7)])
def test_epsilon_is_smallest_of_the_grid(chance: Fraction, share: Fraction) -> None:
    """Every smaller ε of the grid misses a target, with every T up to a thousand."""
    design = design_over_time(HOUR, 336, 0, 1, (share, share))
    plan = solve(design, Targets(YEAR, 20, chance))
    assert plan is not None
    assert plan.epsilon % (GRID / 10) == 0
    allowed, wanted = Decimal(1) / 8760, Decimal(chance.numerator) / Decimal(chance.denominator)
    for step in range(1, int(plan.epsilon / GRID)):
        q = step * GRID * share
        alarms = power(q, 1)
        assert not any(alarms**t <= allowed and alarms ** max(t - 20, 0) >= wanted for t in range(1, 1000))


def test_epsilon_is_exact() -> None:
    """ε is exact, and the JSON has it as a rational string."""
    result = run("--false-alarm-every 1y --alarm-at 20 --with 0.95 --slot 1h --window 14d --answers 1 --json")
    assert result.exit_code == EXIT_DONE
    plan = json.loads(result.output)["plans"][0]
    assert (plan["epsilon"], plan["pays"], plan["threshold"]) == ("1/2", "1", 19)


def read_plan(line: str) -> dict[str, Any]:
    """Return the first plan as JSON."""
    result = run(f"{line} --json")
    assert result.exit_code == EXIT_DONE, result.output
    plan: dict[str, Any] = json.loads(result.output)["plans"][0]
    return plan


def test_locations_share_epsilon() -> None:
    """Four locations share ε, so their threshold is higher."""
    line = "--false-alarm-every 1y --pays-at-most 2 --slot 1h --window 14d --answers 1 --locations"
    one, four = (read_plan(f"{line} {count}") for count in (1, 4))
    assert one["epsilon"] == four["epsilon"] == "1"
    assert four["epsilon_of_an_answer"] == "1/4"
    assert (one["threshold"], four["threshold"]) == (10, 37)


def test_each_designated_time_pays_epsilon() -> None:
    """Each designated time costs the whole ε."""
    line = "--kind at_times --false-alarm-every 1y --pays-at-most 15 --slot 1h --timezone Europe/Berlin --horizon 1d"
    plan = read_plan(line)
    assert plan["epsilon"] == "1"  # where clocks change, 14 days contain 15 evenings
    alarm = 1 - (1 - power(Fraction(1), plan["threshold"])) ** 24
    below = 1 - (1 - power(Fraction(1), plan["threshold"] - 1)) ** 24
    assert 366 * alarm <= 1 < 366 * below


def test_answers_per_time_share_epsilon() -> None:
    """With k noisy answers about a time and the same payment, each has one k-th of ε, so the threshold is higher."""
    line = "--kind at_times --false-alarm-every 1y --pays-at-most 15 --slot 1h --horizon 1d"
    one, also_one, three = (read_plan(f"{line}{more}") for more in ("", " --answers 1", " --answers 3"))
    assert one == also_one
    assert one["epsilon"] == three["epsilon"]
    assert (one["answers_per_time"], three["answers_per_time"]) == (1, 3)
    alarm = 1 - (1 - power(Fraction(three["epsilon"]) / 3, three["threshold"])) ** 24
    below = 1 - (1 - power(Fraction(three["epsilon"]) / 3, three["threshold"] - 1)) ** 24
    assert 366 * alarm <= 1 < 366 * below


def test_conflict_is_explained() -> None:
    """Targets that collide are explained by the bound of Theorem 9."""
    result = run(
        "--false-alarm-every 1y --alarm-at 20 --with 0.95 --pays-at-most 1/2 --slot 1h --window 14d --answers 1"
    )
    assert result.exit_code == EXIT_USAGE
    text = " ".join(result.output.split())
    assert "--false-alarm-every 365d and --alarm-at 20 --with 19/20 collide, given --pays-at-most 1/2 --in 14d" in text
    assert "Theorem 9" in text
    assert "T ≤ 20" in text
    assert "e^(-ε·T) = 0.67 %" in text  # e^-5
    assert f"{8760 * math.exp(-5):.3g} times in 365d" in text
    assert "--pays-at-most 1 --in 14d" in text


def test_only_colliding_targets_are_named(every_design: tuple[Design, ...]) -> None:
    """Only the targets that collide are named."""
    targets = Targets(YEAR, threshold=50, epsilon=Fraction(3), pays=Fraction(2))
    assert find_colliding(every_design, targets) == ("epsilon", "pays")


@pytest.mark.parametrize(
    "targets",
    [
        Targets(YEAR, 20, Fraction(95, 100), pays=Fraction(1, 2)),
        Targets(YEAR, threshold=5, epsilon=Fraction(1, 2)),
        Targets(None, 20, Fraction(95, 100), threshold=30, epsilon=Fraction(1)),
        Targets(YEAR, 20, Fraction(95, 100), threshold=30),
    ],
)
def test_nearest_target_can_be_met(every_design: tuple[Design, ...], targets: Targets) -> None:
    """The nearest target can be met, and nothing nearer."""
    found = dict(find_nearest(every_design, targets, find_colliding(every_design, targets)))
    assert found
    for name, near in found.items():
        assert find_plans(every_design, near)
        nearer = {"alarm": replace(near, alarm=(near.alarm or 0) - 1)}
        nearer["false_alarms"] = replace(near, false_alarms=(near.false_alarms or 0) + DAY)
        assert name not in nearer or not find_plans(every_design, nearer[name])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--false-alarm-every 1y", "Nothing bounds ε"),
        ("--pays-at-most 2", "Nothing bounds T"),
        ("--alarm-at 20 --epsilon 1", "are one target"),
        ("--in 14d --threshold 3 --epsilon 1", "--in is the period of"),
        ("--alarm-at 20 --with 1.5 --epsilon 1", "a chance above 0"),
        ("--alarm-at 0 --with 0.5 --epsilon 1", "0 is not in the range"),
        ("--threshold 3 --epsilon 0", "above 0"),
        ("--threshold 3 --epsilon 1e3", "without sign, space or exponent"),
        ("--threshold 3 --epsilon 1 --slot 90", "is not a duration"),
        ("--threshold 3 --epsilon 1 --window 90m --slot 1h", "No slot fits: --window must"),
        ("--threshold 3 --epsilon 1 --kind at_times --horizon 10m", "No slot fits: --horizon must"),
        ("--threshold 3 --epsilon 1 --kind at_times --window 14d", "only for monitors of kind over_time"),
        ("--threshold 3 --epsilon 1 --at 18:00", "only for monitors of kind at_times"),
        ("--threshold 3 --epsilon 1 --kind at_times --at 25:00", "a time of day"),
    ],
)
def test_invalid_options_are_refused(line: str, message: str) -> None:
    """An invalid option is refused, with what to do."""
    result = run(line)
    assert result.exit_code == EXIT_USAGE
    assert message in " ".join(result.output.split())


def test_beaten_plans_are_left_out(every_design: tuple[Design, ...]) -> None:
    """A plan is left out if another plan with the same window is at least as good in pays, T, update and silence."""

    def score(plan: Plan) -> tuple[Fraction, ...]:
        return (
            plan.compute_payment(14 * DAY),
            Fraction(plan.design.slot),
            Fraction(plan.silence),
            Fraction(plan.threshold),
        )

    found = find_plans(every_design, ASKED)
    kept = rank(found, 14 * DAY)
    assert [score(plan)[0] for plan in kept] == sorted(score(plan)[0] for plan in kept)
    for plan, other in product(kept, found):
        mine, theirs = score(plan), score(other)
        better = theirs != mine and all(x <= y for x, y in zip(theirs, mine, strict=True))
        assert not (better and other.design.window_length == plan.design.window_length)


def test_curves_by_count() -> None:
    """The curves equal the exact chances by count."""
    plan = Plan(design_over_time(HOUR, 336, 1, 1, (Fraction(1, 5), Fraction(2, 5))), Fraction(5), 10)
    curves = compute_curves(plan, ASKED)
    assert len(curves) > 20
    for people, row in enumerate(curves):
        assert row["people"] == people
        assert row["alarm"] == pytest.approx(math.exp(-1 * max(10 - people, 0)), rel=1e-12)
        assert row["miss"] == pytest.approx(1 - math.exp(-2 * max(10 - people, 0)), abs=1e-12)


@pytest.mark.parametrize(("answers", "mark_lifetime"), [(1, 2), (1, 5), (2, 5), (3, 5), (4, 5), (5, 5), (2, 7)])
@pytest.mark.parametrize("alarm", [0.0, 0.01, 0.3, 0.9, 1.0])
def test_silent_share(alarm: float, answers: int, mark_lifetime: int) -> None:
    """The silent share equals that of the Markov chain of all patterns."""
    # ticks      t - L + 1 …  t - 1 | t        paused if k of the L - 1 before it have an answer
    # pattern    1 0 0 1 0 0        | 1, 0 or paused; then shifted by one
    # The chain's law after each of 200·L ticks, averaged over the last 20·L: whole cycles where the law is periodic.
    law = {(0,) * (mark_lifetime - 1): 1.0}
    silent = []
    for _ in range(200 * mark_lifetime):
        after: dict[tuple[int, ...], float] = {}
        silent.append(sum(weight for pattern, weight in law.items() if sum(pattern) >= answers))
        for pattern, weight in law.items():
            p = alarm if sum(pattern) < answers else 0.0
            for bit, chance in ((1, p), (0, 1 - p)):
                if chance:
                    key = (*pattern, bit)[1:]
                    after[key] = after.get(key, 0.0) + weight * chance
        law = after
    last = silent[-20 * mark_lifetime :]
    assert compute_silent_share(alarm, answers, mark_lifetime) == pytest.approx(sum(last) / len(last), abs=2e-3)


def test_length_of_silence() -> None:
    """Silence lasts from the last of k alarms in a row to the next answer."""
    # k = 2, W + F = 5   tick  0 1 2 3 4 5
    #                          ! ! . . . ?        the next answer 4 ticks after the last
    assert Plan(design_over_time(HOUR, 4, 1, 2), Fraction(1), 5).silence == 4 * HOUR
    assert Plan(design_over_time(HOUR, 4, 1, 1), Fraction(1), 5).silence == 5 * HOUR
    assert Plan(design_over_time(HOUR, 4, 1, 5), Fraction(1), 5).silence == 0


def test_present_choice_comes_first() -> None:
    """The present choice comes first, with the payment that `check` reports."""
    config = load_config(EXAMPLES / "city.yaml", {})
    found = list_choices(config, Targets(YEAR))
    assert list(found) == ["hubs", "clinics", "evening"]
    for listed in found.values():
        assert listed[0].change == PRESENT
        assert listed[0].outcome.pays == Fraction(59, 4)
    assert found["hubs"][0].outcome.unmet == ()
    assert found["evening"][0].outcome.unmet == ("--false-alarm-every 365d",)


def test_neighbours_show_missed_targets() -> None:
    """Each neighbour has the targets that it misses."""
    config = load_config(EXAMPLES / "city.yaml", {})
    found = {choice.change: choice.outcome for choice in list_choices(config, Targets(YEAR))["hubs"]}
    assert found["T = 46"].unmet == ()  # the smallest that meets the target at the smallest share, 1/5
    assert found["T = 46"].false_alarms_a_year == pytest.approx(8760 * math.exp(-46 / 5))
    assert found["ε = 4"].pays == Fraction(75, 4)
    assert found["ε = 4"].unmet == ("--pays-at-most 15 --in 14d",)
    assert found["k = 2"].unmet == ("--false-alarm-every 365d",)


@pytest.mark.parametrize("name", ["city.yaml", "demo.yaml"])
@pytest.mark.parametrize("extra", ["", " --json", " --false-alarm-every 1y --alarm-at 9 --with 0.9"])
def test_every_example_can_be_planned(name: str, extra: str) -> None:
    """`plan` runs on the examples in config/."""
    result = run(f"--config {EXAMPLES / name}{extra}")
    assert result.exit_code == EXIT_DONE, result.output


def test_options_of_the_configuration_are_refused() -> None:
    """An option that the configuration decides is refused."""
    result = run(f"--config {EXAMPLES / 'city.yaml'} --epsilon 1")
    assert result.exit_code == EXIT_USAGE
    assert "--epsilon: already set by the configuration" in result.output


def test_chances_are_read() -> None:
    """A chance can be written as a percentage, or without a zero."""
    line = "--alarm-at 20 --threshold 20 --epsilon 1 --slot 1h --window 14d --answers 1 --with"
    plans = [read_plan(f"{line} {chance}") for chance in ("0.95", "95%", ".95")]
    assert plans[0] == plans[1] == plans[2]
