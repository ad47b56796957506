"""How late visits are reported: the forms of the file, what `plan` and `check` say about it, and busy locations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from monitor.cli import main
from monitor.errors import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, DelaysError
from monitor.kinds.report_delays import ReportDelays
from monitor.operate.plan.outcomes import simulate_answered_share
from monitor.operate.read_report_delays import METRIC, read_report_delays
from monitor.privacy import over_time
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.privacy.over_time import Mark, OverTimeRule
from monitor.time.instants import DAY, HOUR

SHIPPED = Path(__file__).parents[3] / "deploy" / "config.yaml"
CITY = Path(__file__).parents[2] / "kit" / "configs" / "city.yaml"
BUCKETS = {"3600": 1, "86400": 10, "604800": 70, "1.2096e+06": 95, "+Inf": 100}
SHARES = "delay,share\n1h,1%\n1d,0.1\n7d,70%\n14d,.95\n"
KNOWN = ReportDelays(
    (HOUR, DAY, 7 * DAY, 14 * DAY), (Fraction(1, 100), Fraction(1, 10), Fraction(7, 10), Fraction(95, 100))
)

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "delays.txt"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def expose(buckets: Mapping[str, float], instance: str = "a") -> str:
    """Return the metric as an instance exposes it."""
    lines = [f'{METRIC}_bucket{{le="{bound}",instance="{instance}"}} {number}' for bound, number in buckets.items()]
    return "\n".join([f"# TYPE {METRIC} histogram", *lines, ""])


def answer(buckets: Mapping[str, float]) -> str:
    """Return the answer of Prometheus to a query for the buckets."""
    result = [{"metric": {"le": bound}, "value": [1767225600, str(number)]} for bound, number in buckets.items()]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})


@pytest.mark.parametrize("text", [SHARES, expose(BUCKETS), expose(BUCKETS) + expose(BUCKETS, "b"), answer(BUCKETS)])
def test_three_forms_say_the_same(write: Write, text: str) -> None:
    """CSV, the exposition of one instance or of two, and the answer of Prometheus give the same exact shares."""
    assert read_report_delays(write(text)) == KNOWN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("days;cumulative\n7;0.7\n", "cannot be read: expected the metric"),
        ("delay,part\n7d,0.7\n", "has the header delay,part: expected delay,share"),
        ("delay,share\n", "has no line after the header"),
        ("delay,share\n7d,1.2\n", "line 2: the share is 1.2: expected 0 to 1"),
        ("delay,share\n7d,-0.2\n", "line 2: the share is -0.2"),
        ("delay,share\n1d,0.5\n7d,0.4\n", r"line 3 has a smaller number \(0.4\) than line 2 \(0.5\)"),
        ("delay,share\n7d,0.5\n1d,0.6\n", "line 3: the delay 1d is not longer"),
        ("delay,share\nweek,0.5\n", "line 2: 'week' is not a duration"),
        ("delay,share\n7d\n", "line 2 has 1 columns"),
        ("location_monitor_ready 1\n", f"has no bucket of {METRIC}"),
        (expose({"3600": 1}), r'has no bucket le="\+Inf"'),
        (expose({"3600": -1, "+Inf": 1}), 'bucket le="3600" has the number -1'),
        (expose({"3600": 2, "86400": 1, "+Inf": 3}), 'le="86400" has a smaller number'),
        (expose({"3600": 2, "+Inf": 1}), r'le="\+Inf" has a smaller number'),
        (expose({"3600": 0, "+Inf": 0}), "has counted no visit yet"),
        (expose({"+Inf": 5}), r'has only the bucket le="\+Inf"'),
        (answer({"3600": float("nan"), "+Inf": 1}), 'bucket le="3600" has the number nan'),
        ('{"status": "error"}', "is not the answer of Prometheus"),
    ],
)
def test_unusable_files_are_refused(write: Write, text: str, message: str) -> None:
    """A file that is empty, of another form, or without rising shares up to 1 is refused with what was expected."""
    with pytest.raises(DelaysError, match=message):
        read_report_delays(write(text))


def test_shares_are_never_too_large() -> None:
    """Between two known delays, the share of the shorter one counts; an average is taken over the time until now."""
    assert [KNOWN.find_share(delay) for delay in (HOUR - 1, HOUR, 8 * DAY)] == [0, Fraction(1, 100), Fraction(7, 10)]
    assert [KNOWN.find_delay(Fraction(share, 100)) for share in (10, 11, 96)] == [DAY, 7 * DAY, None]
    by_day = Fraction(0), Fraction(1, 100), Fraction(1, 10), Fraction(7, 10)
    lengths = HOUR, DAY - HOUR, 6 * DAY, DAY
    assert KNOWN.average_share(8 * DAY) == sum(map(lambda a, b: a * b, by_day, lengths)) / (8 * DAY)


def run(command: str, delays: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [command, "--delays", str(delays), *arguments])


def test_check_says_what_an_answer_counts(write: Write) -> None:
    """`check` prints the share that the first and the last answer count, and warns if most visits come too late."""
    early = write("delay,share\n1h,1%\n14d,0.6\n20d,1\n")
    result = run("check", early, "--config", str(SHIPPED), "--json", "--strict")
    assert result.exit_code == EXIT_DONE
    result = run("check", early, "--config", str(CITY), "--json")
    counted = {one["name"]: one for one in json.loads(result.output)["counted"]}
    assert counted["evening"] == {"name": "evening", "in_time": 0.6, "first_answer": 0.01}
    assert counted["busiest"] == {"name": "busiest", "in_time": 0.6, "first_answer": None}
    assert counted["hubs"]["in_time"] == 0.6
    result = run("check", write("delay,share\n14d,0.2\n30d,0.97\n"), "--config", str(CITY), "--strict")
    text = " ".join(result.output.split())
    assert "evening: the last answer about a designated time counts about 20.0 % of the visits" in text
    assert "Set reporting_horizon to 30d to count at least 95 %." in text
    assert result.exit_code == EXIT_FAILED


def test_plan_finds_the_horizon(write: Write) -> None:
    """`plan` proposes the shortest known horizon that counts the share, and says if no window counts it."""
    line = "--kind at_times --slot 1h --epsilon 1 --threshold 20 --counts-at-least 90% --json"
    plan = json.loads(run("plan", write(SHARES), *line.split()).output)["plans"][0]
    assert (plan["reporting_horizon"], plan["counts"]) == ("14d", 0.95)
    line = "--window 7d --epsilon 1 --threshold 20 --counts-at-least 90%"
    result = run("plan", write(SHARES), *line.split())
    assert "--counts-at-least 90% cannot be met" in result.output
    assert "--counts-at-least 70%" in result.output
    assert result.exit_code == EXIT_USAGE
    neighbours = run("plan", write(SHARES), "--config", str(CITY), "--counts-at-least", "99%").output
    assert "--counts-at-lea" in neighbours
    assert "needs to know" in CliRunner().invoke(main, ["plan", *line.split()]).output


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
