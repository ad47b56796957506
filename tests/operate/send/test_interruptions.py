"""A file that is sent in part: the message says how far, and the rest follows with `--resume`."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from monitor.cli import main
from monitor.errors import SendError, UnreachableError
from monitor.operate.send.judge import PORTION_VISITS, Judged, judge_visits
from monitor.operate.send.send_file import Target, send_visits
from monitor.operate.send.visits_file import read_visits
from monitor.operate.servers import EmbeddedKafka
from monitor.time.clock import SystemClock
from monitor.time.instants import HOUR, SECOND, format_instant
from tests.kit.town import Town
from tests.operate.send.conftest import make_town

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
