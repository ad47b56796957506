"""What a configuration means: payments, pauses, false alarms."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from rich.console import Console

from monitor.brokers.connections import MAX_RECORD_BYTES
from monitor.config import AtTimesMonitor, Config, Location, load_config, load_registry
from monitor.config.charges import charges, most_designated_times, period_slots
from monitor.errors import EXIT_USAGE, ConfigError, OverspentError
from monitor.privacy.odds import false_alarm, over_updates
from monitor.public.instants import DAY, HOUR
from monitor.tools.check.report import CheckReport, check, threshold_for
from monitor.tools.check.text import render

EXAMPLES = Path(__file__).parents[2] / "config"
PREFIX = "LOCATION_MONITOR__"


def city(**changes: str) -> Config:
    """The example of a city, with changes as from the environment: MONITORS__0__EPSILON="3"."""
    return load_config(EXAMPLES / "city.yaml", {PREFIX + key: value for key, value in changes.items()})


def registry(config: Config) -> tuple[Location, ...]:
    return load_registry(config.locations.file)


def text_of(report: CheckReport) -> str:
    output = io.StringIO()
    render(report, Console(file=output, width=200))
    return output.getvalue()


@pytest.fixture
def evening() -> Callable[..., AtTimesMonitor]:
    def made(*at: str, timezone: str | None = "Europe/Berlin") -> AtTimesMonitor:
        settings = {"at": at, "timezone": timezone, "reporting_horizon": "2d", "epsilon": "1", "threshold": 5}
        return AtTimesMonitor.model_validate({"name": "evening", "kind": "at_times", **settings})

    return made


@pytest.mark.parametrize("name", ["demo.yaml", "city.yaml", "secure.yaml"])
def test_every_example_passes(name: str) -> None:
    config = load_config(EXAMPLES / name, {})
    report = check(config, registry(config))
    assert report.warnings == ()
    assert report.total <= report.stated
    assert text_of(report)


def test_it_says_what_a_change_of_configuration_needs() -> None:
    """Twice the memory, and an order in which instances start and end."""
    config = city()
    text = " ".join(text_of(check(config, registry(config))).split())
    assert "Redis needs twice the memory until the old ones have expired" in text
    assert "Start a new instance, wait until it is ready, and only then end an old one" in text


def test_a_period_that_is_not_aligned_touches_one_slot_more() -> None:
    # slots    |---|---|---|---|
    # period     |-----------|       3 slots long, in 4 slots
    assert period_slots(city(PRIVACY__PERIOD="3h")) == 4
    assert period_slots(city(PRIVACY__PERIOD="150m")) == 4
    assert period_slots(city(PRIVACY__PERIOD="1ms")) == 2


def test_fourteen_days_hold_fifteen_evenings_where_clocks_change(evening: Callable[..., AtTimesMonitor]) -> None:
    # evenings   |--24 h--|--24 h--| … |--23 h--| … |     15 of them in 13·24 + 23 h < 14 days
    assert most_designated_times(evening("18:00"), 14 * DAY) == 15
    assert most_designated_times(evening("18:00", timezone="Asia/Tokyo"), 14 * DAY) == 14


def test_the_interval_is_half_open(evening: Callable[..., AtTimesMonitor]) -> None:
    assert most_designated_times(evening("18:00", timezone="UTC"), DAY) == 1
    assert most_designated_times(evening("18:00", timezone="UTC"), DAY + 1) == 2


def test_single_instants_are_counted_wherever_they_are(evening: Callable[..., AtTimesMonitor]) -> None:
    far = ("1950-01-01T00:00:00Z", "1950-01-01T01:00:00Z", "2999-01-01T00:00:00Z")
    assert most_designated_times(evening(*far, timezone=None), 2 * HOUR) == 2
    assert most_designated_times(evening("18:00", "2026-01-05T12:00:00Z", timezone="UTC"), DAY) == 2


def test_the_payments_are_those_of_the_model_written_by_hand() -> None:
    """Period 14 days: H = 337, W = 336, F = 1, N = 673 = 1·337 + 336 ticks, for k = 1 and 2; 15 evenings."""
    hubs, clinics, evenings, busiest = charges(city())
    assert hubs.amount == Fraction(2) * (1 * 1 + 1)
    assert clinics.amount == Fraction(1, 2) * (2 * 1 + 2)
    assert evenings.amount == 15 * Fraction(1, 4)
    assert busiest.amount == 15 * Fraction(1, 3)  # for each time once, however many locations are named


def test_a_report_sums_all_monitors_and_writes_the_sum_out() -> None:
    config = city()
    report = check(config, registry(config))
    assert report.total == Fraction(59, 4)
    text = text_of(report)
    assert "At most 59/4 within any 14 days; privacy.epsilon states 15." in text
    assert "Sum: 4 + 2 + 15/4 + 5 = 59/4 ≤ 15." in text
    assert "e^14.75 = 2,545,913 times" in text
    assert "one place at a time" in text
    assert "N = H + W + F - 1 = 673" in " ".join(text.split())


def test_more_than_is_stated_is_refused_with_the_sum() -> None:
    config = city(PRIVACY__EPSILON="9")
    with pytest.raises(OverspentError, match=r"4 \+ 2 \+ 15/4 \+ 5 = 59/4") as caught:
        check(config, registry(config))
    assert caught.value.exit_code == EXIT_USAGE


def test_exactly_what_is_stated_is_not_refused() -> None:
    config = city(PRIVACY__EPSILON="59/4")
    assert check(config, registry(config)).total == config.privacy.epsilon


def test_unknown_locations_and_overspending_are_listed_together() -> None:
    config = city(PRIVACY__EPSILON="9", MONITORS__1__LOCATIONS='["clinic-1", "clinik-2"]')
    with pytest.raises(ConfigError) as caught:
        check(config, registry(config))
    assert [problem.key for problem in caught.value.problems] == ["monitors.1.locations", "privacy.epsilon"]
    assert "Did you mean 'clinic-2'?" in str(caught.value)


def test_answers_that_fit_no_record_are_refused_with_what_makes_them_smaller() -> None:
    """Half of what is sent at once: 120,000 ids of 250 quotes, which JSON doubles, make more in one shard."""
    config = city(SERVICE__SHARDS="1")
    wide = tuple(Location(f"{number:06}" + '"' * 250) for number in range(120_000))
    with pytest.raises(ConfigError) as caught:
        check(config, (*registry(config), *wide))
    (problem,) = caught.value.problems
    assert (problem.key, problem.value) == ("service.shards", "1")
    assert f"snapshots of at most {MAX_RECORD_BYTES // 2} bytes: one with all locations of" in problem.expected
    assert check(city(SERVICE__SHARDS="16"), (*registry(config), *wide)).locations == 120_200


def test_a_pause_lasts_a_window_and_what_visits_may_be_ahead() -> None:
    # tick     t     t + 1 …                       t + W + F
    # answer   z     paused, W + F - 1 ticks       next
    config = city()
    hubs, clinics, evenings, _busiest = check(config, registry(config)).monitors
    assert hubs.pause is not None
    assert (hubs.pause.ticks, hubs.pause.duration) == (336 + 1, 14 * DAY + HOUR)
    assert clinics.pause is not None
    assert clinics.pause.answers == 2
    assert evenings.pause is None
    text = " ".join(text_of(check(config, registry(config))).split())
    assert "the next answer comes W + F = 337 ticks (14 days 1 hour) later" in text
    assert "up to 2 noisy answers in any W + F = 337 ticks" in text
    assert "the next answer comes 336 ticks (14 days) after the last" in text


def test_false_alarms_are_told_for_each_distinct_epsilon_of_an_answer() -> None:
    config = city()
    hubs, clinics, evenings, _busiest = check(config, registry(config)).monitors
    assert [(odds.epsilon, odds.locations, odds.people) for odds in hubs.odds] == [
        (Fraction(6, 5), 1, 0),
        (Fraction(6, 5), 1, 59),
        (Fraction(2, 5), 1, 0),
        (Fraction(2, 5), 1, 59),
        (Fraction(1, 5), 2, 0),
        (Fraction(1, 5), 2, 59),
    ]
    assert {odds.epsilon for odds in clinics.odds} == {Fraction(1, 4)}  # ε_l/k, not ε_l
    empty = evenings.odds[0]
    assert empty.locations == 200
    assert empty.per_update == pytest.approx(math.exp(-30 / 4))
    assert empty.over_updates == pytest.approx(1 - (1 - math.exp(-30 / 4)) ** 48)


def test_the_numbers_of_the_privacy_model_come_out() -> None:
    """ε = 1, hourly for 14 days (336): at T = 5 90 % of the empty locations raise one, at T = 10 1.5 %."""
    config = city(
        MONITORS__1__LOCATIONS='["clinic-1"]', MONITORS__1__ANSWERS_PER_WINDOW="1", MONITORS__1__THRESHOLD="5"
    )
    report = check(config, registry(config))
    assert report.monitors[1].odds[0].over_updates == pytest.approx(0.90, abs=0.005)
    assert over_updates(false_alarm(Fraction(1), 10, 0), 336) == pytest.approx(0.015, abs=0.0005)
    (warning,) = report.warnings
    assert "clinics: an empty location has a false alarm within 336 updates with 89.7 %" in warning
    assert "Raise the threshold to 9 for less than 5 %" in warning
    assert warning[:60] in " ".join(text_of(report).split())


@pytest.mark.parametrize("epsilon", [Fraction(1, 7), Fraction(1), Fraction(5), Fraction(40)])
@pytest.mark.parametrize("updates", [1, 48, 336, 10**6])
def test_the_proposed_threshold_is_the_smallest_that_does(epsilon: Fraction, updates: int) -> None:
    threshold = threshold_for(epsilon, updates)
    assert over_updates(false_alarm(epsilon, threshold, 0), updates) < 0.05
    assert threshold == 1 or over_updates(false_alarm(epsilon, threshold - 1, 0), updates) >= 0.05


def test_a_horizon_between_slots_counts_the_ticks_that_it_may_hold() -> None:
    # τ    |------- 90 m -------|
    # ticks    |            |           up to 2 of them, an hour apart
    config = city(MONITORS__2__REPORTING_HORIZON="90m")
    assert check(config, registry(config)).monitors[2].updates == 2


def test_a_threshold_of_one_has_one_count_below_it() -> None:
    config = city(MONITORS__0__THRESHOLD="1")
    assert {odds.people for odds in check(config, registry(config)).monitors[0].odds} == {0}


def test_answers_that_can_never_be_given_are_warned_of() -> None:
    config = city(MONITORS__1__ANSWERS_PER_WINDOW="400", MONITORS__1__THRESHOLD="50000", PRIVACY__EPSILON="100")
    assert any("only 337 ticks" in warning for warning in check(config, registry(config)).warnings)


def test_passwords_over_connections_in_clear_are_warned_of() -> None:
    sasl = {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SASL_MECHANISM": "PLAIN", "USERNAME": "u", "PASSWORD": "hunter2"}
    config = city(
        REDIS__PASSWORD="hunter2",  # noqa: S106 - a password that must not be shown
        **{f"KAFKA__{name}": value for name, value in sasl.items()},
    )
    report = check(config, registry(config))
    assert [warning.partition(":")[0] for warning in report.warnings] == ["kafka", "redis"]
    assert "hunter2" not in text_of(report) + report.to_json() + repr(report)


def test_a_default_stay_that_puts_one_person_at_many_places_at_once_is_warned_of() -> None:
    """Six check-ins ten minutes apart, each for an hour: six places, and six times ε at one designated time."""
    config = city(VISITS__DEFAULT_STAY="1h")
    report = check(config, registry(config))
    (warning,) = report.warnings
    assert warning == (
        "visits: A visit without left_at lasts for visits.default_stay (1h): who checks in elsewhere every 10m without "
        "saying when they left is at 6 places at a designated time, and pays there 6 times. In the period that may be "
        "117/2, not 59/4 (evening, busiest). Have left_at reported, or set default_stay to 20m or less."
    )
    assert warning in " ".join(text_of(report).split())
    tree = json.loads(report.to_json())
    assert tree["warnings"] == [warning]
    assert tree["overlap"] == {
        "default_stay": "1h",
        "check_ins_apart": "10m",
        "places_at_once": 6,
        "may_pay": str(Fraction(59, 4) + 5 * (15 * Fraction(1, 4) + 15 * Fraction(1, 3))),
    }


@pytest.mark.parametrize(("stay", "places"), [("1ms", 1), ("10m", 1), ("10m1ms", 2), ("20m", 2)])
def test_a_short_default_stay_is_told_of_without_a_warning(stay: str, places: int) -> None:
    """On the way from one place to the next anybody may be at two."""
    config = city(VISITS__DEFAULT_STAY=stay)
    report = check(config, registry(config))
    assert report.warnings == ()
    assert report.overlap is not None
    assert report.overlap.places == places
    told = "do not overlap" if places == 1 else "is at 2 places at a designated time, and pays there 2 times"
    assert told in " ".join(text_of(report).split())


def test_a_default_stay_costs_nobody_more_without_designated_times() -> None:
    """The sum of `over_time` takes everyone to be everywhere already."""
    config = city(
        VISITS__DEFAULT_STAY="14d",
        MONITORS=json.dumps(
            [
                {
                    "name": "hubs",
                    "kind": "over_time",
                    "locations": ["station-1"],
                    "epsilon": "1",
                    "threshold": 60,
                    "window": "14d",
                }
            ]
        ),
    )
    report = check(config, registry(config))
    assert (report.overlap, report.warnings) == (None, ())


def test_ids_with_a_space_at_an_end_are_warned_of() -> None:
    config = city()
    report = check(config, (*registry(config), Location("[bold]shop ")))
    assert "'[bold]shop '" in report.warnings[0]
    assert "'[bold]shop '" in text_of(report)


def test_the_report_for_programs_is_exact_json() -> None:
    config = city()
    tree = json.loads(check(config, registry(config)).to_json())
    assert (tree["service"], tree["locations"], tree["period"]) == ("city", 200, "14d")
    assert (tree["stated"], tree["total"], tree["warnings"]) == ("15", "59/4", [])
    hubs = tree["monitors"][0]
    assert (hubs["name"], hubs["epsilon"], hubs["charge"]["amount"]) == ("hubs", "2", "4")
    assert hubs["pause"] == {"ticks": 337, "duration": "14d1h", "answers": 1}
    assert hubs["odds"][0].keys() == {"epsilon", "locations", "people", "per_update", "over_updates"}
    assert "one place at a time" in tree["assumption"]


def test_hot_spots_have_no_false_alarms_and_say_what_is_certain_and_how_noisy_they_are() -> None:
    """E[noise] = q/(1 - q) = 1/(e^ε - 1), with q = e^-ε; one of 200 reaches m with a chance of 1 - (1 - q^m)^200."""
    config = city()
    report = check(config, registry(config))
    busiest = report.monitors[3]
    assert (busiest.threshold, busiest.odds, busiest.pause, busiest.updates) == (None, (), None, 1)
    assert busiest.ranking is not None
    q = math.exp(-1 / 3)
    assert busiest.ranking.mean_noise == pytest.approx(sum(n * (1 - q) * q**n for n in range(1_000)))
    assert 1 - (1 - q**busiest.ranking.below) ** 200 < 0.05 <= 1 - (1 - q ** (busiest.ranking.below - 1)) ** 200
    text = " ".join(text_of(report).split())
    assert "at 1/3 each: 5. That is for the counts of all locations together" in text
    assert (
        "busiest: 5 of 200 locations are named, each with a number of people that it certainly did not exceed; none is "
        "called safe. Noise adds 2.5 people to a count on average, and fewer than 25 to each of all with a chance of "
        "95.0 %."
    ) in text
    ranking = json.loads(report.to_json())["monitors"][3]["ranking"]
    assert (ranking["top"], ranking["below"]) == (5, 25)


def test_nothing_is_said_of_false_alarms_where_there_can_be_none() -> None:
    hot = {
        "name": "busiest",
        "kind": "hot_spots",
        "at": ["18:00"],
        "timezone": "UTC",
        "reporting_horizon": "2d",
        "epsilon": "1/100",
        "top": 500,
    }
    config = city(MONITORS=json.dumps([hot]))
    text = " ".join(text_of(check(config, registry(config))).split())
    assert "How often an alarm is false" not in text
    assert "busiest: 200 of 200 locations are named" in text
    assert "Noise adds 100 people to a count on average" in text  # 1/(e^0.01 - 1) = 99.5


@pytest.mark.parametrize(
    ("name", "line"),
    [("demo.yaml", "40 locations, 2 monitors"), ("city.yaml", "200 locations, 4 monitors")],
)
def test_examples_watch_what_they_say(name: str, line: str) -> None:
    config = load_config(EXAMPLES / name, {})
    assert line in text_of(check(config, registry(config)))
