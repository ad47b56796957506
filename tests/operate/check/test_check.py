"""The report of `check`: payments, pauses, false alarms and warnings."""

from __future__ import annotations

import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import yaml
from rich.console import Console

from monitor.config.charges_of_monitors import compute_charges, compute_timing
from monitor.config.load import load_config
from monitor.config.registry import load_registry
from monitor.config.sections import ClockSettings
from monitor.config.valid_config import validate_config
from monitor.config.whole_config import Config
from monitor.kinds.at_times.keys_and_parameters import AtTimesMonitor
from monitor.operate.check.compute_report import compute_report
from monitor.operate.check.print_report import render
from monitor.operate.check.report import CheckReport
from monitor.operate.check.verdicts import judge_clock
from monitor.privacy.alarm_chances import compute_false_alarm, compute_over_updates, find_threshold
from monitor.time.instants import DAY, HOUR, YEAR, to_instant
from monitor.time.schedule import Schedule
from monitor.values.wording import format_amount

SHIPPED = Path(__file__).parents[3] / "config"
EXAMPLES = Path(__file__).parents[2] / "kit" / "configs"
"""A city with every kind of monitor that `check` explains, and a town. They are not shipped."""
FIGURES = ("one visit", "one person", "the page")
PREFIX = "LOCATION_MONITOR__"


def city(**changes: str) -> Config:
    """Load the example of a city, with changes as from the environment: MONITORS__0__EPSILON="3"."""
    return load_config(EXAMPLES / "city.yaml", {PREFIX + key: value for key, value in changes.items()})


def report_on(config: Config) -> CheckReport:
    return compute_report(validate_config(config, load_registry(config.locations.file)))


def report_city(**changes: str) -> CheckReport:
    """Return the report of the example of a city, with changes as in `city`."""
    return report_on(city(**changes))


def write_monitor(number: int, **changes: object) -> str:
    """Return a list with only one of the example's monitors, changed, as JSON."""
    return json.dumps([yaml.safe_load((EXAMPLES / "city.yaml").read_text())["monitors"][number] | changes])


def list_warnings(report: CheckReport) -> list[str]:
    """Return the warnings without the first three verdicts, which find the ε of this city useless."""
    return [str(each) for each in report.verdicts if each.level != "fine" and each.about not in FIGURES]


def format_text(report: CheckReport, width: int = 200) -> str:
    output = io.StringIO()
    render(report, Console(file=output, width=width))
    return output.getvalue()


def join_words(report: CheckReport) -> str:
    """Return the text without line breaks and indentation."""
    return " ".join(format_text(report).split())


@pytest.fixture
def evening() -> Callable[..., AtTimesMonitor]:
    def make(*at: str, timezone: str | None = "Europe/Berlin") -> AtTimesMonitor:
        settings = {"at": at, "timezone": timezone, "reporting_horizon": "2d", "epsilon": "1", "threshold": 5}
        return AtTimesMonitor.model_validate({"name": "evening", "kind": "at_times", **settings})

    return make


def test_report_has_the_sum() -> None:
    """The report adds up all monitors, prints the sum, and explains what a change needs."""
    report = report_city()
    assert report.total == Fraction(59, 4)
    text = join_words(report)
    for part in (
        "200 locations, 4 monitors",
        "ε stated for any 14 days: 15",
        "ε in the worst case of this configuration: 59/4 = 4 (hubs) + 2 (clinics) + 15/4 (evening) + 5 (busiest)",
        "e^14.75 = 2,545,914 times",
        "one place at a time",
        "N = H + W + F - 1 = 674",
        "Redis needs twice the memory until the old facts have expired",
        "Start a new instance, wait until it is ready, and then stop an old one",
    ):
        assert part in text


@pytest.mark.promise(15)
def test_unaligned_period_touches_one_slot_more() -> None:
    """A period that is not aligned touches one slot more than fit in it."""
    # slots    |---|---|---|---|
    # period     |-----------|       3 slots long, in 4 slots
    assert compute_timing(city(PRIVACY__PERIOD="3h")).period_slots == 4
    assert compute_timing(city(PRIVACY__PERIOD="150m")).period_slots == 4
    assert compute_timing(city(PRIVACY__PERIOD="1ms")).period_slots == 2


def test_fifteen_evenings_in_fourteen_days(evening: Callable[..., AtTimesMonitor]) -> None:
    """14 days contain 15 evenings when clocks change."""
    # evenings   |--24 h--|--24 h--| … |--23 h--| … |     15 of them in 13·24 + 23 h < 14 days
    assert evening("18:00").count_most_times(14 * DAY) == 15
    assert evening("18:00", timezone="Asia/Tokyo").count_most_times(14 * DAY) == 14
    # Tuesdays   |--7 d--|--7 d - 1 h--|   three of them in 14 days if clocks change in between
    assert evening("Tue 18:00").count_most_times(14 * DAY) == 3
    assert evening("Tue 18:00", timezone="Asia/Tokyo").count_most_times(14 * DAY) == 2
    assert evening("Mon-Fri 18:00", timezone="Asia/Tokyo").count_most_times(8 * DAY) == 6


def test_the_interval_is_half_open(evening: Callable[..., AtTimesMonitor]) -> None:
    """A duration of a day contains a daily time once."""
    assert evening("18:00", timezone="UTC").count_most_times(DAY) == 1
    assert evening("18:00", timezone="UTC").count_most_times(DAY + 1) == 2


@pytest.mark.parametrize("zone", ["Africa/Casablanca", "Africa/Cairo", "America/New_York", "Europe/Berlin"])
def test_later_years_contain_no_more_times(evening: Callable[..., AtTimesMonitor], zone: str) -> None:
    """No later year has more daily times in a period, also where the fasting month decides when the clocks change."""
    monitor, first = evening("18:00", timezone=zone), to_instant(datetime(2000, 1, 1, tzinfo=UTC))
    times = Schedule.of(monitor.at, monitor.timezone).find_between(first, first + 200 * YEAR)
    for days in (1, 14, 30, 31, 177, 209, 354, 355, 365, 385):
        most = (np.searchsorted(times, times + days * DAY) - np.arange(times.size)).max()
        assert monitor.count_most_times(days * DAY) == most, days


def test_single_instants_are_counted(evening: Callable[..., AtTimesMonitor]) -> None:
    """Single instants count, in any year and together with daily times."""
    far = ("1950-01-01T00:00:00Z", "1950-01-01T01:00:00Z", "2999-01-01T00:00:00Z")
    assert evening(*far, timezone=None).count_most_times(2 * HOUR) == 2
    assert evening("18:00", "2026-01-05T12:00:00Z", timezone="UTC").count_most_times(DAY) == 2


@pytest.mark.promise(15)
def test_payments_by_hand() -> None:
    """The charges equal a calculation by hand.

    Period 14 days: H = 337, W = 336, F = 2, N = 674 = 1·338 + 336 ticks, for k = 1 and 2; 15 evenings.
    """
    hubs, clinics, evenings, busiest = compute_charges(city())
    assert hubs.amount == Fraction(2) * (1 * 1 + 1)
    assert clinics.amount == Fraction(1, 2) * (2 * 1 + 2)
    assert evenings.amount == 15 * Fraction(1, 4)
    assert busiest.amount == 15 * Fraction(1, 3)  # for each time once, however many locations are named


def test_exact_spending_is_accepted() -> None:
    """A sum equal to privacy.epsilon is accepted."""
    assert report_city(PRIVACY__EPSILON="59/4").total == Fraction(59, 4)


def test_pause_lasts_w_plus_f() -> None:
    """A pause lasts W + F ticks."""
    # tick     t     t + 1 …                       t + W + F
    # answer   z     paused, W + F - 1 ticks       next
    report = report_city()
    hubs, clinics, evenings, _busiest = (monitor["pause"] for monitor in report.to_tree()["monitors"])
    assert (hubs["ticks"], hubs["duration"]) == (336 + 2, "14d2h")
    assert clinics["answers"] == 2
    assert evenings is None
    text = join_words(report)
    assert "the next answer comes W + F = 338 ticks (14 days 2 hours) later" in text
    assert "up to 2 noisy answers in any W + F = 338 ticks" in text
    assert "the next answer comes 337 ticks (14 days 1 hour) after the last" in text


def test_odds_per_epsilon_of_an_answer() -> None:
    """There are odds for each distinct ε of an answer, at 0 and at T - 1 people."""
    hubs, clinics, evenings, _busiest = report_city().monitors
    assert [(odds.epsilon, odds.locations, odds.people) for odds in hubs.odds] == [
        (Fraction(6, 5), 1, 0),
        (Fraction(6, 5), 1, 59),
        (Fraction(2, 5), 1, 0),
        (Fraction(2, 5), 1, 59),
        (Fraction(1, 5), 2, 0),
        (Fraction(1, 5), 2, 59),
    ]
    assert {odds.epsilon for odds in clinics.odds} == {Fraction(1, 4)}  # ε_l/k, not ε_l
    assert {odds.people for odds in report_city(MONITORS__0__THRESHOLD="1").monitors[0].odds} == {0}
    empty = evenings.odds[0]
    assert empty.locations == 200
    assert empty.per_update == pytest.approx(math.exp(-36 / 4))
    assert empty.over_updates == pytest.approx(1 - (1 - math.exp(-36 / 4)) ** 336)


def test_odds_by_hand() -> None:
    """The chances equal a calculation by hand, and bad ones cause a warning.

    ε = 1, hourly for 14 days (336): at T = 5 90 % of the empty locations raise an alarm, at T = 10 1.5 %.
    """
    report = report_city(
        MONITORS__1__LOCATIONS='["clinic-1"]', MONITORS__1__ANSWERS_PER_WINDOW="1", MONITORS__1__THRESHOLD="5"
    )
    assert report.monitors[1].odds[0].over_updates == pytest.approx(0.90, abs=0.005)
    assert compute_over_updates(compute_false_alarm(Fraction(1), 10, 0), 336) == pytest.approx(0.015, abs=0.0005)
    (warning,) = list_warnings(report)
    assert "clinics: an empty location has a false alarm within 336 updates with a chance of 89.7 %" in warning
    assert "Raise the threshold to 9 for a chance below 5 %" in warning
    assert warning[:60] in join_words(report)


@pytest.mark.parametrize("epsilon", [Fraction(1, 7), Fraction(1), Fraction(5), Fraction(40)])
@pytest.mark.parametrize("updates", [1, 48, 336, 10**6])
def test_proposed_threshold_is_smallest(epsilon: Fraction, updates: int) -> None:
    """The proposed threshold is the smallest with less than 5 % false alarms."""
    threshold = find_threshold(epsilon, updates, 0.05)
    assert compute_over_updates(compute_false_alarm(epsilon, threshold, 0), updates) < 0.05
    assert threshold == 1 or compute_over_updates(compute_false_alarm(epsilon, threshold - 1, 0), updates) >= 0.05


def test_horizon_between_slots() -> None:
    """A horizon of 90 minutes contains up to two hourly ticks."""
    # τ    |------- 90 m -------|
    # ticks    |            |           up to 2 of them, an hour apart
    assert report_city(MONITORS__2__REPORTING_HORIZON="90m").monitors[2].updates == 2


@pytest.mark.parametrize(
    ("threshold", "level", "false"),
    [
        ("27", "useless", "65 have"),
        ("32", "risky", "21 have"),
        ("36", "fine", "8.1 have"),
        ("5", "useless", "200 have"),
    ],
)
def test_false_alarms_decide_the_verdict(threshold: str, level: str, false: str) -> None:
    """A monitor is fine up to 5 % of false alarms at an empty place, useless above 20 %, and else risky.

    ε = 1/4, 336 updates: at T = 32 the chance is 1 - (1 - e^-8)^336 = 11 %, at T = 27 33 %, at T = 36 4.1 %.
    """
    report = report_city(MONITORS__2__THRESHOLD=threshold)
    (number,) = [number for number, each in enumerate(report.verdicts) if each.about == "evening"]
    verdict = report.verdicts[number]
    assert verdict.level == level
    assert f"If all 200 are empty, {false} one at each designated time, on average." in verdict.text
    assert ("Raise the threshold to 36 for a chance below 5 %" in verdict.text) is (level != "fine")
    text = format_text(report)
    assert f"  {level:7}  evening: an empty location" in text
    assert re.search(r"\de[+-]\d", text) is None
    assert report.to_tree()["verdicts"][number] == {
        "level": level,
        "about": "evening",
        "text": verdict.text,
    }


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (1e-9, "< 0.01"), (0.012, "0.012"), (5.21, "5.2"), (9.96, "10"), (140.2, "140"), (1.4e6, "1,400,000")],
)
def test_amounts_have_no_powers_of_ten(amount: float, text: str) -> None:
    """An amount is written in digits."""
    assert format_amount(amount) == text


def test_useless_answers_cause_a_warning() -> None:
    """More answers per window than ticks cause a warning."""
    assert any(
        "only 338 ticks" in warning
        for warning in report_city(
            MONITORS__1__ANSWERS_PER_WINDOW="400", MONITORS__1__THRESHOLD="50000", PRIVACY__EPSILON="100"
        ).warnings
    )


def test_unencrypted_passwords_cause_a_warning() -> None:
    """A password over an unencrypted connection causes a warning, and is not shown."""
    sasl = {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SASL_MECHANISM": "PLAIN", "USERNAME": "u", "PASSWORD": "hunter2"}
    report = report_city(
        REDIS__PASSWORD="hunter2",  # noqa: S106 - a password that must not be shown
        **{f"KAFKA__{name}": value for name, value in sasl.items()},
    )
    assert [warning.partition(":")[0] for warning in list_warnings(report)] == ["kafka", "redis"]
    assert "hunter2" not in format_text(report) + str(report.to_tree()) + repr(report)


def test_short_time_to_read_causes_a_warning() -> None:
    """A release delay that leaves less than 100 ms for reading, if clocks differ by the tolerance, causes a warning."""
    delays = {"1001ms": "0s", "3s": "0s", "3100ms": "50ms", "3199ms": "99ms"}
    for delay, left in delays.items():
        (warning,) = list_warnings(report_city(CLOCK__RELEASE_DELAY=delay))
        assert warning.startswith("clock: if the clock of Redis differs by the tolerance (1s), ")
        assert f"leaves {left} for reading the visits of a tick." in warning
        assert warning.endswith("Set release_delay to 3s200ms or more.")
    assert list_warnings(report_city(CLOCK__RELEASE_DELAY="3200ms")) == []
    slot = {"CLOCK__SLOT": "5s", "CLOCK__RELEASE_DELAY": "2s"}
    changes = {"VISITS__ACCEPT_AHEAD": "0s", "MONITORS": write_monitor(3), "PRIVACY__EPSILON": "100"}
    assert list_warnings(report_city(**slot, **changes))[0].endswith(
        "so that release_delay can be 3·tolerance + 200ms."
    )


def read_clocks() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the clock of each configuration that is shipped, in deploy/ and in the pages."""
    root = SHIPPED.parent
    for path in (root / "deploy" / "config.yaml", *sorted((root / "deploy" / "chart" / "ci").glob("*.yaml"))):
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
        yield path.name, tree.get("config", tree)["clock"]
    for path in sorted((root / "docs").rglob("*.md")):
        for clock in re.findall(r"^clock: (\{.*\})", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield path.name, yaml.safe_load(clock)


def test_shipped_clocks_leave_time_to_read() -> None:
    """The configurations in deploy/ and in the pages cause no warning about their clocks."""
    clocks = dict(read_clocks())
    assert {"config.yaml", "full-values.yaml", "own-data.md"} <= clocks.keys()
    for name, clock in clocks.items():
        assert not list(judge_clock(ClockSettings.model_validate(clock | {"origin": "2026-01-05T00:00:00Z"}))), name


@pytest.mark.promise(16)
def test_long_default_stay_causes_a_warning() -> None:
    """A default stay that puts a person at many places at once causes a warning.

    Six check-ins ten minutes apart, each for an hour: six places, and six times ε at one designated time.
    """
    report = report_city(VISITS__DEFAULT_STAY="1h")
    (warning,) = list_warnings(report)
    assert warning == (
        "visits: A visit without left_at lasts for visits.default_stay (1h): a person who checks in elsewhere "
        "every 10m and never reports a departure is at 6 places at a designated time, and pays 6 times. With evening, "
        "busiest this may cost 117/2 within the period, not 59/4. Report left_at, or set default_stay to 20m or less."
    )
    assert warning in join_words(report)
    tree = report.to_tree()
    assert warning in tree["warnings"]
    assert tree["overlap"] == {
        "default_stay": "1h",
        "check_ins_apart": "10m",
        "places_at_once": 6,
        "may_pay": str(Fraction(59, 4) + 5 * (15 * Fraction(1, 4) + 15 * Fraction(1, 3))),
    }


@pytest.mark.parametrize(("stay", "places"), [("1ms", 1), ("10m", 1), ("10m1ms", 2), ("20m", 2)])
def test_short_default_stay_is_explained(stay: str, places: int) -> None:
    """A short default stay is explained without a warning: anybody may be between two places."""
    report = report_city(VISITS__DEFAULT_STAY=stay)
    assert list_warnings(report) == []
    assert report.overlap is not None
    assert report.overlap.places == places
    text = "do not overlap" if places == 1 else "is at 2 places at a designated time, and pays 2 times"
    assert text in join_words(report)


def test_default_stay_without_designated_times() -> None:
    """A default stay costs nothing more if there are no designated times.

    The sum of `over_time` assumes that everyone is everywhere.
    """
    report = report_city(VISITS__DEFAULT_STAY="14d", MONITORS=write_monitor(0))
    assert (report.overlap, list_warnings(report)) == (None, [])


@pytest.mark.parametrize("example", [EXAMPLES / "demo.yaml", EXAMPLES / "city.yaml", SHIPPED / "secure.yaml"])
def test_words_are_whole_at_80_columns(example: Path) -> None:
    """At 80 columns the report has the same words as at 200, and no line is longer."""
    config = load_config(example, {f"{PREFIX}MONITORS__0__NAME": "a-name-of-more-than-forty-letters-for-hubs"})
    report = report_on(config)
    narrow, wide = format_text(report, 80), format_text(report)

    def words(text: str) -> Counter[str]:
        return Counter(word for word in text.split() if set(word) != {"─"})

    assert words(narrow) == words(wide)
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80


def test_json_report_is_exact() -> None:
    """The JSON report has ε as exact strings and durations as configured."""
    tree = report_city().to_tree()
    assert (tree["service"], tree["locations"], tree["period"]) == ("city", 200, "14d")
    assert (tree["stated"], tree["total"], tree["one_visit"]) == ("15", "59/4", "107/60")
    hubs = tree["monitors"][0]
    assert (hubs["name"], hubs["epsilon"], hubs["charge"]["amount"]) == ("hubs", "2", "4")
    assert hubs["pause"] == {"ticks": 338, "duration": "14d2h", "answers": 1, "busy_share": pytest.approx(1 / 338)}
    assert hubs["odds"][0].keys() == {"epsilon", "locations", "people", "per_update", "over_updates"}
    assert "one place at a time" in tree["assumption"]


def test_report_of_hot_spots() -> None:
    """Hot spots have no odds, but a ranking with the mean noise.

    E[noise] = q/(1 - q) = 1/(e^ε - 1), with q = e^-ε; one of 200 reaches m with a chance of 1 - (1 - q^m)^200.
    """
    report = report_city()
    busiest = report.monitors[3]
    assert (busiest.threshold, busiest.odds, busiest.updates) == (None, (), 1)
    ranking, below = (tree := report.to_tree()["monitors"][3])["ranking"], tree["ranking"]["below"]
    assert tree["pause"] is None
    q = math.exp(-1 / 3)
    assert ranking["mean_noise"] == pytest.approx(sum(n * (1 - q) * q**n for n in range(1_000)))
    assert 1 - (1 - q**below) ** 200 < 0.05 <= 1 - (1 - q ** (below - 1)) ** 200
    text = join_words(report)
    assert "at 1/3 each: 5. This covers the counts of all locations together" in text
    assert (
        "busiest: 5 of 200 locations are named, each with an upper bound of its number of people; none is called "
        "safe. Noise adds 2.5 people to a count on average, and fewer than 25 to every count with a chance of 95.0 %."
    ) in text
    ranking = report.to_tree()["monitors"][3]["ranking"]
    assert (ranking["top"], ranking["below"]) == (5, 25)


def test_no_odds_with_hot_spots_alone() -> None:
    """The text has no section about false alarms if only hot spots are watched."""
    text = join_words(report_city(MONITORS=write_monitor(3, epsilon="1/100", top=500)))
    assert "How often noise alone raises an alarm" not in text
    assert "busiest: 200 of 200 locations are named" in text
    assert "Noise adds 100 people to a count on average" in text  # 1/(e^0.01 - 1) = 99.5


def test_beliefs_are_bounds() -> None:
    """The table has the largest chance that Bayes' rule allows after an answer, and after all of them."""
    text = format_text(report_city())
    rows = [line.split() for line in text.splitlines() if line.strip().startswith(("1 %", "50.0 %"))]
    for before, row in zip((0.01, 0.5), rows, strict=True):
        odds = before / (1 - before) * math.exp(107 / 60)  # at station-1: 6/5 (hubs) + 1/4 (evening) + 1/3 (busiest)
        assert float(row[2]) == pytest.approx(100 * odds / (1 + odds), abs=0.05)
        assert "> 99.9 %" in " ".join(row)
