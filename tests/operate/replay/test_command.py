"""`location-monitor replay` as a separate process, on real servers."""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from monitor.operate.servers import EmbeddedValkey
from tests.kit.topics import read_header
from tests.kit.town import HOURS, Town, build_tree, over_time
from tests.shared_kafka import SharedKafka

HEADER = "person_id,location_id,arrived_at,left_at,reported_at"
LAST_TICK = 12  # the last visits are in slot 8 (cut or reported there), and the horizon is 4 slots


def hour(number: int, minute: int = 0) -> str:
    return f"2026-11-20T{number:02}:{minute:02}:00Z"


def visits() -> list[str]:
    """Valid lines over slots 0 to 8, and five invalid ones. Six people are at the inn in slot 3; T = 5."""
    draw = random.Random(7)
    valid = [f"p-{n},inn,{hour(3)},{hour(3, 20)}," for n in range(6)]
    for n in range(24):
        slot = draw.randrange(8)
        valid.append(f"q-{n},{draw.choice(['bath', 'mill', 'farm'])},{hour(slot)},{hour(slot, 30)},")
    valid.append(f"r,bath,{hour(7)},{hour(7, 30)},{hour(8, 10)}")
    invalid = [
        f"p,attic,{hour(2)},{hour(2, 5)},",
        f"p,inn,{hour(2)},{hour(1)},",
        f"p,inn,2026-11-20T02:00:00,{hour(3)},",
        f"a\tb,inn,{hour(2)},,",
        "no visit at all",
    ]
    return valid + invalid


class ReplayTown(Town):
    """A town whose visits are replayed from a file; ε is 40, so that noise hardly changes answers."""

    def __init__(self, folder: Path, name: str, kafka: str, store: str) -> None:
        morning = {"name": "morning", "kind": "at_times", "at": ["03:10"], "timezone": "UTC", "epsilon": "40"}
        monitors = [
            over_time("places", ["inn", "bath"], 5, "3h"),
            morning | {"threshold": 3, "reporting_horizon": "4h"},
        ]
        tree = build_tree(name, kafka, store, monitors, inputs=3, ledger_partitions=4, **HOURS)
        super().__init__(folder, tree, ["inn", "bath", "mill", "farm"])
        self.out = folder / "out.jsonl"

    def write_visits(self, lines: list[str], name: str = "visits.csv") -> Path:
        path = self.folder / name
        text = "\n".join([HEADER, *lines]) + "\n"
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    def replay(self, path: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return self.command("replay", str(path), "--alerts", str(self.out), *words, seconds=120)

    def written(self) -> list[dict[str, Any]]:
        """Return the records in the file of alerts."""
        return [json.loads(line) for line in self.out.read_text().splitlines()]

    def reasons(self) -> list[str]:
        """Return the reason of each dead letter."""
        return sorted(read_header(record, "reason") for record in self.records("dead_letters"))


@pytest.fixture
def make_town(
    kafka: SharedKafka, valkey: EmbeddedValkey, tmp_path: Path, topic: Callable[[str], str]
) -> Iterator[Callable[[], ReplayTown]]:
    def make() -> ReplayTown:
        name = topic("replay")
        return ReplayTown(tmp_path / name, name, kafka.bootstrap_servers, valkey.url)

    yield make
    with closing(redis.Redis.from_url(valkey.url)) as client:
        client.flushall()


def read_fates(text: str) -> dict[str, int]:
    """Return the visits by fate from the printed table."""
    rows = re.findall(r"(applied|not_watched|expired|dead_letter)\D+?([\d,]+)", text)
    return {fate: int(count.replace(",", "")) for fate, count in rows}


def select_answers(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the published answers by ce_id, without owner records."""
    answers = [record for record in records if "kind" in record["value"]]
    return {record["headers"]["ce_id"]: record["value"] for record in answers}


def test_every_tick_is_decided_in_order(
    make_town: Callable[[], ReplayTown],
) -> None:
    """A file, here gzipped and in any order of lines, passes through the service, and every tick is decided in order.

    tick   0 1 2 3 4 5 6 7 8 …        six people at the inn in slot 3, W = 3, F = 1
    inn    s s s n p p p s s …
    """
    town, lines = make_town(), visits()
    random.Random(3).shuffle(lines)
    ended = town.replay(town.write_visits([*lines, f"s,mill,{hour(3, 10)},{hour(3, 10)},"], "visits.csv.gz"))
    assert (ended.returncode, ended.stderr.count("Traceback")) == (0, 0), ended.stderr
    records = town.written()
    assert f"{len(records):,} records of {town.name}.alerts" in ended.stdout
    places = [record["value"] for record in records if record["value"].get("kind") == "over_time"]
    inn = [value["status"][0] for value in places if value["location_id"] == "inn"]
    assert "".join(inn) == "sssnppp" + "s" * (LAST_TICK - 6)
    assert [value["tick"] for value in places if value["location_id"] == "bath"] == list(range(LAST_TICK + 1))
    order = [(r["value"]["tick"], r["partition"], r["offset"]) for r in records if "tick" in r["value"]]
    assert order == sorted(order)
    assert {record["value"].get("kind", record["key"]) for record in records if "tick" in record["value"]} == {
        *("over_time", "at_times", "owner")  # an owner record names a tick that has no answers in its partition
    }
    assert {tuple(record) for record in records} == {("key", "headers", "value", "partition", "offset")}
    assert town.reasons() == sorted(["unknown_location", "left_before_arrived", "bad_time", "bad_id", "not_a_visit"])
    assert read_fates(ended.stdout)["dead_letter"] == 5
    assert sum(read_fates(ended.stdout).values()) == len(lines) + 1
    assert "warning: 1 visits have left_at equal to arrived_at" in ended.stdout
    assert "Publish only one replay of the same visits" in ended.stdout
    reasons = "bad_id 1, bad_time 1, left_before_arrived 1, not_a_visit 1, unknown_location 1"
    assert f"Refused lines by reason: {reasons}\n" in ended.stdout
    number = lines.index(f"p,attic,{hour(2)},{hour(2, 5)},") + 2
    assert f"\n  line {number}: unknown_location (location_id: expected" in ended.stdout


def test_bad_header_writes_nothing(make_town: Callable[[], ReplayTown]) -> None:
    """A file without a required column exits with 2, names the column, and keeps the file of alerts."""
    town = make_town()
    bad = town.folder / "bad.csv"
    bad.write_text("person,location_id,arrived_at\nolga,inn,2026-11-20T03:00:00Z\n")
    for earlier in (None, "earlier\n"):
        if earlier is not None:
            town.out.write_text(earlier)
        ended = town.replay(bad, "--embedded")
        assert ended.returncode == 2
        assert "none of the 3 columns in the header is named person_id: expected" in " ".join(ended.stderr.split())
        assert "olga" not in ended.stderr
        assert "Kafka" not in ended.stderr
        assert (town.out.read_text() if town.out.exists() else None) == earlier


def test_embedded_servers_until_a_time(make_town: Callable[[], ReplayTown]) -> None:
    """--embedded --until 04:59 replays up to tick 3, whose as_of is 04:00, and needs no key file.

    A file with the answers of an earlier replay is kept unless --again is given.
    """
    town = make_town()
    town.out.write_text("earlier\n")
    (town.folder / "person.key").unlink()
    del town.tree["visits"]["person_key_file"]
    words = town.write_visits(visits()), "--embedded", "--until", "2026-11-20T04:59:00Z"
    refused = town.replay(*words)
    assert refused.returncode == 2
    assert "the lowest of several noisy counts is close to the true count" in " ".join(refused.stderr.split())
    assert town.out.read_text() == "earlier\n"
    ended = town.replay(*words, "--again")
    assert ended.returncode == 0, ended.stderr
    answers = select_answers(town.written())
    assert {value["tick"] for value in answers.values()} == {0, 1, 2, 3}
    assert "Kafka runs at 127.0.0.1:" in ended.stderr
    assert answers["places/inn/3"]["status"] == "noisy_count"


def test_topics_with_records_are_refused(make_town: Callable[[], ReplayTown]) -> None:
    """Topics that contain records are refused; the message names --embedded."""
    town = make_town()
    path = town.write_visits(visits())
    assert town.replay(path, "--until", hour(2)).returncode == 0
    second = town.replay(path, "--until", hour(2), "--again")
    assert second.returncode == 3
    assert f"{town.name}.alerts" in second.stderr
    assert "--embedded" in second.stderr


def test_existing_redis_keys_are_refused(make_town: Callable[[], ReplayTown], valkey: EmbeddedValkey) -> None:
    """A Redis with keys of the service's name is refused."""
    town = make_town()
    with closing(redis.Redis.from_url(valkey.url)) as client:
        client.set(f"{{{town.name}:anything:0}}:meta", "there")
    ended = town.replay(town.write_visits(visits()))
    assert ended.returncode == 3
    assert f"a Redis without keys of service.name '{town.name}'" in ended.stderr


@pytest.mark.parametrize(
    ("lines", "words", "message"),
    [
        (visits(), ("--until", "noon"), "--until noon"),
        (visits(), ("--alerts", "/nowhere/out.jsonl"), "--alerts /nowhere/out.jsonl cannot be written"),
        (["no visit"], (), "none of its 1 lines is a valid visit"),
    ],
)
def test_invalid_arguments_exit_with_2(
    make_town: Callable[[], ReplayTown], lines: list[str], words: tuple[str, ...], message: str
) -> None:
    """Invalid arguments exit with code 2 and the reason."""
    town = make_town()
    ended = town.replay(town.write_visits(lines), *words)
    assert ended.returncode == 2
    assert message in " ".join(ended.stderr.split())


def test_unreachable_servers_exit_with_1(make_town: Callable[[], ReplayTown]) -> None:
    """Unreachable servers exit with code 1 and their address."""
    town = make_town()
    town.tree["kafka"]["bootstrap_servers"] = ["127.0.0.1:1"]
    ended = town.replay(town.write_visits(visits()))
    assert ended.returncode == 1
    assert "Kafka at 127.0.0.1:1 cannot be used" in ended.stderr


@pytest.mark.promise(1, 8)
def test_people_who_check_in_count(make_town: Callable[[], ReplayTown]) -> None:
    """A place where 25 people checked in ten minutes ago, without a departure, is not called safe at T = 5.

    02:50 [check-in, reported at once ─── accept_ahead ends at 02:52 ─── 03:00 designated time ─── 03:05) default stay
    """
    town = make_town()
    town.tree["clock"]["slot"] = "1m"
    town.tree["visits"] |= {"default_stay": "15m", "accept_ahead": "1m"}
    town.tree["monitors"] = [town.tree["monitors"][1] | {"at": ["03:00"], "threshold": 5, "reporting_horizon": "5m"}]
    done = town.replay(town.write_visits([f"p-{n},inn,{hour(2, 50)},,{hour(2, 50)}" for n in range(25)]))
    assert done.returncode == 0, done.stdout + done.stderr
    assert read_fates(done.stdout)["applied"] == 25
    answers = [record["value"] for record in town.written() if record["value"].get("time") == hour(3)]
    assert {value["status"] for value in answers} == {"complete"}
    counts = [value["noisy_counts"] for value in answers if "inn" in value["noisy_counts"]]
    assert counts
    assert all(noisy["inn"]["noisy_count"] >= 25 for noisy in counts)
