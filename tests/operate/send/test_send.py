"""`send` on a real Kafka: what the service would refuse or not count is listed, the rest is sent, also in two parts."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from monitor.cli import main
from monitor.errors import SendError, UnreachableError
from monitor.kafka.topics import create_topics, list_topic_needs
from monitor.operate.send.judge import PORTION_VISITS, Judged, judge_visits
from monitor.operate.send.send_file import Target, send_visits
from monitor.operate.send.visits_file import read_visits
from monitor.operate.servers import EmbeddedKafka
from monitor.time.clock import SystemClock
from monitor.time.instants import HOUR, SECOND, format_instant
from tests.kit.town import HOURS, Town, build_tree, over_time
from tests.shared_kafka import SharedKafka


@pytest.fixture
def town(kafka: SharedKafka, topic: Callable[[str], str], tmp_path: Path) -> Town:
    """A town with its three topics, which are empty. It watches the inn, and not the bath."""
    return make_town(kafka.bootstrap_servers, topic("town"), tmp_path)


def make_town(address: str, name: str, folder: Path) -> Town:
    """Return a town with its topics on a broker. Its visits have two partitions."""
    sections = HOURS | {"visits": HOURS["visits"] | {"accept_ahead": "1h"}}
    tree = build_tree(
        name, address, "redis://localhost:1", [over_time("places", ["inn"], 5, "3h", 80)], inputs=2, **sections
    )
    town = Town(folder, tree, ["inn", "bath"])
    settings = town.apply()
    create_topics(settings.kafka, list_topic_needs(settings.parameters, settings.config.kafka), 1)
    return town


HEADER: Final = "person_id,location_id,arrived_at,left_at"
PERSON: Final = "planted-person-7"


def hours_ago(hours: float) -> str:
    """Return a time before now."""
    return format_instant(SystemClock().now() // SECOND * SECOND - int(hours * HOUR))


def write(folder: Path, lines: Sequence[str], name: str = "visits.csv") -> Path:
    """Write a file of visits."""
    path = folder / name
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def run(town: Town, path: Path, *words: str, code: int = 0) -> str:
    """Run `send`, check its exit code and that it names nobody, and return its output."""
    result = CliRunner().invoke(main, ["send", str(path), "--config", str(town.config), *words])
    assert result.exit_code == code, result.output
    assert PERSON not in result.output
    return result.output


def sent(town: Town) -> list[Any]:
    """Return the visits in the input topic by person."""
    visits = [visit for record in town.records("visits") for visit in json.loads(record.value)["visits"]]
    return sorted(visits, key=lambda visit: str(visit["person_id"]))


def test_file_is_sent(town: Town, tmp_path: Path) -> None:
    """The visits of a CSV file are in Kafka as they are, and the command says from which tick they count."""
    arrived, left = hours_ago(1), hours_ago(0.5)
    path = write(tmp_path, [f"{HEADER},reported_at", f"{PERSON},inn,{arrived},{left},{left}", f"b,inn,{arrived},,"])
    dry = run(town, path, "--dry-run")
    assert sent(town) == []
    assert f"2 of 2 visits would be sent to {town.topic('visits')}. Sent now, they count from the tick at" in dry
    output = run(town, path)
    assert sent(town) == [
        {"person_id": "b", "location_id": "inn", "arrived_at": arrived},
        {"person_id": PERSON, "location_id": "inn", "arrived_at": arrived, "left_at": left},
    ]
    assert "2 of 2 visits were sent" in output
    assert "so they count from the tick at" in output


@pytest.mark.parametrize("name", ["visits.jsonl", "visits.jsonl.gz"])
def test_json_lines_are_sent(town: Town, tmp_path: Path, name: str) -> None:
    """A line of JSON is a visit or a batch of visits, also in a gzipped file; empty lines are nothing."""
    first, second, third = ({"person_id": each, "location_id": "inn", "arrived_at": hours_ago(1)} for each in "abc")
    path = write(tmp_path, ["", json.dumps(first), json.dumps({"visits": [second, third], "batch_id": "x"})], name)
    assert "3 of 3 visits were sent" in run(town, path)
    assert sent(town) == [first, second, third]


@pytest.mark.promise(22)
def test_bad_lines_are_listed(town: Town, tmp_path: Path) -> None:
    """Visits that would be refused or counted by nothing are listed with line and reason; the others are sent."""
    arrived = hours_ago(1)
    path = write(
        tmp_path,
        [
            HEADER,
            f"{PERSON},inn,{arrived},",
            f"{PERSON},nowhere,{arrived},",
            f"{PERSON},inn,{arrived.removesuffix('Z')},",  # without an offset
            f"{PERSON},inn,2099-01-01T00:00:00Z,",
            f"{PERSON},bath,{arrived},",
            f"{PERSON},inn,{hours_ago(9)},",
            f"{PERSON},inn,{arrived},{hours_ago(2)}",
            f",inn,{arrived},",
            f"{PERSON}",
        ],
    )
    dry = run(town, path, "--dry-run", code=1)
    assert sent(town) == []
    output = run(town, path, code=1)
    for problem in (
        "1 not sent (unknown_location), lines 3: location_id: expected an id of the registry",
        "1 not sent (bad_time), lines 4: arrived_at: expected",
        "1 not sent (too_far_ahead), lines 5: arrived_at: expected a time at most accept_ahead",
        "1 not sent (not_watched), lines 6: no monitor of this configuration watches its place and time",
        "1 not sent (expired), lines 7: too late",
        "1 not sent (left_before_arrived), lines 8: left_at",
        "1 not sent (bad_id), lines 9: person_id",
        "1 not sent (not_a_visit), lines 10: location_id: expected this key",
        "Correct the refused lines and send the file again",
    ):
        assert problem in dry
        assert problem in output
    assert "1 of 9 visits were sent" in output
    assert [visit["arrived_at"] for visit in sent(town)] == [arrived]


def test_nested_batch_is_refused(town: Town, tmp_path: Path) -> None:
    """What the service would refuse inside a batch is refused, although it could be read alone."""
    visit = {"person_id": PERSON, "location_id": "inn", "arrived_at": hours_ago(1)}
    path = write(tmp_path, [json.dumps({"visits": [{"visits": [visit]}]})], "visits.jsonl")
    assert "1 not sent (not_a_visit), lines 1: person_id" in run(town, path, code=1)
    assert sent(town) == []


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["who,where,when"], "none of the 3 columns in the header is named person_id, location_id, arrived_at"),
        (["person_id;location_id;arrived_at"], "the separator of the columns is a semicolon"),
        ([HEADER, f'"{PERSON},inn,2026-01-01T00:00:00Z,'], "the quote that opens a cell in line 2 is never closed"),
        ([], "the header is missing"),
    ],
    ids=["columns", "separator", "quote", "empty"],
)
def test_unreadable_file_is_refused(town: Town, tmp_path: Path, lines: list[str], words: str) -> None:
    """A file that is not a table of visits is refused with exit code 2, and names what is wrong."""
    assert words in run(town, write(tmp_path, lines), code=2)
    assert sent(town) == []


@pytest.mark.parametrize("ids", [("4.4E+17", "a"), ("123456789012345000", "223456789012345000"), ("unknown", "b")])
def test_rounded_ids_send_nothing(town: Town, tmp_path: Path, ids: tuple[str, str]) -> None:
    """If several people seem to have one id, nothing is sent, unless the operator says that the ids are right."""
    path = write(tmp_path, [HEADER, *(f"{person},inn,{hours_ago(1)}," for person in ids)])
    output = run(town, path, code=1)
    assert "warning: " in output
    assert "line 2" in output
    assert "Nothing is sent: if several people have one id" in output
    assert sent(town) == []
    assert "2 of 2 visits were sent" in run(town, path, "--despite-warnings")
    assert [visit["person_id"] for visit in sent(town)] == sorted(ids)


def test_resume_sends_the_rest(town: Town, tmp_path: Path) -> None:
    """`--resume` sends the visits from a line on, and refuses a line after the last visit."""
    path = write(tmp_path, [HEADER, *(f"{person},inn,{hours_ago(1)}," for person in "abc")])
    assert "2 of 2 visits were sent" in run(town, path, "--resume", "3")
    assert [visit["person_id"] for visit in sent(town)] == ["b", "c"]
    assert "--resume 5: " in run(town, path, "--resume", "5", code=2)


def test_missing_topic_is_refused(town: Town, tmp_path: Path) -> None:
    """Without the input topic nothing is sent, with exit code 3; the file can still be checked."""
    path = write(tmp_path, [HEADER, f"{PERSON},inn,{hours_ago(1)},"])
    town.tree["kafka"]["topics"]["visits"] = f"{town.name}.nowhere"
    town.write()
    assert f"kafka.topics.visits is '{town.name}.nowhere': there is no such topic" in run(town, path, code=3)
    assert "1 of 1 visits would be sent" in run(town, path, "--dry-run")


def test_pipe_is_refused(town: Town) -> None:
    """A file that cannot be read twice is refused with exit code 2."""
    assert "/dev/null is no regular file" in run(town, Path("/dev/null"), code=2)


VISITS: Final = 2 * PORTION_VISITS + 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of three portions. Each visit is one of another person."""
    arrived = format_instant(SystemClock().now() // SECOND * SECOND - HOUR)
    lines = ["person_id,location_id,arrived_at", *(f"p{number},inn,{arrived}" for number in range(VISITS))]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def judge(town: Town, path: Path) -> Iterator[Judged]:
    return judge_visits(town.settings.parameters, read_visits(path), SystemClock().now())


def resume(town: Town, path: Path, message: str) -> None:
    """Send the rest of a file as a message says."""
    line = re.search(rf"`location-monitor send {path} --resume (\d+)`", message)
    assert line is not None, message
    words = ["send", str(path), "--config", str(town.config), "--resume", line[1]]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output


def people(town: Town) -> list[str]:
    """Return the people in the input topic, each as often as sent."""
    return [visit["person_id"] for record in town.records("visits") for visit in json.loads(record.value)["visits"]]


def test_signal_stops_between_portions(town: Town, path: Path) -> None:
    """After a signal, the message names the first line that Kafka lacks, and nothing is sent twice."""
    stop = threading.Event()
    portions = send_visits(
        Target(town.settings.kafka, town.topic("visits"), path), judge(town, path), SystemClock(), stop
    )
    assert next(portions)[:2] == (PORTION_VISITS, PORTION_VISITS + 1)
    stop.set()
    with pytest.raises(SendError, match=f"Kafka has the 10,000 visits before line {PORTION_VISITS + 2},") as stopped:
        next(portions)
    resume(town, path, str(stopped.value))
    assert sorted(people(town)) == sorted(f"p{number}" for number in range(VISITS))


@pytest.mark.servers
def test_broker_dies_in_the_middle(topic: Callable[[str], str], path: Path, tmp_path: Path) -> None:
    """If the broker dies, the message names the first line that Kafka may lack; then every visit is there."""
    with EmbeddedKafka() as server:
        town = make_town(server.bootstrap_servers, topic("town"), tmp_path)
        target = Target(town.settings.kafka, town.topic("visits"), path)
        portions = send_visits(target, judge(town, path), SystemClock(), threading.Event())
        next(portions)
        server.kill()
        with pytest.raises(UnreachableError, match=r"cannot be used: .*Kafka has the 10,000 visits before") as failed:
            next(portions)
        server.restart()
        resume(town, path, str(failed.value))
        assert set(people(town)) == {f"p{number}" for number in range(VISITS)}
