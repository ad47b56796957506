"""The simulated town: its visits, routines, reports, epidemic and places."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict

import numpy as np
import pytest

from monitor.contracts.instants import DAY, HOUR, MINUTE
from monitor.errors import UsageError
from monitor.tools.town import EpidemicParameters, Kind, Town, VisitBatch, find_kind, make_places, make_places_from_ids
from monitor.tools.town.epidemic import NEVER, Outbreak
from monitor.tools.town.places import TRAITS, WEEK

DEMO_IDS = ["station-central", "market", "school-1", "clinic", "library", "office-park", "shop-1", "shop-2", "cafe-1"]


def join_columns(batches: list[VisitBatch]) -> tuple[np.ndarray, ...]:
    names = ("person", "place", "arrived_at", "left_at", "reported_at")
    return tuple(np.concatenate([getattr(batch, name) for batch in batches]) for name in names)


def test_visits_do_not_overlap(everyone: list[VisitBatch]) -> None:
    """Nobody is at two places at one time, which the service assumes (docs/rules.md, section 1).

    arrived ├──────┤ left
                     arrived ├───┤      never before the last one left
    """
    person, _, arrived, left, _ = join_columns(everyone)
    order = np.lexsort((arrived, person))
    same = person[order][1:] == person[order][:-1]
    assert np.all(left > arrived)
    assert np.all(arrived[order][1:][same] >= left[order][:-1][same])


def test_visits_are_in_opening_hours(town: Town, everyone: list[VisitBatch], start: int) -> None:
    """Visits are within the opening hours of their weekday."""
    _, place, arrived, left, _ = join_columns(everyone)
    day = (arrived - start) // DAY
    hours = np.array([[TRAITS[kind].hours[which] for kind in Kind] for which in WEEK]) * HOUR
    kinds = np.array([each.kind for each in town.places])
    opens, closes = np.moveaxis(hours[day % 7, kinds[place]], -1, 0)
    assert np.all(arrived - start - day * DAY >= opens)
    assert np.all(left - start - day * DAY <= closes)
    assert day.min() == 0
    assert day.max() == town.days - 1


def test_load_is_reported_at_night(everyone: list[VisitBatch], start: int) -> None:
    """The visits of a load are reported in order, in the night after the day."""
    _, _, arrived, _, reported = join_columns(everyone)
    midnight = start + ((arrived - start) // DAY + 1) * DAY
    assert np.all(np.diff(reported) >= 0)
    assert np.all((reported >= midnight) & (reported < midnight + 4 * HOUR))


def test_weekends_differ(town: Town, everyone: list[VisitBatch]) -> None:
    """On weekends schools and offices are empty, stations quieter and markets busier."""
    kinds = np.array([each.kind for each in town.places])
    weekday, weekend = (
        Counter(kinds[np.concatenate([batch.place for batch in everyone if batch.day in days])].tolist())
        for days in ((1, 2), (5, 6))
    )
    assert weekend[Kind.SCHOOL] == weekend[Kind.OFFICE] == 0 < weekday[Kind.SCHOOL]
    assert weekend[Kind.STATION] < weekday[Kind.STATION] / 2
    assert weekend[Kind.MARKET] > weekday[Kind.MARKET]


def test_commuters_pass_stations(town: Town, everyone: list[VisitBatch], start: int) -> None:
    """Commuters pass a station in the morning and in the evening."""
    tuesday = [batch for batch in everyone if batch.day == 1]
    person, place, arrived, _, _ = join_columns(tuesday)
    kinds = np.array([each.kind for each in town.places])
    at_station = kinds[place] == Kind.STATION
    hour = (arrived[at_station] - start - DAY) / HOUR
    morning, evening = (hour > 5.5) & (hour < 10.5), (hour > 14) & (hour < 22)
    assert np.mean(morning | evening) > 0.95
    passed = set(person[at_station][morning].tolist())
    assert len(passed & set(person[at_station][evening].tolist())) > 0.9 * len(passed) > 0.1 * town.people


def test_routine_of_some_people(town: Town) -> None:
    """The day of a few people, drawn again for a report, is their day among all people."""
    routine = town._routine
    some = np.array([2_017, 5, 1_400])
    alone, among_all = routine.plan_day(some, 5), routine.plan_day(np.arange(town.people), 5)
    for row, person in enumerate(some.tolist()):
        mine, theirs = alone.where(alone.row == row), among_all.where(among_all.row == person)
        assert np.array_equal(mine.place, theirs.place)
        assert np.array_equal(mine.start, theirs.start)
        assert np.array_equal(mine.end, theirs.end)


def test_report_covers_fourteen_days(reported: list[VisitBatch]) -> None:
    """A report has visits of the 14 days before it, and only visits that have ended.

    ├──────────── 14 days ────────────┤ report
    """
    _, _, arrived, left, known = join_columns(reported)
    assert np.all(arrived >= known - 14 * DAY)
    assert np.all(left <= known)
    assert (known - arrived).max() > 13 * DAY
    assert np.all(np.diff(known) >= 0)


def test_report_is_complete(reported: list[VisitBatch], everyone: list[VisitBatch]) -> None:
    """A report has every visit of its 14 days, and each person is reported once."""
    visits: dict[int, set[tuple[int, int, int]]] = defaultdict(set)
    for person, place, arrived, left, _ in zip(*(c.tolist() for c in join_columns(everyone)), strict=True):
        visits[person].add((place, arrived, left))
    listed: dict[int, set[tuple[int, int, int]]] = defaultdict(set)
    when: dict[int, int] = {}
    for person, place, arrived, left, known in zip(*(c.tolist() for c in join_columns(reported)), strict=True):
        listed[person].add((place, arrived, left))
        assert when.setdefault(person, known) == known, "reported once"
    for person, known in when.items():
        assert listed[person] == {v for v in visits[person] if v[1] >= known - 14 * DAY and v[2] <= known}


def test_reported_people_stay_home(town: Town) -> None:
    """People are reported after their infection, and stay at home from the onset until they recover."""
    outbreak = Outbreak(town._routine, EpidemicParameters())
    for day in range(town.days):
        outbreak.spread(day)
    cases = np.flatnonzero(outbreak.reported_at < NEVER)
    assert len(cases) > 20
    assert np.all(outbreak.reported_at[cases] > outbreak.infected_at[cases])
    assert np.all(outbreak.home_from[cases] <= outbreak.reported_at[cases])
    for day in range(town.days):
        stays = outbreak.find_stays(cases, day)
        case = cases[stays.row]
        before = stays.end <= outbreak.home_from[case]
        recovered = stays.start >= outbreak.onset_at[case] + 10 * 86_400
        assert np.all(before | recovered)


def test_epidemic_needs_contacts(start: int) -> None:
    """An epidemic grows where people meet and dies out without contacts (seeded)."""
    found = make_places(120, 3)
    met, apart = (
        Outbreak(Town(3, 3_000, found, start, 28)._routine, parameters)
        for parameters in (
            EpidemicParameters(),
            EpidemicParameters(infections_per_contact_hour=0.0, household_infections_per_day=0.0),
        )
    )
    assert sum(met.spread(day) for day in range(28)) > 100
    assert sum(apart.spread(day) for day in range(28)) == 0


def test_same_seed_gives_same_town(town: Town, start: int) -> None:
    """A seed determines the reports, however often they are read; another seed gives others."""
    visits = list(Town(11, 3_000, make_places(120, 11), start, 28).list_reports())
    assert list(town.list_reports()) == visits
    assert list(town.list_reports()) == visits
    assert list(Town(12, 3_000, make_places(120, 11), start, 28).list_reports()) != visits


def test_visits_have_readable_ids(start: int) -> None:
    """Visits have the ids of the given places and of numbered people."""
    town = Town(5, 800, make_places_from_ids(DEMO_IDS), start, 21)
    visits = list(town.list_reports())
    assert {visit.location_id for visit in visits} <= set(DEMO_IDS)
    assert all(visit.person_id.startswith("p-") and len(visit.person_id) == 8 for visit in visits)
    assert {"station-central", "market", "school-1"} <= {visit.location_id for visit in visits}
    assert town.format_person_id(17) == "p-000017"


@pytest.mark.parametrize(
    ("location_id", "kind"),
    [
        ("station-central", Kind.STATION),
        ("clinic", Kind.CLINIC),
        ("office-park", Kind.OFFICE),
        ("park-2", Kind.PARK),
        ("gym-1", Kind.GYM),
        ("shibuya", Kind.SHOP),
        ("駅", Kind.SHOP),
    ],
)
def test_id_determines_kind(location_id: str, kind: Kind) -> None:
    """The first known word of a location id determines its kind; others are shops."""
    assert find_kind(location_id) is kind


@pytest.mark.parametrize("count", [1, 5, 11, 12, 400, 10_007])
def test_number_of_places(count: int) -> None:
    """A town has the requested number of places, of all kinds if there are enough."""
    found = make_places(count, 1)
    assert len({place.location_id for place in found}) == len(found) == count
    assert all(find_kind(place.location_id) is place.kind for place in found)
    assert {place.kind for place in found} == set(Kind) or count < 11


@pytest.mark.parametrize("ids", [["market"], ["station-1"], ["somewhere"], ["school-1", "station-1", "station-2"]])
def test_any_places_make_a_town(ids: list[str], start: int) -> None:
    """People visit places in any town, even with a single place."""
    batches = Town(1, 50, make_places_from_ids(ids), start, 8).list_daily_batches()
    assert sum(len(batch) for batch in batches) > 0


def test_town_of_one_person(start: int) -> None:
    """A town may have a single person."""
    town = Town(1, 1, make_places(12, 1), start, 21)
    assert all(visit.person_id == "p-000000" for visit in town.list_reports())


def test_midnight_of_other_zones(start: int) -> None:
    """A midnight of another time zone begins the same weekday.

    Monday in Tokyo begins at 15:00Z on Sunday, in Honolulu at 10:00Z on Monday.
    """
    found = make_places(30, 1)
    assert [Town(1, 10, found, start + offset, 1)._routine.find_weekday(0) for offset in (-9 * HOUR, 0, 10 * HOUR)] == [
        0
    ] * 3


@pytest.mark.parametrize(("people", "days", "count", "late"), [(0, 1, 1, 0), (1, 0, 1, 0), (1, 1, 0, 0), (1, 1, 1, 1)])
def test_impossible_town_is_refused(people: int, days: int, count: int, late: int, start: int) -> None:
    """A town without people, days or places, or with a start that is not a whole second, is refused."""
    with pytest.raises(UsageError, match="expected"):
        Town(1, people, make_places(1, 1)[:count], start + late, days)


PEAKS = """
import itertools, tracemalloc
from monitor.tools.town import Town, make_places
for days in (10, 40):
    town = Town(1, 200, make_places(20, 1), START, days)
    tracemalloc.start()
    visits = sum(len(batch) for batch in itertools.chain(town.list_daily_batches(), town.report_batches()))
    print(visits, tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
"""


def test_memory_is_constant(start: int) -> None:
    """Four times the days need at most a quarter more memory.

    It is measured in a separate process, because threads of other tests allocate too.
    """
    code = PEAKS.replace("START", str(start))
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    (few, least), (many, most) = (map(int, line.split()) for line in output.splitlines())
    assert many > 3 * few
    assert most < 1.25 * least


def test_stations_are_busy(town: Town, reported: list[VisitBatch], start: int) -> None:
    """Of the distinct people over 14 days, by which thresholds are chosen, stations have many and shops few."""
    person, place, _, left, _ = join_columns(reported)
    recent = left >= start + 14 * DAY
    pairs = np.unique(np.stack([place[recent], person[recent]]), axis=1)
    counts = np.bincount(pairs[0], minlength=len(town.places))
    kinds = np.array([each.kind for each in town.places])
    assert counts[kinds == Kind.STATION].max() >= 10
    assert np.median(counts[kinds == Kind.SHOP]) <= 5


def test_stays_depend_on_kind(town: Town, everyone: list[VisitBatch]) -> None:
    """A median stay is minutes at a station and hours at a school."""
    _, place, arrived, left, _ = join_columns(everyone)
    kinds = np.array([each.kind for each in town.places])[place]
    minutes = {kind: np.median((left - arrived)[kinds == kind]) / MINUTE for kind in (Kind.STATION, Kind.SCHOOL)}
    assert 3 < minutes[Kind.STATION] < 8
    assert 360 < minutes[Kind.SCHOOL] < 480
