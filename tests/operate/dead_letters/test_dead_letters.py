"""`dead-letters` on a real Kafka: counts and positions without values, and an export that is corrected and sent."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from click.testing import CliRunner

from monitor.cli import main
from monitor.kafka.topics import create_topics, list_topic_needs
from monitor.ledger.read_ledger import read_partition
from monitor.operate.dead_letters.read_letters import Letter, Summary, summarize
from monitor.operate.dead_letters.render import to_json
from monitor.records.dead_letter_record import Origin, encode_visit, make_dead_letter
from monitor.records.visit_contract import Fault, Reason
from monitor.service.wiring import Settings
from monitor.time.clock import SystemClock
from monitor.time.instants import HOUR, MILLISECOND, SECOND, format_instant
from tests.kit.town import HOURS, Town, build_tree, over_time
from tests.shared_kafka import SharedKafka

PERSON: Final = "planted-person-7"
LIMIT: Final = 65_536


@dataclass
class Refused:
    """A town, and the dead letters that `put` writes."""

    settings: Settings
    config: Path
    now: int
    _offset: int = field(default=0)

    def visit(self, location: str = "inn", hours_ago: float = 1, **changes: Any) -> dict[str, Any]:
        """Return a visit of the planted person."""
        arrived = format_instant(self.now - int(hours_ago * HOUR))
        return {"person_id": PERSON, "location_id": location, "arrived_at": arrived, **changes}

    def put(self, reason: Reason, value: object, at: int | None = None, count: int | None = None) -> None:
        """Write a dead letter of a visit (an object) or of a record (bytes), stamped at an instant."""
        index = None if isinstance(value, bytes) else 3
        payload = value if isinstance(value, bytes) else encode_visit(value)
        origin = Origin(self.settings.config.kafka.topics.visits, 0, self._offset)
        self._offset += 1
        letter = make_dead_letter(Fault(reason, "location_id: expected another"), payload, origin, index, LIMIT, count)
        self.write(letter.value, letter.headers, at)

    def write(self, value: bytes, headers: list[tuple[str, bytes]], at: int | None = None) -> None:
        """Append a record to the topic of dead letters."""
        topic = self.settings.config.kafka.topics.dead_letters
        stamp = (self.now if at is None else at) // MILLISECOND
        with closing(self.settings.kafka.create_producer()) as producer:
            producer.send(topic, value=value, headers=headers, timestamp_ms=stamp).get(timeout=10)

    def sent(self) -> list[Any]:
        """Return the records of the input topic."""
        records = read_partition(self.settings.kafka, self.settings.config.kafka.topics.visits, 0)
        return [json.loads(record.value) for _offset, record in records]


def run(refused: Refused, *words: str | Path, code: int = 0) -> str:
    """Run `dead-letters`, check its exit code and that no output names the planted person.

    Return the output without the lines of the progress, which have a rate.
    """
    result = CliRunner().invoke(main, ["dead-letters", "--config", str(refused.config), *map(str, words)])
    assert result.exit_code == code, result.output
    assert PERSON not in result.output
    lines = result.output.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("Reading ", "Sending ")))


@pytest.fixture
def refused(kafka: SharedKafka, topic: Callable[[str], str], tmp_path: Path) -> Refused:
    """A town with its three topics, which are empty."""
    monitors = [over_time("places", ["inn"], 5, "3h", epsilon=80)]
    visits = HOURS["visits"] | {"accept_ahead": "1h"}
    servers = kafka.bootstrap_servers, "redis://localhost:1"
    tree = build_tree(topic("town"), *servers, monitors, **HOURS | {"visits": visits})
    town = Town(tmp_path, tree, ["inn", "bath"])
    settings = town.apply()
    create_topics(settings.kafka, list_topic_needs(settings.parameters, settings.config.kafka), 1)
    return Refused(settings, town.config, SystemClock().now() // SECOND * SECOND)


@pytest.fixture
def three(refused: Refused) -> Refused:
    """A town with three dead letters: an unknown location five hours ago, a record three hours ago, a location now."""
    refused.put(Reason.UNKNOWN_LOCATION, refused.visit("nowhere"), refused.now - 5 * HOUR)
    refused.put(Reason.NOT_JSON, f"{{{PERSON}".encode(), refused.now - 3 * HOUR)
    refused.put(Reason.UNKNOWN_LOCATION, refused.visit("nowhere"))
    return refused


def as_json(refused: Refused, *words: str) -> dict[str, Any]:
    """Return the JSON output."""
    parsed: dict[str, Any] = json.loads(run(refused, "--json", *words))
    return parsed


@pytest.mark.promise(22)
def test_reasons_and_positions_are_shown(three: Refused) -> None:
    """The text has the number, the first and last time of each reason, and the position and origin of each letter."""
    topics = three.settings.config.kafka.topics
    lines = run(three).splitlines()
    assert lines[0] == f"{topics.dead_letters}: 3 dead letters"
    counts = next(line.split() for line in lines if line.strip().startswith("unknown_location"))
    assert counts == ["unknown_location", "2", "2", format_instant(three.now - 5 * HOUR), format_instant(three.now)]
    place = f"{format_instant(three.now)} {topics.dead_letters}-0@2 from {topics.visits}-0@2 visit 3"
    assert lines[-1].strip() == f"{place}: unknown_location: location_id: expected another"


def test_json_has_the_same(three: Refused) -> None:
    """--json has the counts by reason and the latest dead letters, oldest first."""
    tree = as_json(three, "--latest", "2")
    assert tree["reasons"]["not_json"] == {
        "dead_letters": 1,
        "refused": 1,
        "first": format_instant(three.now - 3 * HOUR),
        "last": format_instant(three.now - 3 * HOUR),
    }
    assert [letter["offset"] for letter in tree["latest"]] == [1, 2]
    assert tree["latest"][0]["origin"] == {
        "topic": three.settings.config.kafka.topics.visits,
        "partition": 0,
        "offset": 1,
        "index": None,
    }


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        (("--reason", "not_json"), [1]),
        (("--since", "4h"), [1, 2]),
        (("--since", "4h", "--reason", "unknown_location"), [2]),
        (("--reason", "bad_id"), []),
        (("--since", ""), [2]),
    ],
)
def test_filters_select(three: Refused, words: tuple[str, ...], offsets: list[int]) -> None:
    """--reason and --since, a duration or a time, select dead letters."""
    at = format_instant(three.now - HOUR)
    assert [letter["offset"] for letter in as_json(three, *(word or at for word in words))["latest"]] == offsets


def test_records_of_others_are_counted(refused: Refused) -> None:
    """A record without the headers of a dead letter is counted apart, and several refusals count by their number."""
    refused.write(PERSON.encode(), [("reason", b"because")])
    refused.put(Reason.OTHERS_REFUSED, b'{"visits": []}', count=120)
    tree = as_json(refused)
    assert tree["foreign"]["dead_letters"] == 1
    assert tree["reasons"]["others_refused"]["refused"] == 120
    assert "1 records are not dead letters of this service" in run(refused)
    assert "--since yesterday: expected a duration such as 2h" in run(refused, "--since", "yesterday", code=2)


def test_missing_topic_is_refused(refused: Refused) -> None:
    """Without the topic, the command says what to do, with exit code 3."""
    name = refused.settings.config.kafka.topics.dead_letters
    refused.config.write_text(refused.config.read_text().replace(name, "nowhere.dead"))
    output = run(refused, code=3)
    assert "kafka.topics.dead_letters is 'nowhere.dead': there is no such topic" in output


def test_latest_are_latest_of_all_partitions() -> None:
    """The latest dead letters are those with the highest timestamps, although partitions are read one after another.

    partition 0   1  4  6        read first
    partition 1   2  3  5
    """
    letters = [Letter(0, at, at, None, b"") for at in (1, 4, 6)] + [Letter(1, at, at, None, b"") for at in (2, 3, 5)]
    assert [letter.at for letter in summarize("dead", letters, 3).latest] == [4, 5, 6]
    assert summarize("dead", letters, 0).latest == ()


def test_json_has_no_control_characters() -> None:
    """The JSON output escapes C1 control characters, which could otherwise control a terminal."""
    headers = SimpleNamespace(reason=Reason.NOT_JSON, error="\x9b31m", count="1", model_fields_set=(), topic="visits")
    headers.partition, headers.offset, headers.index = "0", "0", "-"
    letter = SimpleNamespace(partition=0, offset=0, at=0, headers=headers)
    count = SimpleNamespace(letters=0, refused=0)
    summary = SimpleNamespace(topic="refused", reasons={}, foreign=count, latest=[letter])
    text = to_json(cast("Summary", summary))
    assert text.isascii()
    assert json.loads(text)["latest"][0]["error"] == "\x9b31m"


def write_lines(path: Path, *lines: object) -> Path:
    """Write one JSON text per line."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.promise(22)
def test_corrected_visits_are_sent(refused: Refused, tmp_path: Path) -> None:
    """
    An exported dead letter is corrected and sent, and the command prints from when on the visit counts.

    The location "in" is corrected to "inn". The record has the visit only, without the notes of the export.
    """
    refused.put(Reason.UNKNOWN_LOCATION, refused.visit("in"))
    file = tmp_path / "letters.jsonl"
    assert "1 dead letters in" in run(refused, "--export", file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    line = json.loads(file.read_text())
    assert line["dead_letter"]["reason"] == "unknown_location"
    line["visits"][0]["location_id"] = "inn"
    output = run(refused, "--resend", write_lines(file, line))
    assert refused.sent() == [{"visits": [refused.visit("inn")]}]
    assert "1 of 1 visits were sent" in output
    assert "so they count from the tick at" in output
    assert "Earlier answers are not revised." in output


def test_uncorrected_visits_are_not_sent(refused: Refused, tmp_path: Path) -> None:
    """Visits that would be refused again are not sent, the others are; equal reasons are one line with all numbers."""
    file = write_lines(
        tmp_path / "letters.jsonl",
        {"visits": [refused.visit("inn"), refused.visit("in")]},
        {"visits": [refused.visit("inn", hours_ago=-3)]},
        {"visits": [refused.visit("inn", left_at="soon")]},
        {"dead_letter": {}, "value": PERSON, "visits": []},
        [PERSON],
        *[refused.visit("in")] * 33,
    )
    output = run(refused, "--resend", file, "--dry-run", code=1)
    assert refused.sent() == []
    assert run(refused, "--resend", file, code=1).startswith(output.partition("Correct")[0])
    assert refused.sent() == [{"visits": [refused.visit("inn")]}]
    for problem in (
        "34 not sent (unknown_location), lines 1, 6, 7, 8, 9, 10,",
        "23, 24 and 14 more: location_id",
        "1 not sent (too_far_ahead), lines 2: arrived_at",
        "1 not sent (bad_time), lines 3: left_at",
        "1 not sent (not_a_visit), lines 4: visits: expected at least one visit",
        "1 not sent (not_a_visit), lines 5: value",
        "Correct the refused lines",
        "1 of 39 visits would be sent",
    ):
        assert problem in output
    assert len(output.splitlines()) == 7  # five causes, what to do, and the amount


@pytest.mark.promise(24)
def test_late_visits_stay_too_late(refused: Refused, tmp_path: Path) -> None:
    """A visit that no window contains any more, or that nobody watches, is not sent but named; the exit code is 1."""
    file = write_lines(
        tmp_path / "letters.jsonl", refused.visit("inn", hours_ago=9), refused.visit("bath"), refused.visit("inn")
    )
    output = run(refused, "--resend", file, code=1)
    assert "1 of 3 visits were sent" in output
    assert "1 not sent (expired), lines 1: too late: no window or horizon" in output
    assert "1 not sent (not_watched), lines 2: no monitor of this configuration watches its place and time" in output
    assert refused.sent() == [{"visits": [refused.visit("inn")]}]


@pytest.mark.parametrize(
    ("value", "visits"),
    [(b"\xff{", []), (b'{"visits": [{"person_id": "p"}]}', [{"person_id": "p"}])],
    ids=["undecodable", "whole record"],
)
def test_whole_records_are_exported(refused: Refused, tmp_path: Path, value: bytes, visits: list[Any]) -> None:
    """A whole record is exported with its visits, or with its text if it has none that can be read."""
    refused.put(Reason.NOT_JSON, value)
    refused.write(PERSON.encode(), [])
    file = tmp_path / "letters.jsonl"
    run(refused, "--export", file)
    (line,) = map(json.loads, file.read_text().splitlines())
    assert line["visits"] == visits
    assert line.get("value") == (None if visits else "\\xff{")


def test_framed_record_is_sent_as_plain_json(refused: Refused, tmp_path: Path) -> None:
    """The visits of a refused record with a framing are exported, and sent without the framing."""
    refused.put(Reason.NOT_JSON, b"\0\0\0\0\7" + json.dumps(refused.visit()).encode())
    file = tmp_path / "letters.jsonl"
    run(refused, "--export", file)
    run(refused, "--resend", file)
    assert refused.sent() == [{"visits": [refused.visit()]}]


def test_export_overwrites_no_file(refused: Refused, tmp_path: Path) -> None:
    """An existing file is never overwritten; options that exclude each other are refused."""
    file = write_lines(tmp_path / "letters.jsonl", {})
    assert "the file exists" in run(refused, "--export", file, code=2)
    assert "exclude each other" in run(refused, "--export", file, "--resend", file, code=2)
    assert "requires --resend" in run(refused, "--dry-run", code=2)
