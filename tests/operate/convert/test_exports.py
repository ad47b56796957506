"""`convert --from fhir|sormas|godata`: exposures become visits; what does not is counted and reported by position.

The records follow the published forms that the modules of `monitor/operate/convert` name.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.config.bounded_lines import LONGEST_ROW, BoundedLines
from monitor.errors import UsageError
from monitor.operate.convert import fhir
from monitor.operate.convert.command import CASES
from monitor.operate.convert.conversion import Conversion, Shape
from monitor.operate.convert.exports import Export, read_export
from tests.operate.convert.command import ignore, read, run

pytestmark = pytest.mark.long

Record = dict[str, Any]
EXPOSURE = [{"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-ActClass", "code": "EXPOS"}]}]
PATIENT = {"resourceType": "Patient", "id": "olga", "name": [{"family": "Olga"}]}
START, END = "2026-01-11T18:00:00+01:00", "2026-01-11T21:30:00+01:00"
VISIT = ["olga", "stadium", "2026-01-11T17:00:00Z", "2026-01-11T20:30:00Z", ""]
MILLISECONDS = 1_768_150_800_000  # of VISIT's beginning


def observe(**changes: Any) -> Record:
    """Return an Observation of the profile; a change to None removes the key."""
    record = {
        "resourceType": "Observation",
        "status": "final",
        "category": EXPOSURE,
        "code": {"text": "Mass gathering"},
        "subject": {"reference": "Patient/olga", "display": "Olga"},
        "focus": [{"reference": "Location/stadium", "display": "City stadium"}],
        "effectivePeriod": {"start": START, "end": END},
    } | changes
    return {key: value for key, value in record.items() if value is not None}


def sormas_case(*exposures: Any, **changes: Any) -> Record:
    """Return a CaseDataDto."""
    case = {"uuid": "CASE-1", "person": {"uuid": "olga"}, "caseClassification": "CONFIRMED"}
    return case | {"epiData": {"exposures": list(exposures)}} | changes


def sormas_exposure(**changes: Any) -> Record:
    """Return an ExposureDto."""
    location = {"uuid": "ADDRESS-1", "street": "Olgastr.", "facility": {"uuid": "stadium", "caption": "City stadium"}}
    end = MILLISECONDS + 12_600_000
    exposure = {"startDate": MILLISECONDS, "endDate": end, "typeOfPlace": "FACILITY", "location": location}
    return exposure | changes


def godata_case(*stays: Any, **changes: Any) -> Record:
    """Return a case of Go.Data."""
    confirmed = "LNG_REFERENCE_DATA_CATEGORY_CASE_CLASSIFICATION_CONFIRMED"
    return {"id": "olga", "visualId": "olga-1", "classification": confirmed, "dateRanges": list(stays)} | changes


def godata_stay(**changes: Any) -> Record:
    """Return an entry of dateRanges."""
    days = {"startDate": "2026-01-11T00:00:00.000Z", "endDate": "2026-01-12T00:00:00.000Z"}
    return {"typeId": "ISOLATION", "centerName": "Hall", "locationId": "stadium", **days} | changes


def write_document(path: Path, records: list[Record]) -> Path:
    """Write records as one document: a Bundle if they are resources, otherwise a list."""
    entries = [{"fullUrl": f"https://example.org/{number}", "resource": each} for number, each in enumerate(records)]
    is_fhir = any("resourceType" in each for each in records)
    document = {"resourceType": "Bundle", "type": "searchset", "total": 12, "entry": entries} if is_fhir else records
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return path


def convert(folder: Path, source: str, records: list[Record], *more: object) -> tuple[list[list[str]], str]:
    """Convert records, and return the visits without the header, and what is printed."""
    path = write_document(folder / "export.json", records)
    result = run("--from", source, "--visits", path, "--out", folder / "v.csv", *more)
    assert result.exit_code == 0, result.output
    assert "olga" not in result.output.lower()
    return read(folder / "v.csv")[1:], " ".join(result.output.split())


@pytest.mark.parametrize("name", ["export.json", "export.json.gz", "export.ndjson", "export.jsonl.gz"])
def test_bundle_and_lines_are_read(name: str, tmp_path: Path) -> None:
    """A Bundle and a file with a resource in each line, gzipped or not, become the same visits."""
    resources = [PATIENT, observe(), observe(category=[{"text": "vital-signs"}]), observe(focus=[])]
    path = write_document(tmp_path / name, resources)
    if "ndjson" in name or "jsonl" in name:
        path.write_text("\n".join(json.dumps(each) for each in resources) + "\n\n", encoding="utf-8")
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    result = run("--from", "fhir", "--visits", path, "--out", tmp_path / "v.csv")
    assert result.exit_code == 0, result.output
    assert read(tmp_path / "v.csv")[1:] == [VISIT]
    assert "1 visits from 4 rows, 1 bad rows left out, 2 with nothing to convert" in result.output


TIMES: dict[str, tuple[Record, tuple[str, str]]] = {
    "period": ({}, ("2026-01-11T17:00:00Z", "2026-01-11T20:30:00Z")),
    "day without end": ({"effectivePeriod": {"start": "2026-03-29"}}, ("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z")),
    "day and time": (
        {"effectivePeriod": {"start": "2026-10-25", "end": "2026-10-25T02:30"}},
        ("2026-10-24T22:00:00Z", "2026-10-25T01:30:00Z"),
    ),
    "date": (
        {"effectivePeriod": None, "effectiveDateTime": "2026-10-25"},
        ("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
    ),
    "no end": ({"effectivePeriod": {"start": START}}, ("2026-01-11T17:00:00Z", "")),
    "no offset": ({"effectivePeriod": {"start": "2026-01-11T18:00"}}, ("2026-01-11T17:00:00Z", "")),
    "days": (
        {"effectivePeriod": {"start": "2026-01-11", "end": "2026-01-11"}},
        ("2026-01-10T23:00:00Z", "2026-01-11T23:00:00Z"),
    ),
    "clock set back": (
        {"effectivePeriod": {"start": "2026-10-25T02:30:00", "end": "2026-10-25T02:30:00"}},
        ("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
    ),
    "time": ({"effectivePeriod": None, "effectiveDateTime": START}, ("2026-01-11T17:00:00Z", "")),
    "instant": ({"effectivePeriod": None, "effectiveInstant": START}, ("2026-01-11T17:00:00Z", "")),
}


@pytest.mark.parametrize(("changes", "times"), TIMES.values(), ids=TIMES)
def test_times_are_read_in_zone(changes: Record, times: tuple[str, str], tmp_path: Path) -> None:
    """--timezone is the zone of times without an offset. A date is the whole day, an hour that occurs twice is both."""
    rows, _ = convert(tmp_path, "fhir", [observe(**changes)], "--timezone", "Europe/Berlin")
    assert rows == [["olga", "stadium", *times, ""]]


def test_whole_address_is_an_id(tmp_path: Path) -> None:
    """People of two servers are two people: the id of an absolute reference is its whole address, without a version."""
    subject = {"reference": "https://a.example.org/fhir/Patient/1/_history/2"}
    assert convert(tmp_path, "fhir", [observe(subject=subject)])[0][0][0] == "https://a.example.org/fhir/Patient/1"


BAD_FHIR: dict[str, Record] = {
    "the status is entered-in-error": {"status": "entered-in-error"},
    "the status is cancelled": {"status": "cancelled"},
    "the status is missing": {"status": None},
    "focus has 0 references: expected one, to a Location": {"focus": None},
    "focus has 2 references: expected one, to a Location": {"focus": [{"reference": "Location/a"}] * 2},
    "focus is only text or an identifier": {"focus": [{"display": "Olga's home"}]},
    "focus is not a Location": {"focus": [{"reference": "RelatedPerson/olga"}]},
    "focus refers to a resource by an id of this Bundle only": {"focus": [{"reference": "#home"}]},
    "subject refers to a resource by an id of this Bundle only": {"subject": {"reference": "urn:uuid:olga"}},
    "subject is only text or an identifier": {"subject": None},
    "the visit has no start": {"effectivePeriod": {"end": END}},
    "the end is before the start": {"effectivePeriod": {"start": END, "end": START}},
    "the start cannot be read: the time has no offset: name the time zone with --timezone": {
        "effectivePeriod": {"start": "2026-01-11T18:00:00"}
    },
    "the start is a date without a time": {"effectivePeriod": None, "effectiveDateTime": "2026-01-11"},
    "the start cannot be read: not an RFC 3339 time": {"effectivePeriod": {"start": "2026-01"}},
    "Expected `str | null`, got `int` - at `$.effectivePeriod.start`": {"effectivePeriod": {"start": 20260111}},
}


def test_bad_exposures_are_reported(tmp_path: Path) -> None:
    """Each refused exposure is reported by its entry and reason, without its contents, and all rows are accounted."""
    rows, printed = convert(tmp_path, "fhir", [*(observe(**each) for each in BAD_FHIR.values()), observe(), PATIENT])
    assert rows == [VISIT]
    for number, reason in enumerate(BAD_FHIR, start=1):
        assert f"entry {number}: {reason}" in printed
    assert f"1 visits from {len(BAD_FHIR) + 2} rows, {len(BAD_FHIR)} bad rows left out, 1 with nothing" in printed


def test_bad_lines_are_reported(tmp_path: Path) -> None:
    """A line that is not a resource is reported by its number, and the others are converted."""
    bad = ['{"olga": ', '"olga"', json.dumps({"resourceType": "Bundle", "entry": []}), "{}", "[" * 100_000]
    path = tmp_path / "export.ndjson"
    path.write_bytes("\n".join([*bad, json.dumps(observe())]).encode() + b'\n{"olga": "\xff"}\n')
    result = run("--from", "fhir", "--visits", path, "--out", tmp_path / "v.csv")
    assert result.exit_code == 0, result.output
    assert read(tmp_path / "v.csv")[1:] == [VISIT]
    for number, reason in (
        (1, "invalid JSON"),
        (2, "expected a JSON object"),
        (3, "expected a resource"),
        (5, "invalid JSON"),
    ):
        assert f"line {number}: {reason}" in result.output
    assert "6 bad rows" in result.output
    assert "olga" not in result.output


BAD_SORMAS: dict[str, Record] = {
    "the location has no facility": {"location": {"uuid": "ADDRESS-2", "street": "Olgastr."}},
    "the location has no facility: an address": {"location": {"facility": {"uuid": "SORMAS-CONSTID-OTHERS-FACILITY"}}},
    "the visit has no start": {"startDate": None},
    "the end is before the start": {"endDate": MILLISECONDS - 1},
    "the start cannot be read: no such date": {"startDate": "2026-02-30T18:00:00"},
    "the date is not in the years": {"startDate": 10**18},
    "Expected `int | str | null`, got `float` - at `$.startDate`": {"startDate": float("inf")},
    "both times are the same, and not midnight in Europe/Berlin": {"endDate": MILLISECONDS},
}


def test_sormas_exposures_are_visits(tmp_path: Path) -> None:
    """The exposures of a case at a facility become visits of its person."""
    good = sormas_exposure(endDate=None)
    text = sormas_exposure(startDate="2026-01-11T18:00:00.000+01:00", endDate=None)
    cases = [
        sormas_case(sormas_exposure(), good, text, number=10**4_000),
        sormas_case(*(sormas_exposure(**each) for each in BAD_SORMAS.values())),
        sormas_case(good, caseClassification="NO_CASE"),
        sormas_case(good, deleted=True),
        sormas_case(good, person=None),
        sormas_case(),
        sormas_case(epiData=None),
        sormas_case(epiData="olga"),
    ]
    rows, printed = convert(tmp_path, "sormas", cases, "--timezone", "Europe/Berlin")
    assert rows == [VISIT, [*VISIT[:3], "", ""], [*VISIT[:3], "", ""]]
    for number, reason in enumerate(BAD_SORMAS, start=1):
        assert f"case 2, exposure {number}: {reason}" in printed
    assert "case 3, exposure 1: the case is classified as no case" in printed
    assert "case 4, exposure 1: the case is deleted" in printed
    assert "case 5, exposure 1: the person id is missing" in printed
    assert "case 8: Expected `object | null`, got `str` - at `$.epiData`" in printed
    assert "3 visits from 17 rows, 12 bad rows left out, 2 with nothing to convert" in printed


BAD_GODATA: dict[str, Record] = {
    "the stay has no locationId": {"locationId": None},
    "the visit has no start": {"startDate": None},
    "the start is not a day": {"startDate": "2026-01-11T18:00:00.000Z"},
    "the end is before the start": {"endDate": "2026-01-10"},
}


DAYS: dict[str, tuple[str, dict[str, int | str | None], tuple[str, str]]] = {
    "one day": (
        "Europe/Berlin",
        {"startDate": 1_621_116_000_000, "endDate": 1_621_116_000_000},
        ("2021-05-15T22:00:00Z", "2021-05-16T22:00:00Z"),
    ),
    "no end": (
        "Africa/Kigali",
        {"startDate": "2026-01-10T22:00:00.000+00:00"},
        ("2026-01-10T22:00:00Z", "2026-01-11T22:00:00Z"),
    ),
    "23 hours": (
        "America/Santiago",
        {"startDate": 1_757_217_600_000},
        ("2025-09-07T04:00:00Z", "2025-09-08T03:00:00Z"),
    ),
    "25 hours": (
        "Europe/Berlin",
        {"startDate": 1_792_792_800_000, "endDate": 1_792_879_200_000},
        ("2026-10-23T22:00:00Z", "2026-10-25T23:00:00Z"),
    ),
    "times": (
        "Europe/Berlin",
        {"startDate": 1_621_166_400_000, "endDate": 1_621_170_000_000},
        ("2021-05-16T12:00:00Z", "2021-05-16T13:00:00Z"),
    ),
    "until midnight": (
        "Europe/Berlin",
        {"startDate": 1_621_166_400_000, "endDate": 1_621_202_400_000},
        ("2021-05-16T12:00:00Z", "2021-05-17T22:00:00Z"),
    ),
}


@pytest.mark.parametrize(("zone", "dates", "times"), DAYS.values(), ids=DAYS)
def test_midnight_of_sormas_is_day(
    zone: str, dates: dict[str, int | str | None], times: tuple[str, str], tmp_path: Path
) -> None:
    """A date of SORMAS, which is local midnight, is the whole day; other instants are times."""
    exposure = sormas_exposure(**{"endDate": None, **dates})
    assert convert(tmp_path, "sormas", [sormas_case(exposure)], "--timezone", zone)[0] == [
        ["olga", "stadium", *times, ""]
    ]


def test_sormas_needs_the_zone(tmp_path: Path) -> None:
    """Without --timezone no exposure of SORMAS is converted, and the reason names the option."""
    path = write_document(tmp_path / "export.json", [sormas_case(sormas_exposure())])
    result = run("--from", "sormas", "--visits", path, "--out", tmp_path / "v.csv")
    assert result.exit_code == 1
    assert "name the time zone with --timezone" in result.output


def test_godata_stays_are_visits(tmp_path: Path) -> None:
    """The stays of a case become visits of whole days in the zone."""
    late = godata_stay(endDate="2026-01-12T23:59:59.999Z")
    cases = [
        godata_case(godata_stay(), late, godata_stay(endDate=None)),
        godata_case(*(godata_stay(**each) for each in BAD_GODATA.values())),
        godata_case(
            godata_stay(), classification="LNG_REFERENCE_DATA_CATEGORY_CASE_CLASSIFICATION_NOT_A_CASE_DISCARDED"
        ),
        godata_case(godata_stay(), deleted=True),
        godata_case(),
    ]
    rows, printed = convert(tmp_path, "godata", cases, "--timezone", "Africa/Kigali", "--until", "2026-02-03")
    whole = ["olga", "stadium", "2026-01-10T22:00:00Z", "2026-01-12T22:00:00Z", ""]
    assert rows == [whole, whole, [*whole[:3], "2026-02-03T22:00:00Z", ""]]
    for number, reason in enumerate(BAD_GODATA, start=1):
        assert f"case 2, stay {number}: {reason}" in printed
    assert "case 3, stay 1: the case is discarded" in printed
    assert "case 4, stay 1: the case is deleted" in printed
    assert "3 visits from 10 rows, 6 bad rows left out, 1 with nothing to convert" in printed


def test_stays_that_go_on_need_a_day(tmp_path: Path) -> None:
    """A stay of Go.Data without an end is refused without --until, and if it begins after that day."""
    later = godata_stay(startDate="2026-02-04", endDate=None)
    cases = [godata_case(godata_stay(), godata_stay(endDate=None), later)]
    _, printed = convert(tmp_path, "godata", cases, "--timezone", "Asia/Tokyo")
    assert "stay 2: the stay has no end: name the last day of stays that go on with --until" in printed
    rows, printed = convert(tmp_path, "godata", cases, "--timezone", "Asia/Tokyo", "--until", "2026-02-03")
    assert [row[3] for row in rows] == ["2026-01-12T15:00:00Z", "2026-02-03T15:00:00Z"]
    assert "stay 3: the stay begins after the day of --until" in printed


@pytest.mark.parametrize(
    "given",
    [
        ("--until", "2026-02-30"),
        ("--until", "2026-02-03"),
        ("--timezone", "UTC", "--from", "fhir", "--until", "2026-02-03"),
    ],
)
def test_until_is_a_day_of_godata(given: tuple[str, ...], tmp_path: Path) -> None:
    """--until that is not a date, without --timezone, or for another format exits with 2 and names the option."""
    path = write_document(tmp_path / "export.json", [godata_case(godata_stay())])
    result = run("--from", "godata", "--visits", path, "--out", tmp_path / "v.csv", *given)
    assert result.exit_code == 2
    assert "--until" in result.output


BROKEN = {
    "cut": '{"entry": [{"resource": {"id": "olga',
    "not quoted": '{"entry": [{"resource": {"id": olga}}]}',
    "two documents": '{"entry": []}\n{"entry": []}',
    "other list": '{"olga": [1, 2]}',
    "a list": '["olga"]',
    "nested": '{"entry": ' + "[" * 200_000,
    "no comma": '{"entry": [{} {"olga": 1}]}',
    "empty": "",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_broken_document_exits_with_2(text: str, tmp_path: Path) -> None:
    """A document that is not JSON, or not of the format, exits with 2, names NDJSON, quotes and writes nothing."""
    path = tmp_path / "export.json"
    path.write_text(text, encoding="utf-8")
    result = run("--from", "fhir", "--visits", path, "--out", tmp_path / "v.csv")
    assert result.exit_code == 2
    assert ".ndjson" in result.output
    assert "olga" not in result.output
    assert [each.name for each in tmp_path.iterdir()] == ["export.json"]


class Drip(io.StringIO):
    """A text that is read at most `step` characters at a time."""

    step = 1

    def read(self, size: int | None = -1, /) -> str:
        """Return the next characters."""
        return super().read(self.step if size else 0)


AS_IT_IS: Export[Record] = Export("entry", "entry", "", lambda record: [record], lambda row, _zone: row)
TEXT = st.text(max_size=5)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(TEXT, st.lists(PLAIN, max_size=2), max_size=2)


def read_in_parts(text: str, step: int) -> list[Any]:
    """Return the records of a document that is read in parts."""
    drip = Drip(text)
    drip.step = step
    lines = BoundedLines(Path("x.json"), drip, lambda: len(text), LONGEST_ROW)
    return [row for _, row in read_export(lines, Path("x.json"), AS_IT_IS, None)]


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    before=VALUES,
    records=st.lists(st.dictionaries(TEXT, VALUES, max_size=3), max_size=3),
    after=VALUES,
    form=st.tuples(st.booleans(), st.sampled_from([None, 1])),
    step=st.integers(1, 30),
    cut=st.integers(0),
)
def test_document_is_read_in_parts(
    before: Any, records: list[Record], after: Any, form: tuple[bool, int | None], step: int, cut: int
) -> None:
    """Records are those of the whole document wherever its parts end, and a document that is cut is refused."""
    document = {"total": before, "entry": records, "link": after}
    text = json.dumps(document, ensure_ascii=form[0], indent=form[1])
    assert read_in_parts(text, step) == records
    with pytest.raises(UsageError):
        read_in_parts(text[: cut % len(text)], step)


JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**30,
    1.5,
    "",
    "x" * 300,
    "\0",
    "\ud800",
    "2026-13-45",
    "0001-01-01",
    [],
    {},
    [None],
    "Patient/",
)


def damage(value: Any, chance: random.Random) -> Any:
    """Return a value some of whose parts are missing, repeated or something else."""
    if chance.random() < 0.06:
        return chance.choice(JUNK)
    if isinstance(value, dict):
        return {key: damage(each, chance) for key, each in value.items() if chance.random() > 0.03}
    if isinstance(value, list):
        return [damage(each, chance) for each in value] * chance.choice((1, 1, 1, 2))
    return value


@pytest.mark.parametrize(
    ("source", "record"),
    [
        ("fhir", observe()),
        ("sormas", sormas_case(sormas_exposure(), sormas_exposure())),
        ("godata", godata_case(godata_stay())),
    ],
    ids=["fhir", "sormas", "godata"],
)
def test_damaged_records_are_accounted(source: str, record: Record, tmp_path: Path) -> None:
    """Whatever a record contains, it is written, refused or passed over, and the others are converted."""
    chance = random.Random(7)
    path = tmp_path / "export.ndjson"
    path.write_text("\n".join(json.dumps(damage(record, chance)) for _ in range(500)), encoding="utf-8")
    conversion = Conversion(partial(read_export, export=CASES[source], zone=ZoneInfo("Europe/Berlin")), Shape())
    conversion.run(path, tmp_path / "v.csv", strict=False, on_progress=ignore)
    tally = conversion.tally
    assert tally.rows == tally.written + tally.bad + tally.passed >= 500
    assert min(tally.written, tally.bad) > 50


@pytest.mark.parametrize("name", ["x.json", "x.ndjson"])
def test_memory_is_constant(name: str, tmp_path: Path) -> None:
    """Ten times the records need the same memory: 1,800 more records would need more than a megabyte.

    Half of that is the bound, because some buffers are measured in one run and not in the other.
    """
    peaks = []
    for count in (200, 2_000):
        records = [observe(subject={"reference": f"Patient/{number}"}) for number in range(count)]
        path = write_document(tmp_path / name, records)
        if name.endswith(".ndjson"):
            path.write_text("\n".join(json.dumps(each) for each in records), encoding="utf-8")
        del records
        reader = partial(read_export, export=fhir.EXPOSURES, zone=ZoneInfo("UTC"))
        tracemalloc.start()
        Conversion(reader, Shape()).run(path, tmp_path / "v.csv", strict=True, on_progress=ignore)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 500_000


def test_options_of_points_are_refused(tmp_path: Path) -> None:
    """Options that describe points exit with 2 for an export."""
    path = write_document(tmp_path / "export.json", [observe()])
    given = ("--merge", "--person-per-day", "--time-format", "epoch")
    result = run("--from", "fhir", "--visits", path, "--out", tmp_path / "v.csv", *given)
    assert result.exit_code == 2
    assert "--time-format, --merge, --person-per-day: only for points" in result.output
