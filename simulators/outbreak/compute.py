"""Compute every figure of the bench, as JSON values. docs/outbreak.md shows them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from monitor.errors import FailedError
from monitor.kinds.report_delays import ReportDelays
from monitor.operate.plan.find_plans import find
from monitor.operate.plan.outcomes import PlanOutcome
from monitor.privacy.alarm_chances import find_threshold
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.time.instants import DAY
from monitor.time.slot_grid import SlotGrid
from simulators.outbreak import grids
from simulators.outbreak.designated import decide
from simulators.outbreak.measure import PER, Outcome, count_false_alarms, find_first_alarms, measure
from simulators.outbreak.on_service import OverTimeSetting
from simulators.outbreak.reports import AS_PUBLISHED, Counts, Epidemic, Scenario, Timeline, make_reports
from simulators.outbreak.ways import (
    MAX_LEAD,
    Answers,
    answer_one_sided,
    answer_sparse_vector,
    draw_each_tick,
    draw_slot_sums,
    draw_tree,
    draw_upper_bounds,
    find_level,
    warn_from,
)

Tree = dict[str, Any]

_NUMBERS: Final = {
    "upper bound": draw_upper_bounds,
    "slot sums": draw_slot_sums,
    "tree": draw_tree,
    "each tick": draw_each_tick,
}
"""The ways that publish a number at each tick, by name."""

NO_NOISE: Final = Fraction(1000)
"""An ε at which all draws are 0."""


@dataclass(frozen=True)
class Bench:
    """The epidemic and a seed. `on_step` is called after each computed setting."""

    epidemic: Epidemic
    seed: int
    on_step: Callable[[], None] = lambda: None

    @cached_property
    def noise(self) -> OneSidedNoise:
        """The noise of the settings that are computed, one after the other. The running service draws its own."""
        return self.start_noise()

    def start_noise(self) -> OneSidedNoise:
        """Return noise from its beginning, for figures that do not depend on what was computed before."""
        return OneSidedNoise(SeededEntropy(self.seed))

    @cached_property
    def line(self) -> Timeline:
        """The main scenario: first versions, as published, daily, with a window of 14 days."""
        return self.make_line()

    def make_line(
        self, scenario: Scenario = AS_PUBLISHED, grid: SlotGrid = grids.DAYS, window: int = grids.WINDOW
    ) -> Timeline:
        """Return the timeline of a scenario. `window` is in days."""
        reports = make_reports(self.epidemic, scenario, self.seed)
        return Timeline.of(reports, len(self.epidemic.places), grid, window * DAY // grid.length)

    def run(self, line: Timeline, setting: OverTimeSetting) -> Outcome:
        """Return the outcome of an `over_time` monitor."""
        answers = answer_one_sided(line, setting.epsilon, setting.threshold, self.noise, setting.answers)
        self.on_step()
        return measure(line, answers, setting.threshold)


def describe_data(bench: Bench) -> Tree:
    """Return what the data is, and the delays of publication in days."""
    epidemic, busiest = bench.epidemic, bench.line.in_hindsight.max(axis=0)
    delays = np.array(epidemic.delays) / DAY
    return {
        "versions": epidemic.versions,
        "events": len(epidemic.events),
        "invalid": epidemic.invalid,
        "places": len(epidemic.places),
        "ticks": bench.line.ticks,
        "delays": [float(np.quantile(delays, share)) for share in (0.05, 0.5, 0.95, 0.99)],
        "busiest": {str(people): int((busiest >= people).sum()) for people in grids.THRESHOLDS},
    }


def show(setting: OverTimeSetting, outcome: Outcome, **more: object) -> Tree:
    """Return a setting and its outcome."""
    epsilon = format_epsilon(setting.visit_epsilon)
    named = {"threshold": setting.threshold, "epsilon": epsilon, "answers": setting.answers}
    return {**named, **more, **asdict(outcome)}


def compute_grid(bench: Bench) -> Iterator[Tree]:
    """Yield the outcome for each T and ε."""
    for epsilon in grids.EPSILONS:
        for threshold in grids.THRESHOLDS:
            setting = OverTimeSetting(threshold, epsilon)
            yield show(setting, bench.run(bench.line, setting))


def compute_variants(bench: Bench) -> Iterator[Tree]:
    """Yield the outcomes with other windows, slots and numbers of answers."""
    for window in grids.WINDOWS:
        yield show(grids.LIKELY, bench.run(bench.make_line(window=window), grids.LIKELY), variant=f"W = {window}d")
    quarters = bench.make_line(grid=grids.QUARTERS)
    yield show(grids.LIKELY, bench.run(quarters, grids.LIKELY), variant="slots of 6h")
    for answers in grids.ANSWERS[1:]:
        setting = grids.LIKELY.with_answers(answers)
        yield show(setting, bench.run(bench.line, setting), variant=f"k = {answers}")


def compute_scenarios(bench: Bench) -> Iterator[Tree]:
    """Yield the outcomes with earlier reports, and with several people per event."""
    for earlier in grids.EARLIER:
        line = bench.make_line(Scenario(earlier=earlier * DAY))
        for setting in (grids.LIKELY, grids.RARE):
            yield show(setting, bench.run(line, setting), earlier=earlier, extra_people=0)
            again = setting.with_answers(grids.AGAIN)
            yield show(again, bench.run(line, again), earlier=earlier, extra_people=0)
    line = bench.make_line(Scenario(extra_people=grids.EXTRA_PEOPLE))
    for threshold in (1, 2, 3, 5):
        setting = OverTimeSetting(threshold, Fraction(7, threshold))
        yield show(setting, bench.run(line, setting), earlier=0, extra_people=grids.EXTRA_PEOPLE)


def compute_designated(bench: Bench) -> Iterator[Tree]:
    """Yield the outcomes of designated times."""
    for setting in (grids.AT_NOON, grids.AT_HOURS):
        yield {
            "times": len(setting.at),
            "threshold": setting.threshold,
            "epsilon": format_epsilon(setting.epsilon),
            **asdict(decide(bench.line, setting, bench.noise)),
        }
        bench.on_step()


def compute_ways(bench: Bench) -> Iterator[Tree]:
    """Yield the outcomes of each way at equal ε: warning from T, and from the level of equal false alarms."""
    for epsilon in grids.EPSILONS:
        threshold = find_threshold(epsilon, 1, grids.FALSE_ALARMS / PER)
        ours = answer_one_sided(bench.line, epsilon, threshold, bench.noise)
        bench.on_step()
        yield _show_way("one-sided", epsilon, threshold, threshold, measure(bench.line, ours, threshold))
        for way, answer in _list_others(bench, epsilon).items():
            level = find_level(partial(_rate, bench.line, answer), grids.FALSE_ALARMS, 1)
            for used in sorted({threshold, level}):
                yield _show_way(way, epsilon, threshold, used, measure(bench.line, answer(used), threshold))
            bench.on_step()


def _list_others(bench: Bench, epsilon: Fraction) -> dict[str, Callable[[int], Answers]]:
    """Return the answers of each other way by level. All numbers but those of the sparse vector are drawn once."""
    line, noise = bench.line, bench.noise
    bounds = draw_upper_bounds(line, epsilon, bench.start_noise())
    slots = draw_slot_sums(line, epsilon, bench.start_noise())
    numbers, sums = draw_each_tick(line, epsilon, noise), draw_tree(line, epsilon, noise)
    share = float(epsilon / (line.window + MAX_LEAD))
    return {
        "upper bound": lambda level: warn_from(bounds, level, float(epsilon), "once"),
        "slot sums": lambda level: warn_from(slots, level, float(epsilon), "once"),
        "each tick": lambda level: warn_from(numbers, level, share, "tick"),
        "tree": lambda level: warn_from(sums, level, float(epsilon), "once"),
        "sparse vector": lambda level: answer_sparse_vector(line, epsilon, level, noise),
    }


def measure_noise(bench: Bench) -> Iterator[Tree]:
    """Yield the mean and the standard deviation of the error of each way's numbers, for each ε."""
    for epsilon in grids.EPSILONS:
        for way, draw in _NUMBERS.items():
            exact = draw(bench.line, NO_NOISE, bench.start_noise())
            errors = draw(bench.line, epsilon, bench.start_noise()) - exact
            bias, error = float(errors.mean()), float(errors.std())
            yield {"way": way, "epsilon": format_epsilon(epsilon), "error": error, "bias": bias}
            bench.on_step()


def _show_way(way: str, epsilon: Fraction, threshold: int, level: int, outcome: Outcome) -> Tree:
    named = {"way": way, "epsilon": format_epsilon(epsilon), "threshold": threshold, "level": level}
    return {**named, **asdict(outcome)}


def _rate(line: Timeline, answer: Callable[[int], Answers], level: int) -> float:
    return count_false_alarms(line, answer(level).alarms)


def compute_curves(bench: Bench, grid: Sequence[Tree]) -> Iterator[Tree]:
    """Yield, for each way and ε, the points (false alarms, share of visits warned about) by level, or by T for ours."""
    for epsilon in grids.EPSILONS:
        name = format_epsilon(epsilon)
        ours = [(row["false_alarms"], row["visits_warned"]) for row in grid if row["epsilon"] == name]
        yield {"way": "one-sided", "epsilon": name, "points": ours}
        for way, answer in _list_others(bench, epsilon).items():
            points = [_compute_point(bench.line, answer(level)) for level in grids.LEVELS]
            yield {"way": way, "epsilon": name, "points": [point for point in points if point[0] > 0]}
            bench.on_step()


def _compute_point(line: Timeline, answers: Answers) -> tuple[float, float]:
    return count_false_alarms(line, answers.alarms), len(find_first_alarms(line, answers.alarms)) / len(line.reports)


def compute_corrections(bench: Bench) -> Tree:
    """Return what wrong reports cost: the place-days that they count, and the alarms and pauses that they cause."""
    events = bench.epidemic.events
    line = bench.make_line(Scenario(versions="all"))
    truth = bench.make_line(Scenario(versions="last")).align(line)
    wrong = (line.counts > 0) & (truth.in_hindsight == 0)
    answers = answer_one_sided(line, grids.LIKELY.epsilon, grids.LIKELY.threshold, bench.noise)
    bench.on_step()
    waits = [event.last.published - event.first.published for event in events if event.moved]
    return {
        "moved": sum(event.moved for event in events),
        "retimed": sum(event.retimed for event in events),
        "days_to_correction": float(np.median(waits)) / DAY if waits else 0.0,
        "wrong_place_days": int(wrong.sum()),
        "counted_place_days": int((line.counts > 0).sum()),
        "wrong_alarms": int((answers.alarms & wrong).sum()),
        "alarms": int(answers.alarms.sum()),
        "wrong_pauses": int((answers.paused & wrong).sum()),
        "outcome": show(grids.LIKELY, measure(line, answers, grids.LIKELY.threshold)),
    }


def recommend(epidemic: Epidemic) -> PlanOutcome:
    """Return what `plan --delays` puts first.

    Raises:
        ContradictionError: no plan meets the targets.
        FailedError: the first plan has another window than the bench.
    """
    known, delays = [days * DAY for days in grids.DELAYS], epidemic.delays
    shares = tuple(Fraction(bisect_right(delays, delay), len(delays)) for delay in known)
    targets = replace(grids.TARGETS, delays=ReportDelays(tuple(known), shares))
    planned = find(targets, grids.CHOICES)[0]
    if planned.plan.design.window != grids.WINDOW:
        raise FailedError(
            f"plan puts a window of {planned.plan.design.window} days first: expected {grids.WINDOW}, as in the bench; "
            "change WINDOW in simulators/outbreak/grids.py"
        )
    return planned


def compare_plan(planned: PlanOutcome, line: Timeline, answers: Answers) -> Tree:
    """Return what the plan promised, and what happened."""
    plan, empty, alarming = planned.plan, line.in_hindsight == 0, line.counts >= planned.plan.threshold
    asked = alarming & ~answers.paused
    return {
        "threshold": plan.threshold,
        "epsilon": format_epsilon(plan.epsilon),
        "promised_false_alarms": plan.compute_false_alarm(0) * PER,
        "false_alarms": count_false_alarms(line, answers.alarms),
        "promised_alarm": planned.alarm,
        "alarm": float((answers.alarms & asked).sum() / max(1, asked.sum())),
        "promised_counts": float(planned.counts or 0),
        "counts": float(((line.report_ticks - line.visit_ticks) < line.window).mean()),
        "promised_silence": plan.compute_silence(0),
        "silence": float((answers.paused & empty).sum() / empty.sum()),
        "pays": format_epsilon(planned.pays),
    }


def count_busiest(line: Timeline, number: int) -> Counts:
    """Return the places with the most visits, busiest first."""
    return np.argsort(-np.bincount(line.columns, minlength=line.places), kind="stable")[:number]
