"""`dead-letters` on a real Kafka: counts, filters and positions, and never a value."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from monitor.operate.dead_letters.command import to_json
from monitor.operate.dead_letters.read_letters import Letter, Summary, summarize
from monitor.records.visit_contract import Reason
from monitor.time.instants import HOUR, format_instant
from tests.operate.dead_letters.refused import PERSON, Refused, run


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
