"""The interface of the page: answers, caching, the stream, and clients that misbehave. On a real Kafka."""

from __future__ import annotations

import csv
import gzip
import http.client
import io
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Self, get_args
from urllib.parse import urlsplit

import jsonschema  # type: ignore[import-untyped]  # it ships no type information
import pytest

from monitor.client.current_answers import Reason, State
from monitor.errors import ConfigError, FailedError, TopicError
from monitor.page import reader
from monitor.page.current_places import UNREACHABLE
from monitor.page.protocol import LimitedProtocol
from monitor.page.server import Page
from monitor.time.instants import HOUR
from tests.conftest import Eventually
from tests.kit.programs import Program
from tests.kit.topics import create_topic
from tests.page.conftest import OpenPage, fail_once, serve
from tests.page.world import FIRST, Town, make_town
from tests.shared_kafka import SharedKafka

CLI = Path(__file__).parents[2] / "monitor" / "cli.py"
NOON = 36
"""The first tick after the first 12:30 that is published."""


class Answer:
    """A response: its status, headers (names in lower case) and body."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def get(page: Page, path: str, method: str = "GET", **headers: str) -> Answer:
    """Request a path. `_` in the names of headers stands for `-`."""
    connection = http.client.HTTPConnection(urlsplit(page.url).netloc, timeout=10)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        return Answer(connection.getresponse())
    finally:
        connection.close()


class Stream:
    """A subscriber of the stream. `next` returns the name and the data of the next event that is not a beat."""

    def __init__(self, page: Page | str, query: str = "", **headers: str) -> None:
        url = page if isinstance(page, str) else page.url
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
        self._connection.request("GET", f"/v1/stream{query and '?'}{query}", headers=headers)
        self.response = self._connection.getresponse()
        self.id = ""

    def events(self) -> Iterator[tuple[str, Any]]:
        """Yield events until the end of the stream, with beats."""
        event: dict[str, str] = {}
        while line := self.response.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                event[name] = value
            elif "event" in event:
                self.id = event.get("id", self.id)
                yield event["event"], json.loads(event["data"])
                event = {}

    def next(self) -> tuple[str, Any]:
        return next((name, data) for name, data in self.events() if name != "beat")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.response.close()
        self._connection.close()


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
def page(shared: Town) -> Iterator[Page]:
    """The page of this town."""
    with serve(shared, subscribers=40) as page:
        yield page


def by_id(page: Page) -> Mapping[str, Any]:
    return {place["id"]: place for place in get(page, "/v1/locations").json["locations"]}


def test_json_has_every_place(page: Page, shared: Town) -> None:
    """The JSON has every place of the registry in its order, each with its state and the reason."""
    places = by_id(page)
    assert list(places) == list(shared.parts.parameters.registry.ids)
    expected = {"market": "paused", "school-1": "unknown", "library": "noisy_count", "bus-library": "safe"}
    assert {place: places[place]["state"] for place in expected} == expected
    assert places["library"]["count_at_most"] == 12
    assert places["school-1"]["reason"] == "input_incomplete"
    assert [answer["threshold"] for answer in places["market"]["answers"]] == [10, 9]
    assert "latitude" not in places["bus-library"]
    alarms = {place: each["last_alarm"]["count_at_most"] for place, each in places.items() if "last_alarm" in each}
    assert alarms == {"market": 14, "library": 12}
    assert get(page, "/v1/locations").json["last_alarms"] == 2


def test_other_formats_agree(page: Page) -> None:
    """CSV and GeoJSON have the same places and states as the JSON; a place without coordinates has no geometry."""
    states = {name: place["state"] for name, place in by_id(page).items()}
    rows = list(csv.DictReader(io.StringIO(get(page, "/v1/locations.csv").body.decode(), newline="")))
    assert {row["location_id"]: row["state"] for row in rows} == states
    alarms = {row["location_id"]: row["last_alarm_at_most"] for row in rows if row["last_alarm_as_of"]}
    assert alarms == {"market": "14", "library": "12"}
    strengths = {row["location_id"]: row["last_alarm_strength"] for row in rows if row["last_alarm_p_value"]}
    assert strengths == {
        name: place["last_alarm"]["strength"] for name, place in by_id(page).items() if "last_alarm" in place
    }
    features = get(page, "/v1/locations.geojson").json["features"]
    assert {feature["id"]: feature["properties"]["state"] for feature in features} == states
    assert [feature["id"] for feature in features if feature["geometry"] is None] == ["bus-library"]


def test_answers_follow_the_document(page: Page) -> None:
    """The answers have the schemas of the OpenAPI document."""
    document = get(page, "/v1/openapi.json").json
    schemas = document["components"]["schemas"]
    assert set(schemas["State"]["enum"]) == set(get_args(State))
    assert schemas["Reason"]["enum"] == [*get_args(Reason), UNREACHABLE]
    for path, name in (
        ("/v1/locations", "Locations"),
        ("/v1/locations/market/history", "History"),
        ("/v1/records", "Records"),
        ("/v1/states", "States"),
        ("/v1/states?at=2026-01-06T06:00:00Z", "States"),
        ("/v1/ticks", "Ticks"),
    ):
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        jsonschema.validate(get(page, path).json, schema, jsonschema.Draft202012Validator)


def test_unchanged_answer_is_not_sent(page: Page) -> None:
    """A request with the ETag of the present answer gets 304 without a body; the compressed form has its own ETag."""
    plain = get(page, "/v1/locations")
    zipped = get(page, "/v1/locations", Accept_Encoding="gzip")
    assert gzip.decompress(zipped.body) == plain.body
    assert zipped.headers["etag"] != plain.headers["etag"]
    again = get(page, "/v1/locations", If_None_Match=plain.headers["etag"])
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    ("accepted", "zipped"),
    [
        ("gzip", True),
        ("deflate, GZIP ; q=0.5", True),
        ("x-gzip", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("gzipped", False),
        ("gzip;q=much", False),
        ("*;q=0", False),
        ("", False),
    ],
)
def test_compression_is_accepted(page: Page, accepted: str, zipped: bool) -> None:
    """An answer is compressed only if the client accepts gzip with a weight above 0."""
    assert (get(page, "/v1/locations", Accept_Encoding=accepted).headers.get("content-encoding") == "gzip") == zipped


def test_headers_suit_a_cdn(page: Page) -> None:
    """Answers may be kept for seconds and read by any page; files forever; the stream never."""
    answer = get(page, "/v1/locations")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cache-control"] == "public, max-age=5, must-revalidate, stale-if-error=0"
    assert answer.headers["vary"] == "Accept-Encoding"
    assert get(page, "/v1/locations", method="OPTIONS").status == 204
    start = get(page, "/")
    assert "Accept-Language" in start.headers["vary"]
    assert "default-src 'self'" in start.headers["content-security-policy"]
    assert "unsafe" not in start.headers["content-security-policy"]
    assert "set-cookie" not in start.headers
    script = start.body.decode().partition('src="')[2].partition('"')[0]
    assert "immutable" in get(page, f"/{script}").headers["cache-control"]
    with Stream(page) as stream:
        assert stream.response.getheader("Cache-Control") == "no-store"


def test_history_joins_equal_answers(page: Page) -> None:
    """The history of a place has one period for each answer that stayed the same."""
    history = get(page, "/v1/locations/market/history").json["history"]
    over_time = [period for period in history if period["kind"] == "over_time"]
    assert [period["state"] for period in over_time] == ["paused", "noisy_count", "safe"]
    assert over_time[2] | {"since": "2026-01-06T01:00:00Z", "until": "2026-01-06T06:00:00Z"} == over_time[2]


def list_answers(states: dict[str, Any], page: Page) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each place with each answer about it in a response or an event with states."""
    registry = get(page, "/v1/registry").json
    assert states["registry"] == registry["digest"]
    for answer in states["answers"]:
        runs = answer["rows"]
        for first, last in zip(runs[::2], runs[1::2], strict=True):
            yield from ((place, answer) for place in registry["ids"][first : last + 1])


def lead(states: dict[str, Any], page: Page) -> dict[str, str]:
    """Return the most cautious state of each place that has an answer."""
    order, found = ("safe", "unknown", "paused", "noisy_count"), dict[str, str]()
    for place, answer in list_answers(states, page):
        found[place] = max(found.get(place, "safe"), answer["state"], key=order.index)
    return found


def test_states_agree_with_places(page: Page) -> None:
    """The states, by request and by stream, give each place the state that it has in the JSON of all places."""
    expected = {name: place["state"] for name, place in by_id(page).items()}
    assert lead(get(page, "/v1/states").json, page) == expected
    with Stream(page, "states=1") as stream:
        name, states = stream.next()
    assert (name, lead(states, page)) == ("states", expected)
    past = lead(get(page, "/v1/states?at=2026-01-06T06:00:00Z").json, page)
    assert (past["market"], past["school-1"]) == ("safe", "safe")


def test_alarm_stays_in_sight(page: Page) -> None:
    """Each state from an alarm on has the alarm, and each tick counts its place; only one tick drew it."""
    #     tick  24 … 29   30      31 … 36  37       38, 39
    #           safe      market  paused   library  repeated
    ticks = get(page, "/v1/ticks").json["ticks"]
    assert len(ticks) == 16
    assert [index + FIRST for index, tick in enumerate(ticks) if tick["alarms"]] == [30, NOON + 1]
    for tick, one in enumerate(ticks, FIRST):
        expected = {place for place, first in (("market", 30), ("library", NOON + 1)) if tick >= first}
        states = get(page, f"/v1/states?at={one['as_of']}").json
        assert {place for place, answer in list_answers(states, page) if "last_alarm" in answer} == expected
        assert one["places"] == len(expected)


def test_invalid_requests_are_refused(page: Page) -> None:
    """An unknown parameter, an invalid value, another method, a path outside, a huge head and no place are refused."""
    refused = {
        "/v1/locations?q=market": 400,
        "/v1/records?at=yesterday": 400,
        "/?page=0": 400,
        "/?page=2": 400,
        "/?lang=en&lang=de": 400,
        "/static/../../../etc/passwd": 404,
        "/static/x/%2e%2e%2fserver.py": 404,
        "/v1/locations/nowhere/history": 404,
        "/v1/locations/" + "x" * 5_000 + "/history": 404,
    }
    assert {path: get(page, path).status for path in refused} == refused
    position = get(page, "/v1/records").json["position"]
    with Stream(page, f"after={position}&q=market", **{"Last-Event-ID": position}) as stream:
        assert stream.response.status == 400
    assert get(page, "/v1/locations", method="POST").status == 405
    assert get(page, "/v1/locations", Cookie="x" * 100_000).status == 400  # a head above 16 KiB
    assert get(page, "/v1/locations").status == 200


def test_html_has_every_place(page: Page, shared: Town) -> None:
    """The HTML names every place, in each language, with its state in words, and escapes what it shows."""
    for language, word in (("en", "Silent"), ("de", "Still"), ("ja", "休止中")):
        text = get(page, f"/?lang={language}").body.decode()
        assert all((place.name or place.id).replace("'", "&#39;") in text for place in shared.parts.locations)
        assert f'<html lang="{language}">' in text
        assert word in text
    assert '<html lang="de">' in get(page, "/", Accept_Language="de-CH,de;q=0.9,en;q=0.8").body.decode()


def test_beat_names_the_settings(page: Page, shared: Town) -> None:
    """Each beat has the registry's digest and the length of a slot, so that a client sees when they change."""
    expected = {"registry": shared.parts.parameters.registry.digest, "slot_seconds": 3600}
    with Stream(page) as stream:
        name, beat = next(stream.events())
    assert name == "beat"
    assert expected.items() <= beat.items()
    registry = get(page, "/v1/registry")
    assert (registry.json["digest"], registry.json["slot_seconds"]) == tuple(expected.values())
    assert registry.headers["cache-control"].startswith("public, max-age=5")


def test_stream_resumes_by_offsets(town: Town, open_page: OpenPage) -> None:
    """A subscriber that reconnects with the last id gets what it missed; from an unknown position it is reset."""
    town.publish(FIRST)
    page = open_page(town)
    with Stream(page, f"after={get(page, '/v1/records').json['position']}") as stream:
        town.publish(FIRST + 1)
        name, records = stream.next()
        assert name == "records"
        assert {record["value"]["tick"] for record in records} == {FIRST + 1}
    town.publish(FIRST + 2, {"market": 12})
    with Stream(page, **{"Last-Event-ID": stream.id}) as resumed:
        missed = (record["value"] for name, data in resumed.events() if name == "records" for record in data)
        alarm = next(value for value in missed if value.get("status") == "noisy_count")
        assert (alarm["location_id"], alarm["tick"]) == ("market", FIRST + 2)
    topic_id = stream.id.partition("/")[0]
    for position in (f"{topic_id}/0:999999", "other/0:1", "0:1", "nonsense"):
        with Stream(page, f"after={position}") as lost:
            assert lost.next() == ("reset", {})


@pytest.mark.parametrize(("more", "fails"), [(0, False), (1, True)], ids=["known at once", "known later"])
def test_recreated_topic_is_read_whole(
    town: Town, open_page: OpenPage, eventually: Eventually, monkeypatch: pytest.MonkeyPatch, more: int, fails: bool
) -> None:
    """If the topic is created again, the page reads it from its beginning, also below the offsets read before.

    A subscriber of the earlier topic is reset, also when the new one already has its offset.
    """
    monkeypatch.setattr(reader, "ASK_SECONDS", 0.2)
    monkeypatch.setattr(reader, "RETRY_SECONDS", 0.2)
    town.publish(FIRST)
    page = open_page(town)
    old = get(page, "/v1/records").json["position"]
    if fails:
        fail_once(monkeypatch, lambda subscriber: subscriber.topic_id != old.partition("/")[0])
    with closing(town.parts.kafka.create_admin()) as admin:
        admin.delete_topics([town.topic])
        eventually(lambda: town.topic not in admin.list_topics())
    create_topic(town.parts.kafka, town.topic)
    for tick in range(FIRST + 1, FIRST + 2 + more):
        town.publish(tick, {"market": 12})
    eventually(lambda: "noisy_count" in json.dumps(get(page, "/v1/locations/market/history").json), 30)
    with Stream(page, f"after={old}") as lost:
        assert lost.next() == ("reset", {})


def test_too_many_subscribers_are_refused(town: Town, open_page: OpenPage) -> None:
    """Above the limit a subscriber gets 503 and Retry-After, and the answers stay available."""
    town.publish(FIRST)
    page = open_page(town, subscribers=1)
    with Stream(page) as first:
        assert next(first.events())[0] == "beat"
        refused = get(page, "/v1/stream")
        assert (refused.status, refused.headers["retry-after"]) == (503, "10")
        assert get(page, "/v1/locations").status == 200


def test_slow_request_is_cut(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends its request byte by byte is disconnected."""
    monkeypatch.setattr(LimitedProtocol, "request_seconds", 0.3)
    address = urlsplit(page.url)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=5) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        began = time.monotonic()
        with pytest.raises(OSError):  # noqa: PT011, PT012  # reset or broken pipe, depending on the moment
            while time.monotonic() - began < 5:
                client.sendall(b"x")
                if client.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) == b"":
                    raise ConnectionResetError
    assert get(page, "/v1/locations").status == 200


def test_clock_that_catches_up(town: Town, open_page: OpenPage) -> None:
    """An answer ahead of the clock is unknown until a slot before its as_of. The list does not expire meanwhile."""
    town.publish(FIRST)
    as_of = town.parts.parameters.grid.as_of(FIRST)
    town.clock.move_to(as_of - HOUR - 1)
    page = open_page(town)
    assert by_id(page)["clinic"]["reason"] == "clock_behind"
    assert 'class="served left-120' in get(page, "/").body.decode()
    town.clock.move_to(as_of - HOUR)
    assert by_id(page)["clinic"]["state"] == "safe"


def test_command_serves_until_sigterm(town: Town, tmp_path: Path, eventually: Eventually) -> None:
    """`location-monitor page` prints its address. On SIGTERM it ends the open streams and exits with 0."""
    town.publish(FIRST)
    output, errors = tmp_path / "output", tmp_path / "errors"
    argv = [str(CLI), "page", "--config", str(tmp_path / "demo.yaml")]
    program = Program(argv, output, errors, os.environ | town.environment)
    try:
        printed = eventually(lambda: output.exists() and output.read_text().endswith("\n"), 30.0)
        assert printed
        url = output.read_text().removeprefix("The page is at ").strip()
        with Stream(url) as stream:
            assert next(stream.events())[0] == "beat"
            program.terminate()
            assert all(name == "beat" for name, _data in stream.events())
        assert program.wait(timeout=20) == 0
    finally:
        program.kill()
        program.wait()
    assert errors.read_text() == "SIGTERM: finishing the work in progress\n"


def test_wrong_settings_are_explained(town: Town, tmp_path: Path, page: Page) -> None:
    """A used port, a missing topic, a wrong text and an unreadable map are refused with key and remedy."""
    with pytest.raises(FailedError, match=r"page\.port"):
        serve(town, port=urlsplit(page.url).port).__enter__()
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
        with pytest.raises(ConfigError, match=message):
            serve(town, **settings)
    town.topic = "no-such-topic"
    with pytest.raises(TopicError, match=r"kafka\.topics\.alerts is 'no-such-topic'"):
        serve(town).__enter__()


def test_recount_is_shown(town: Town, open_page: OpenPage, tmp_path: Path) -> None:
    """The recount is on the page, with its date, for two days if its file can be read, and is left out otherwise."""
    town.publish(FIRST)
    file = tmp_path / "recount.json"
    page = open_page(town, audit_file=file)

    def shown() -> str:
        return get(page, "/?lang=en").body.decode().partition('<p id="audit">')[2].partition("</p>")[0]

    assert shown() == ""
    for up_to in ('"14:00"', "1400", "null"):
        file.write_text(f'{{"up_to": {up_to}, "false": 0, "epsilon_at_most": "1/2"}}')
        assert shown() == ""
    file.write_text('{"up_to": "2026-01-06T00:30:00+00:00", "false": 0, "epsilon_at_most": "1/2"}')
    line = (
        "Recounted independently up to 6 Jan 2026, 00:30 UTC: 0 false. ε for each person: 3 stated, 3 in the worst "
        "case of this configuration, 1/2 charged so far at most."
    )
    assert shown() == line
    town.clock.move_to(town.clock.now() + 47 * HOUR)
    assert shown() == line
    town.clock.move_to(town.clock.now() + 2 * HOUR)
    assert shown() == ""
