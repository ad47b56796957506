"""The files of the page: what they contain, how they agree, their server, and the command. On a real Kafka."""

from __future__ import annotations

import csv
import gzip
import http.client
import io
import json
import os
import re
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

import jsonschema  # type: ignore[import-untyped]  # it ships no type information
import pytest

from monitor.client.answer_types import NOTHING, Answer, Reason, State
from monitor.config.registry import Location
from monitor.errors import ConfigError, FailedError, TopicError, UsageError
from monitor.page import topic_reader
from monitor.page.command import read_address
from monitor.page.current_places import UNREACHABLE, Place, Snapshot
from monitor.page.serve import BRIEF, FOREVER, HEADERS, FolderServer
from monitor.page.states import list_states
from monitor.page.write_changed_files import LOCK, PART, Folder
from monitor.page.write_json_csv_geojson import write_locations_csv
from monitor.time.instants import HOUR
from tests.conftest import Eventually
from tests.kit.programs import Program
from tests.page.conftest import OpenPage, Served, fail_once, serve
from tests.page.world import FIRST, Town, make_town
from tests.shared_kafka import SharedKafka

CLI = Path(__file__).parents[2] / "monitor" / "cli.py"
NOON = 36
"""The first tick after the first 12:30 that is published."""


def is_whole(page: Served, tick: str = "2026-01-06T15-00-00Z") -> bool:
    """Return whether all files up to a tick are there."""
    folder = page.page.folder.path
    return (folder / f"past/{tick}.json").exists() and (folder / "places/bus-library.html").exists()


@pytest.fixture(scope="module")
def shared(kafka: SharedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """A town with 16 ticks: an alarm at the market at tick 30, an incomplete school at the last, a noon with one."""
    town = make_town(kafka, tmp_path_factory.mktemp("town"))
    for tick in range(FIRST, NOON + 4):
        counts: dict[str, int | None] = {"market": 14 if tick >= 30 else 0}
        counts["school-1"] = None if tick == NOON + 3 else 0
        town.publish(tick, counts, {"library": 12} if tick == NOON + 1 else {})
    yield town
    town.producer.close(timeout=5)


@pytest.fixture(scope="module")
def page(shared: Town, eventually: Eventually) -> Iterator[Served]:
    """The page of this town, with all files."""
    with serve(shared) as page:
        eventually(lambda: is_whole(page) and (page.page.folder.path / "ticks.json").exists())
        yield page


def get(page: Served, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Request a path, and return the status, the headers and the body. `_` in the names of headers stands for `-`."""
    connection = http.client.HTTPConnection(urlsplit(page.url).netloc, timeout=60)
    with closing(connection):
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


def test_json_has_every_place(page: Served, shared: Town) -> None:
    """The JSON has every place of the registry in its order, each with its state and the reason."""
    places = page.list_places()
    assert list(places) == list(shared.parts.parameters.registry.ids)
    expected = {"market": "paused", "school-1": "unknown", "library": "noisy_count", "bus-library": "safe"}
    assert {place: places[place]["state"] for place in expected} == expected
    assert places["library"]["count_at_most"] == 12
    assert places["school-1"]["reason"] == "input_incomplete"
    assert [answer["threshold"] for answer in places["market"]["answers"]] == [10, 9]
    assert "latitude" not in places["bus-library"]
    alarms = {place: each["last_alarm"]["count_at_most"] for place, each in places.items() if "last_alarm" in each}
    assert alarms == {"market": 14, "library": 12}
    assert page.read_json("places.json")["last_alarms"] == 2


def test_other_formats_agree(page: Served) -> None:
    """CSV and GeoJSON have the same places and states as the JSON; a place without coordinates has no geometry."""
    places = page.list_places()
    states = {name: place["state"] for name, place in places.items()}
    rows = list(csv.DictReader(io.StringIO(page.read("places.csv").decode(), newline="")))
    assert {row["location_id"]: row["state"] for row in rows} == states
    alarms = {row["location_id"]: row["last_alarm_at_most"] for row in rows if row["last_alarm_as_of"]}
    assert alarms == {"market": "14", "library": "12"}
    strengths = {row["location_id"]: row["last_alarm_strength"] for row in rows if row["last_alarm_p_value"]}
    assert strengths == {
        name: place["last_alarm"]["strength"] for name, place in places.items() if "last_alarm" in place
    }
    features = page.read_json("places.geojson")["features"]
    assert {feature["id"]: feature["properties"]["state"] for feature in features} == states
    assert [feature["id"] for feature in features if feature["geometry"] is None] == ["bus-library"]


def test_files_follow_the_document(page: Served) -> None:
    """The files have the schemas of the OpenAPI document, which names each of them; upper bounds are left out."""
    document = page.read_json("openapi.json")
    schemas = document["components"]["schemas"]
    assert {*schemas["State"]["enum"], "bounded"} == set(get_args(State))
    assert {*schemas["Reason"]["enum"], "no_threshold"} == {*get_args(Reason), UNREACHABLE}
    for name, path in (
        ("places.json", "/places.json"),
        ("places/market.json", "/places/{name}.json"),
        ("registry.json", "/registry.json"),
        ("states.json", "/states.json"),
        ("past/2026-01-06T06-00-00Z.json", "/past/{as_of}.json"),
        ("ticks.json", "/ticks.json"),
    ):
        (content,) = document["paths"][path]["get"]["responses"]["200"]["content"].values()
        schema = {**content["schema"], "components": document["components"]}
        jsonschema.validate(page.read_json(name), schema, jsonschema.Draft202012Validator)


def test_folder_has_nothing_else(page: Served, shared: Town) -> None:
    """The folder has the files of the page and their compressed twins, which have the same content."""
    folder = page.page.folder.path
    names = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    plain = {name for name in names if not name.endswith(".gz")}
    assert {name for name in plain if "/" not in name} == {
        *("index.html", "en.html", "de.html", "ja.html", "states.json", "registry.json", "ticks.json", "openapi.json"),
        "datapackage.json",
        *("places.json", "places.csv", "places.geojson", "background.geojson", LOCK),
        *(f"alarms-{language}.atom" for language in ("en", "de", "ja")),
    }
    assert sum(name.startswith("places/") for name in plain) == 3 * len(shared.parts.locations)
    assert sum(name.startswith("past/") for name in plain) == 15
    for name in names - plain - {"states.json.gz"}:  # which may change meanwhile
        assert gzip.decompress((folder / name).read_bytes()) == (folder / name.removesuffix(".gz")).read_bytes()


@pytest.mark.parametrize("language", ["en", "de", "ja"])
def test_links_name_files(page: Served, language: str) -> None:
    """Each link of the page to the same site names a file of the folder."""
    html = (page.page.folder.path / f"{language}.html").read_text(encoding="utf-8")
    links = {link.partition("#")[0] for link in re.findall(r'(?:href|src)="([^":]*)"', html)} - {""}
    assert {"places.json", "places.csv", "places.geojson", "openapi.json"} <= links
    assert [link for link in links if not (page.page.folder.path / link).is_file()] == []


def test_each_place_has_a_page(page: Served) -> None:
    """The page of a place has what was published about it, and links that name files."""
    file = page.page.folder.path / "places/market.html"
    html = file.read_text(encoding="utf-8")
    assert "<bdi>Market Hall</bdi>" in html
    assert "at most 14 reported infected people were here" in html
    links = {link.partition("#")[0] for link in re.findall(r'href="([^":]*)"', html)}
    assert {"market.atom", "../en.html"} <= links
    assert [link for link in links if not (file.parent / link).is_file()] == []


def test_history_joins_equal_answers(page: Served) -> None:
    """The history of a place has one period for each answer that stayed the same."""
    history = page.read_json("places/market.json")["history"]
    over_time = [period for period in history if period["kind"] == "over_time"]
    assert [period["state"] for period in over_time] == ["paused", "noisy_count", "safe"]
    assert over_time[1] | {"since": "2026-01-06T07:00:00Z", "until": "2026-01-06T07:00:00Z"} == over_time[1]
    assert ("since" in over_time[2], "until" in over_time[0]) == (False, False)


def list_answers(states: dict[str, Any], page: Served) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each place with each answer about it in a file with states."""
    registry = page.read_json("registry.json")
    assert states["registry"] == registry["digest"]
    for answer in states["answers"]:
        runs = answer["rows"]
        for first, last in zip(runs[::2], runs[1::2], strict=True):
            yield from ((place, answer) for place in registry["ids"][first : last + 1])


def lead(states: dict[str, Any], page: Served) -> dict[str, str]:
    """Return the most cautious state of each place that has an answer."""
    order, found = ("safe", "unknown", "paused", "noisy_count"), dict[str, str]()
    for place, answer in list_answers(states, page):
        found[place] = max(found.get(place, "safe"), answer["state"], key=order.index)
    return found


def test_states_agree_with_places(page: Served) -> None:
    """The states give each place the state that it has in the file of all places."""
    expected = {name: place["state"] for name, place in page.list_places().items()}
    assert lead(page.read_json("states.json"), page) == expected
    past = lead(page.read_json("past/2026-01-06T06-00-00Z.json"), page)
    assert (past["market"], past["school-1"]) == ("safe", "safe")


def test_alarm_stays_in_sight(page: Served) -> None:
    """Each state from an alarm on has the alarm, and each tick counts its place; only one tick drew it."""
    #     tick  24 … 29   30      31 … 36  37       38, 39
    #           safe      market  paused   library  repeated
    ticks = page.read_json("ticks.json")["ticks"]
    assert len(ticks) == 16
    assert [index + FIRST for index, tick in enumerate(ticks) if tick["alarms"]] == [30, NOON + 1]
    for tick, one in enumerate(ticks, FIRST):
        expected = {place for place, first in (("market", 30), ("library", NOON + 1)) if tick >= first}
        name = f"past/{one['as_of'].replace(':', '-')}.json" if one is not ticks[-1] else "states.json"
        states = page.read_json(name)
        assert {place for place, answer in list_answers(states, page) if "last_alarm" in answer} == expected
        assert one["places"] == len(expected)


def test_html_has_every_place(page: Served, shared: Town) -> None:
    """The HTML names every place, in each language, with its state in words, and escapes what it shows."""
    for language, word in (("en", "Unknown"), ("de", "Unbekannt"), ("ja", "不明")):
        text = page.read(f"{language}.html").decode()
        assert all((place.name or place.id).replace("'", "&#39;") in text for place in shared.parts.locations)
        assert f'<html lang="{language}">' in text
        assert word in text
        assert "unsafe" not in text.partition("Content-Security-Policy")[2].partition(">")[0]


def test_headers_suit_a_cdn(page: Served) -> None:
    """A file may be kept for seconds and read by any page, a script forever, an error never. Nothing sets a cookie."""
    status, headers, body = get(page, "/states.json")
    assert (status, headers["cache-control"]) == (200, BRIEF)
    assert headers | {name.lower(): value for name, value in HEADERS.items()} == headers
    assert "set-cookie" not in headers
    assert get(page, "/states.json", If_None_Match=headers["etag"])[0] in {200, 304}
    assert json.loads(body)["registry"] == page.read_json("registry.json")["digest"]
    script = page.read("index.html").decode().partition('src="')[2].partition('"')[0]
    assert get(page, f"/{script}")[1]["cache-control"] == FOREVER
    missing = get(page, "/places/nowhere.json")
    assert (missing[0], missing[1]["cache-control"]) == (404, "no-store")
    assert get(page, "/")[2] == page.read("index.html")


def test_nginx_sends_the_same_headers() -> None:
    """The shipped configuration of nginx has the headers of `page --serve`, for each kind of file."""
    text = (Path(__file__).parents[2] / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    sent = dict(re.findall(r'^    add_header (\S+) "([^"]+)" always;$', text, re.MULTILINE))
    assert sent == HEADERS
    assert re.findall(r'^    (\S+) +"([^"]+)";$', text, re.MULTILINE) == [("~^/static/", FOREVER), ("default", BRIEF)]
    assert "add_header Cache-Control $page_caching;" in text


def test_server_sends_whole_files(tmp_path: Path) -> None:
    """While a file is replaced by others of another length, each response has one of them, with its length and ETag."""
    with Folder(tmp_path) as folder, FolderServer(tmp_path, "localhost", 0) as server:
        folder.write("states.json", b"0")
        stop = threading.Event()

        def replace() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                (tmp_path / PART).write_bytes(b"%d" % (number % 9) * (1 + 40_000 * (number % 3)))
                (tmp_path / PART).replace(tmp_path / "states.json")

        replacing = threading.Thread(target=replace)
        replacing.start()
        try:
            for _ in range(200):
                with urllib.request.urlopen(f"{server.url}states.json", timeout=60) as response:  # noqa: S310  # its address
                    content = response.read()
                assert len(content) % 40_000 == 1
                assert len({*content}) == 1
        finally:
            stop.set()
            replacing.join()


@pytest.mark.parametrize(
    "path",
    ["/../demo.yaml", "/static/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "/static/..%2f..%2f..%2fetc%2fpasswd", "//etc/passwd"],
)
def test_server_stays_in_its_folder(page: Served, path: str) -> None:
    """No path leads to a file outside of the folder."""
    assert get(page, path, Host="evil.test")[0] == 404


def test_states_are_written_again(town: Town, open_page: OpenPage, eventually: Eventually) -> None:
    """Without a change, only `states.json` is written again, and says when; the other files stay as they are."""
    town.publish(FIRST)
    town.publish(FIRST + 1)
    page = open_page(town, unreachable_after=4_000_000)
    eventually(lambda: is_whole(page, "2026-01-06T01-00-00Z"))
    before = {file: file.stat() for file in page.page.folder.path.rglob("*.json")}
    first = page.read_json("states.json")
    eventually(lambda: page.read_json("states.json")["written_at"] > first["written_at"])
    assert {**page.read_json("states.json"), "written_at": 0, "silent_seconds": 0} == {
        **first,
        "written_at": 0,
        "silent_seconds": 0,
    }
    changed = {file.name for file, stat in before.items() if file.stat() != stat}
    assert changed == {"states.json"}


def test_late_records_change_the_past(town: Town, open_page: OpenPage, eventually: Eventually) -> None:
    """A tick that is read later than others changes the files of the past that it belongs to."""
    town.publish(FIRST)
    page = open_page(town)
    for tick in range(FIRST + 1, FIRST + 4):
        town.publish(tick, {"market": 14 if tick >= FIRST + 2 else 0})
    eventually(lambda: is_whole(page, "2026-01-06T03-00-00Z"))
    states = page.read_json("past/2026-01-06T03-00-00Z.json")
    assert lead(states, page)["market"] == "noisy_count"


def test_unconfirmed_poll_is_read_again(
    town: Town, open_page: OpenPage, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that were read while Kafka did not confirm the topic are read again, and shown."""
    monkeypatch.setattr(topic_reader, "RETRY_SECONDS", 0.01)
    town.publish(FIRST)
    page = open_page(town)
    failed = fail_once(monkeypatch)
    town.publish(FIRST + 1, {"market": 12})
    eventually(failed.is_set)
    eventually(lambda: page.list_places()["market"]["state"] == "noisy_count")


def test_clock_that_catches_up(town: Town, open_page: OpenPage, eventually: Eventually) -> None:
    """An answer ahead of the clock is unknown until a slot before its as_of. The list does not expire meanwhile."""
    town.publish(FIRST)
    as_of = town.parts.parameters.grid.as_of(FIRST)
    town.clock.move_to(as_of - HOUR - 1)
    page = open_page(town)
    assert eventually(page.list_places)["clinic"]["reason"] == "clock_behind"
    assert b'class="served left-120' in page.read("index.html")
    town.clock.move_to(as_of - HOUR)
    eventually(lambda: page.list_places()["clinic"]["state"] == "safe")


def test_command_writes_and_serves(town: Town, tmp_path: Path, eventually: Eventually) -> None:
    """`location-monitor page` writes the folder, prints its address, and ends with 0 on SIGTERM. The files stay."""
    town.publish(FIRST)
    output, errors, out = tmp_path / "output", tmp_path / "errors", tmp_path / "out"
    argv = [str(CLI), "page", "--config", str(tmp_path / "demo.yaml"), "--out", str(out), "--serve", "localhost:0"]
    program = Program(argv, output, errors, os.environ | town.environment)
    try:
        eventually(lambda: output.exists() and output.read_text().count("\n") == 2, 30.0)
        written, served = output.read_text().splitlines()
        assert written == f"The page is in {out}"
        connection = http.client.HTTPConnection(urlsplit(served.rpartition(" ")[2]).netloc, timeout=60)
        with closing(connection):
            connection.request("GET", "/states.json")
            assert json.loads(connection.getresponse().read())["as_of"] == "2026-01-06T01:00:00Z"
        with pytest.raises(FailedError, match="another page writes already"), serve(town, out):
            pass
        program.terminate()
        assert program.wait(timeout=20) == 0
    finally:
        program.kill()
        program.wait()
    assert errors.read_text() == "SIGTERM: finishing the work in progress\n"
    assert (out / "states.json").exists()


def test_wrong_settings_are_explained(town: Town, tmp_path: Path, page: Served) -> None:
    """A used port, a missing topic, a wrong text and an unreadable map are refused with key and remedy."""
    with pytest.raises(FailedError, match=r"--serve is localhost:\d+"):
        FolderServer(tmp_path, "localhost", urlsplit(page.url).port or 0)
    for value in ("8080", ":80", "x:", "x:99999", "x:-1", "x:\u0663"):
        with pytest.raises(UsageError, match=r"--serve is .*: expected HOST:PORT"):
            read_address(None, None, value)  # type: ignore[arg-type]  # it does not use them
    assert read_address(None, None, "[::1]:80") == ("::1", 80)  # type: ignore[arg-type]  # as above
    cases: list[tuple[dict[str, Any], str]] = [
        ({"texts": {"en": {"safety": "x"}}}, r"page\.texts\.en\.safety"),
        ({"texts": {"de": {"safe_short": "{most}"}}}, r"\{threshold\}"),
        ({"texts": {"en": {"noisy_count_short": "{most:,} people"}}}, r"\{most\}"),
        ({"texts": {"en": {"noisy_count_short": "{most!r} people"}}}, r"\{most\}"),
        ({"texts": {"en": {"months": "Jan Feb"}}}, "twelve months"),
        ({"background": tmp_path / "none.geojson"}, r"page\.background"),
    ]
    for number, text in enumerate(("[" * 100_000, '{"area": ' + "9" * 5_000 + "}", '{"name": "\\ud800"}', "[]")):
        file = tmp_path / f"{number}.geojson"
        file.write_text(text, encoding="utf-8")
        cases.append(({"background": file}, rf"page\.background.*{number}\.geojson"))
    for settings, message in cases:
        with pytest.raises(ConfigError, match=message), serve(town, **settings):
            pass
    town.topic = "no-such-topic"
    with pytest.raises(TopicError, match=r"kafka\.topics\.alerts is 'no-such-topic'"), serve(town):
        pass


def test_recount_is_shown(town: Town, open_page: OpenPage, tmp_path: Path, eventually: Eventually) -> None:
    """The recount is on the page, with its date, for two days if its file can be read, and is left out otherwise."""
    town.publish(FIRST)
    file = tmp_path / "recount.json"
    page = open_page(town, audit_file=file)

    def shown() -> str:
        return page.read("en.html").decode().partition('<p id="audit">')[2].partition("</p>")[0]

    eventually(lambda: shown() == "")
    file.write_text('{"up_to": "2026-01-06T00:30:00+00:00", "false": 0, "epsilon_at_most": "1/2"}')
    line = "An independent program has recounted all answers up to 6 Jan 2026, 00:30: 0 false."
    eventually(lambda: shown() == line)
    for up_to in ('"14:00"', "1400", "null"):
        file.write_text(f'{{"up_to": {up_to}, "false": 0, "epsilon_at_most": "1/2"}}')
        eventually(lambda: shown() == "")
        file.write_text('{"up_to": "2026-01-06T00:30:00+00:00", "false": 0, "epsilon_at_most": "1/2"}')
        eventually(lambda: shown() == line)
    town.clock.move_to(town.clock.now() + 47 * HOUR)
    eventually(lambda: page.list_places()["clinic"]["reason"] == "too_old")
    assert shown() == line
    town.clock.move_to(town.clock.now() + 2 * HOUR)
    eventually(lambda: shown() == "")


def test_equal_answers_are_written_once() -> None:
    """Each different answer has the runs of rows that it is about; a place without an answer is in no run."""
    safe, alarm = Answer("safe", "below_threshold", 0, 1, 9), Answer("noisy_count", "noisy", 0, 1, 12)
    found = [(safe,), (safe,), (safe, alarm), (), (safe,), (alarm,)]
    written = list_states(Place(Location(id=str(row)), NOTHING, answers) for row, answers in enumerate(found))
    assert [(one["state"], one["rows"]) for one in written] == [("safe", [0, 2, 4, 4]), ("noisy_count", [2, 2, 5, 5])]


def test_places_may_differ_in_epsilon() -> None:
    """Alarms with equal numbers of places with another ε have their own p-value and strength."""
    alarm = Answer("noisy_count", "noisy", 0, 1, 12, p_value=0.1, strength="just_above")
    sure = replace(alarm, p_value=1e-9, strength="far_above")
    answers = (alarm, sure, replace(NOTHING, last_alarm=alarm), replace(NOTHING, last_alarm=sure))
    written = list_states(Place(Location(id=str(row)), NOTHING, (each,)) for row, each in enumerate(answers))
    found = [one.get("last_alarm", one).get("strength") for one in written]
    assert found == ["just_above", "far_above", "just_above", "far_above"]


@pytest.mark.parametrize("name", ["=1+1", "a;=1+1", 'a;"=1+1', "a\t@x", "a\r\n-1", "a, +1", " =1"])
def test_csv_has_no_formula(name: str) -> None:
    """No cell begins with a formula, also not in a spreadsheet that separates cells by semicolons or tabs."""
    place = Place(Location(id="x", name=name), NOTHING, ())
    row = next(csv.DictReader(io.StringIO(write_locations_csv(Snapshot(places=[place])).decode(), newline="")))
    for separator in (";", "\t", ",", "\n", "\r"):
        cells = [cell.strip().strip('"').strip() for cell in row["name"].split(separator)]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    assert row["name"].replace("'", "") == name
