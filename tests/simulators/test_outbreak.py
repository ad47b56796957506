"""The bench of an epidemic, on a small one that is made up."""

from __future__ import annotations

import io
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from monitor.privacy import over_time, upper_bound
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.privacy.over_time import Mark, OverTimeRule
from monitor.privacy.upper_bound import BucketRule
from monitor.time.instants import DAY
from simulators.cli import cli
from simulators.outbreak import grids
from simulators.outbreak.compute import Bench, measure_noise
from simulators.outbreak.designated import AtTimesSetting, Designated, decide
from simulators.outbreak.measure import count_false_alarms, measure
from simulators.outbreak.on_service import OverTimeSetting, run_service
from simulators.outbreak.report import COMMAND
from simulators.outbreak.reports import Scenario, Timeline, read_epidemic
from simulators.outbreak.ways import (
    MAX_LEAD,
    answer_one_sided,
    answer_sparse_vector,
    count_new,
    cover,
    draw_each_tick,
    draw_slot_sums,
    draw_tree,
    draw_upper_bounds,
    warn_from,
)
from tests.privacy.laws import Given

pytestmark = pytest.mark.long

CERTAIN = Fraction(1000)
"""An ε at which no draw of any way is other than 0."""

HEADER = "id,version,published,event,location,city,start,end,lat,lng"
SHOP, BUS, INN = "1 High Street", "Bus 7", "2 Low Road"


def make_row(
    event: str, day: int, published: int, place: str = SHOP, hours: str = "10:00/11:00", version: int = 0
) -> str:
    """Return a version of a visit on a day of August 2021, published at noon of another."""
    start, end = (f"2021-08-{day:02}T{hour}:00+12:00" for hour in hours.split("/"))
    return f"{event},{version},2021-08-{published:02}T12:00:00+12:00,{BUS} {day}/08/2021,{place},,{start},{end},NA,NA"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three visits to the shop, one in a bus, one that was moved from the shop to the inn, and one without an end."""
    rows = [
        make_row("a", 2, 5),
        make_row("b", 3, 5),
        make_row("c", 4, 12),
        make_row("d", 4, 6, "Auckland"),
        make_row("e", 6, 7),
        make_row("e", 6, 9, INN, version=1),
        make_row("f", 5, 6).replace("2021-08-05T11:00:00+12:00", "NA"),
    ]
    path = tmp_path / "events.csv"
    path.write_text("\n".join([HEADER, *rows, ""]), encoding="utf-8")
    return path


@pytest.fixture
def bench(data: Path) -> Bench:
    """The bench of these events."""
    return Bench(read_epidemic(data), 7)


def count_again(line: Timeline, row: int, place: int) -> int:
    """Return the distinct people of a window, report by report."""
    tick = line.first + row
    return len(
        {
            report.person
            for report in line.reports
            if report.place == place
            and line.grid.find_slot(report.reported) <= tick
            and tick - line.window < line.grid.find_last_slot(report.start, report.end) <= tick
        }
    )


def test_versions_become_events(data: Path) -> None:
    """An event has its versions in order. An address without a number is not a place, and a visit needs an end."""
    epidemic = read_epidemic(data)
    assert epidemic.places == (SHOP, INN, BUS)
    assert (len(epidemic.events), epidemic.invalid, epidemic.versions) == (5, 1, 7)
    assert [event.moved for event in epidemic.events] == [False, False, False, True, False]
    assert not any(event.retimed for event in epidemic.events)


@pytest.mark.parametrize("scenario", [Scenario(), Scenario(versions="all"), Scenario(2 * DAY, 2.0)])
def test_counts_are_a_recount(bench: Bench, scenario: Scenario) -> None:
    """The counts of each tick are those of a plain recount, with corrections and with several people per event."""
    line = bench.make_line(scenario)
    again = [[count_again(line, row, place) for place in range(line.places)] for row in range(line.ticks)]
    assert line.counts.tolist() == again
    assert (line.in_hindsight >= line.counts).all()


def test_certain_answers_are_exact(bench: Bench) -> None:
    """Without noise, every way warns exactly where T people are counted, except during pauses."""
    line, noise = bench.line, bench.noise
    reached = line.counts >= 2
    assert (warn_from(draw_each_tick(line, CERTAIN * 15, noise), 2, 1.0, "tick").alarms == reached).all()
    for answers in (answer_one_sided(line, CERTAIN, 2, noise), answer_sparse_vector(line, CERTAIN, 2, noise)):
        assert (answers.alarms == reached & ~answers.paused).all()
        assert answers.paused.sum() == answers.alarms.sum() * line.window
        assert measure(line, answers, 2).false_safe == 0


def test_tree_sums_the_window(bench: Bench) -> None:
    """Without noise, the tree's number is the number of reports in the last W slots."""
    line = bench.line
    numbers = draw_tree(line, CERTAIN, bench.noise)
    for row in range(line.ticks):
        recent = line.columns[(line.report_ticks <= row) & (line.report_ticks > row - line.window)]
        assert numbers[row].tolist() == np.bincount(recent, minlength=line.places).tolist()


def test_slot_sums_bound_the_count(bench: Bench) -> None:
    """Without noise, a slot sum is the number of reports in the last W + F slots, and never below the count."""
    line = bench.line
    numbers = draw_slot_sums(line, CERTAIN, bench.noise)
    for row in range(line.ticks):
        recent = line.columns[(line.report_ticks <= row) & (line.report_ticks > row - line.window - MAX_LEAD)]
        assert numbers[row].tolist() == np.bincount(recent, minlength=line.places).tolist()
    assert (numbers >= line.counts).all()
    assert (count_new(line).sum(axis=0) == np.bincount(line.columns, minlength=line.places)).all()


def test_upper_bounds_are_the_service(bench: Bench) -> None:
    """Once all buckets of a window are over, the bounds are those of the service's functions, and never too low."""
    line, rule = bench.make_line(Scenario(extra_people=2.0)), BucketRule(Fraction(14), 1, 14, MAX_LEAD)
    bounds = draw_upper_bounds(line, Fraction(1), OneSidedNoise(SeededEntropy(5)))
    drawn = OneSidedNoise(SeededEntropy(5)).geometric(Fraction(1), bounds.size).reshape(bounds.shape)
    for place in range(line.places):
        numbers = []
        for tick in range(line.ticks):
            people = {
                report.person
                for report, reported, visited in zip(line.reports, line.report_ticks, line.visit_ticks, strict=True)
                if report.place == place and reported == tick and visited > tick - line.window
            }
            numbers.append(upper_bound.draw(rule, tick, len(people), int(drawn[tick, place])))
            bound = upper_bound.add_up(rule, numbers, tick)
            assert bound is None or bound == bounds[tick, place]
        assert bound is not None
    assert (bounds >= line.counts).all()


def test_numbers_have_their_noise(bench: Bench) -> None:
    """A visit is in one slot's number, in those of 15 ticks, or in one sum of each level: noise at ε, ε/15 or ε/4."""
    line, epsilon = bench.line, Fraction(7)
    rows, columns = np.arange(line.ticks), np.ones(line.places, np.int64)
    intervals = [len(list(cover(max(0, row - 13), row + 1, 4))) for row in rows.tolist()]
    slots = line.ticks * line.places
    sums = sum(-(-line.ticks // length) for length in (1, 2, 4, 8)) * line.places
    for draw, share, number, draws in (
        (draw_slot_sums, epsilon, slots, np.minimum(rows + 1, 15)),
        (draw_each_tick, epsilon / 15, slots, np.ones_like(rows)),
        (draw_tree, epsilon / 4, sums, np.array(intervals)),
    ):
        ones = Given(*[1] * number, signed=True)
        noisy = draw(line, epsilon, ones)
        assert ones.asked == [share] * number, draw
        assert (noisy - draw(line, CERTAIN * 15, bench.noise) == np.outer(draws, columns)).all(), draw


def test_errors_stand_alone(bench: Bench) -> None:
    """The error of a way's numbers is the same whatever was computed before. Slot sums have the least of two sides."""
    first = list(measure_noise(bench))
    bench.noise.geometric(Fraction(1), 5)
    assert list(measure_noise(bench)) == first
    assert {row["way"] for row in first} == {"upper bound", "slot sums", "tree", "each tick"}
    errors = [row["error"] for row in first if row["epsilon"] == "1" and row["way"] != "upper bound"]
    assert errors == sorted(errors)
    assert errors[0] > 1


def test_sparse_vector_has_its_noise() -> None:
    """
    T and each count get noise at ε/2, and T gets fresh noise after each alarm.

        tick            0   1 … 14   15 … 19   20   21 …
        noise of T     -1   5                   5    9         T = 1, and nobody is there
        of the count    0   0        0          6    0
        alarm           !   paused   -          !    paused
    """
    empty = Timeline(grids.DAYS, 14, 1, 0, 40, (), *[np.zeros(0, np.int64)] * 2)
    noise = Given(-1, 0, 5, *[0] * 19, 6, 9, *[0] * 19, signed=True)
    answers = answer_sparse_vector(empty, Fraction(7), 1, noise)
    assert noise.asked == [Fraction(7, 2)] * (1 + 40 + 2)
    assert np.flatnonzero(answers.alarms).tolist() == [0, 20]
    assert np.flatnonzero(answers.paused).tolist() == [*range(1, 15), *range(21, 35)]


def test_one_sided_is_the_service(bench: Bench) -> None:
    """The answers are those of the service's function at every tick and place, which counts since the latest number."""
    line, rule = bench.line, OverTimeRule(Fraction(1), 2, 2, 14, MAX_LEAD)
    noise = OneSidedNoise(SeededEntropy(5))
    statuses = []
    marks: list[tuple[Mark, ...]] = [()] * line.places
    for tick in range(line.ticks):
        drawn = noise.geometric(rule.answer_epsilon, line.places).tolist()
        found = []
        for p in range(line.places):
            since = over_time.find_count_start(rule, marks[p], tick)
            people = {
                report.person
                for report, reported, visited in zip(line.reports, line.report_ticks, line.visit_ticks, strict=True)
                if report.place == p
                and visited > tick - line.window
                and (-1 if since is None else since) < reported <= tick
            }
            count = int(line.counts[tick, p]) if since is None else len(people)
            found.append(over_time.step(rule, marks[p], tick, count, drawn[p]))
        marks = [answer.marks for answer in found]
        statuses.append([answer.status for answer in found])
    answers = answer_one_sided(line, Fraction(1), 2, OneSidedNoise(SeededEntropy(5)), 2)
    assert answers.alarms.tolist() == [[status == "noisy_count" for status in row] for row in statuses]
    assert answers.paused.tolist() == [[status == "paused" for status in row] for row in statuses]
    assert answers.alarms.any()
    assert answers.paused.any()


def test_cover_is_disjoint() -> None:
    """The intervals of a window are disjoint and dyadic, and few."""
    for begin in range(40):
        intervals = list(cover(begin, begin + 14, 4))
        assert [slot for level, number in intervals for slot in range(number << level, (number + 1) << level)] == list(
            range(begin, begin + 14)
        )
        assert len(intervals) <= 6


def test_false_alarms_follow_the_formula(bench: Bench) -> None:
    """An empty place that answers has a false alarm with the chance e^(-εT): within six deviations (10^-8)."""
    empty = Timeline(grids.DAYS, 14, 200, 0, 300, (), *[np.zeros(0, np.int64)] * 2)
    answers = answer_one_sided(empty, Fraction(2), 2, OneSidedNoise(SeededEntropy(3)))
    asked = int((~answers.paused).sum())
    expected = asked * np.exp(-4)
    assert abs(int(answers.alarms.sum()) - expected) < 6 * np.sqrt(expected)
    assert count_false_alarms(empty, answers.alarms) == pytest.approx(answers.alarms.mean() * 1000)


def test_delays_and_payments(bench: Bench) -> None:
    """A visit is warned about at the end of the day of its report, and pays for the alarms that count it."""
    outcome = measure(bench.line, answer_one_sided(bench.line, CERTAIN, 1, bench.noise), 1)
    # The only alarm at the shop is on the 5th. It warns about the visit of the 4th, which is reported on the 12th, and
    # pauses the shop when the visit of the 6th is reported.
    assert (outcome.warned, outcome.before, outcome.hidden) == (4 / 5, 1 / 5, 1 / 5)
    assert (outcome.worst, outcome.median) == (1000.0, 1000.0)


def test_alarms_are_true_early_or_noise(bench: Bench) -> None:
    """An alarm is true with T people in the window, early with at least half of them, else noise."""
    line = bench.line
    for threshold in (1, 2, 3, 4):
        outcome = measure(line, warn_from(np.zeros_like(line.counts), 0, 1.0, "once"), threshold)
        words = [
            "true" if count >= threshold else "early" if count >= threshold / 2 else "noise"
            for count in line.counts.ravel().tolist()
        ]
        assert [outcome.true, outcome.early, outcome.noise] == [
            words.count(word) for word in ("true", "early", "noise")
        ]
        assert 0 < outcome.true < len(words)


def test_counts_since_a_number_warn_again(bench: Bench) -> None:
    """With k = 2 the shop warns about the visit of the 6th too, no visit pays twice, and "since" is not "safe"."""
    answers = answer_one_sided(bench.line, 2 * CERTAIN, 1, bench.noise, 2)
    outcome = measure(bench.line, answers, 1)
    assert (outcome.warned, outcome.hidden) == (1, 0)
    assert (outcome.worst, outcome.median) == (1000.0, 1000.0)
    assert answers.since.any()
    assert not (answers.since & (answers.alarms | answers.paused)).any()
    assert (outcome.false_safe, outcome.at_threshold) == (0, int(answers.alarms.sum()))


def test_designated_times_miss_other_visits(bench: Bench) -> None:
    """Only a visit that covers a designated time can raise an alarm about it."""
    certain = [decide(bench.line, AtTimesSetting((at,), 1, CERTAIN), bench.noise) for at in ("10:30", "11:00")]
    assert [outcome.covered for outcome in certain] == [1.0, 0.0]
    assert [outcome.warned for outcome in certain] == [1.0, 0.0]
    assert [outcome.false_alarms for outcome in certain] == [0.0, 0.0]


def test_command_writes_page(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command writes its results, and the tables between the comments of the page."""
    monkeypatch.setattr("simulators.outbreak.run_outbreak.save", lambda *_: None)
    monkeypatch.setattr(grids, "LEVELS", (1, 5))
    page = tmp_path / "page.md"
    page.write_text(f"before\n<!-- begin: {COMMAND} -->\n<!-- end: {COMMAND} -->\nafter\n", encoding="utf-8")
    arguments = ["outbreak", str(data), "--out", str(tmp_path / "out"), "--document", str(page)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    results = json.loads((tmp_path / "out" / "outbreak.json").read_text(encoding="utf-8"))
    assert results["data"]["events"] == 5
    assert all(row["false_safe"] == 0 for row in results["grid"])
    text = page.read_text(encoding="utf-8")
    assert "| slot sums | " in text
    assert "| 2, 4 | upper bound | " in text
    assert text.startswith("before")
    assert "| one-sided | 1 | 0 of " in text


@pytest.mark.servers
def test_service_agrees(bench: Bench) -> None:
    """Without noise, the running service publishes what its functions decide, and the audit finds nothing."""
    settings = (
        OverTimeSetting(1, Fraction(60)),
        OverTimeSetting(2, Fraction(60)),
        OverTimeSetting(1, Fraction(120), 2),
    )
    times = Designated(bench.line, AtTimesSetting(("10:30",), 1, Fraction(60)))
    run = run_service(bench.line, settings, times, Console(file=io.StringIO()))
    assert run.report.ok
    assert (run.report.early, run.report.noise) == (0, 0)
    for setting in settings:
        expected = answer_one_sided(bench.line, setting.epsilon, setting.threshold, bench.noise, setting.answers)
        found = run.answers[setting.name]
        assert (found.alarms == expected.alarms).all()
        assert (found.paused == expected.paused).all()
        assert (found.since == expected.since).all()
    assert expected.since.any()
    assert run.designated.measure().warned == 1.0
