"""Killed where something begins: `topics --create` at each of its steps, and a reader that has just found its place."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
import redis
from kafka import TopicPartition

from monitor.brokers.topics import list_topic_needs
from monitor.errors import EXIT_REFUSED, LedgerError
from monitor.failpoints import PLACES
from monitor.operate.preflight import read_ledger_state, run_preflight
from monitor.operate.setup import SetupResult
from monitor.public.clock import SystemClock
from monitor.release.ledger import Writer, read_partition
from monitor.service import redis_windows
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey
from tests.faults.conftest import MakeScene, Scene
from tests.faults.processes import until
from tests.faults.steps import RUN_PLACES
from tests.faults.town import Shape, Town

ROOT: Final = Path(__file__).parents[2]
# Those of `topics --create` itself, then those of the ledger that it passes too, each in the partition that is next.
IN_SETUP: Final = (
    *(place for place in PLACES if place not in RUN_PLACES),
    *(place for place in PLACES if place.startswith("ledger.")),
)


def killed_in_setup(town: Town, place: str, *options: str) -> None:
    """`topics --create` dies where it passes the place for the first time."""
    command = [sys.executable, "-m", "tests.faults.armed_setup", place, str(town.config), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2_000:]


def begun(town: Town) -> list[int]:
    """The ledger partitions that have a first record."""
    states = [
        read_ledger_state(town.settings.kafka, town.settings.parameters, town.topics.alerts, n)
        for n in range(town.shape.ledger_partitions)
    ]
    return [partition for partition, state in enumerate(states) if state.terms is not None]


@pytest.fixture
def town(kafka: EmbeddedKafka, store: EmbeddedValkey, tmp_path: Path) -> Town:
    """A town without topics yet."""
    return Town(
        tmp_path, f"town-{tmp_path.name}", (kafka.bootstrap_servers, store.url), Shape(inputs=2, ledger_partitions=4), 1
    )


def test_topics_create_is_killed_at_each_of_its_steps_and_running_it_again_finishes(town: Town) -> None:
    """Nothing is taken for lost, nothing has to be explained, and until it is done the service does not start.

    topics_made  begun  ledger.begun  ledger.sent  ledger.committed   again
    -            0      0             0 1          0 1 2              0 1 2 3
    """
    found = []
    for place in IN_SETUP:
        killed_in_setup(town, place)
        found.append(begun(town))
    assert found == [[], [0], [0], [0, 1], [0, 1, 2]]
    assert town.start().wait(40) == EXIT_REFUSED
    assert town.create() == SetupResult((), (3,), None)
    scene = Scene(town)
    try:
        instance = scene.start()
        scene.subscriber.wait_whole(60)
        verdict = scene.settle(instance)
    finally:
        scene.end()
    assert verdict.broken == []
    assert verdict.count("safe") > 0


def test_a_ledger_said_to_be_lost_is_lost_as_a_whole_however_often_topics_create_is_killed(town: Town) -> None:
    """What the first run was told stands in the records that it wrote."""
    killed_in_setup(town, "setup.begun", "--ledger-lost")
    killed_in_setup(town, "setup.begun")
    made = town.create()
    assert made.partitions == (2, 3)
    states = [
        read_ledger_state(town.settings.kafka, town.settings.parameters, town.topics.alerts, partition)
        for partition in range(4)
    ]
    assert {state.lost_at for state in states} == {made.lost_at} != {None}


def test_a_ledger_one_of_whose_partitions_was_used_is_no_interrupted_beginning(town: Town) -> None:
    """Where more than the first record is in one, another that is empty may have lost what it held."""
    killed_in_setup(town, "setup.begun")
    ledger = town.topics.alerts
    with town.admin() as admin:
        topic_id = str(admin.describe_topics([ledger])[0]["topic_id"])
    first = [record for _, record in read_partition(town.settings.kafka, ledger, 0)]
    with closing(Writer(town.settings.kafka, ledger, topic_id, 0)) as writer:
        writer.append(first)
    with pytest.raises(LedgerError, match=r"only some partitions are initialised.*--first-start.*--ledger-lost"):
        town.create()


@pytest.fixture
def scene(kafka: EmbeddedKafka, fragile_store: EmbeddedValkey, make_scene: MakeScene) -> Scene:
    """A service that has answered, and has stopped in order."""
    made: Scene = make_scene(kafka.bootstrap_servers, fragile_store.url)
    first = made.start()
    made.subscriber.wait_whole()
    assert first.terminate() == 0
    return made


def reached(scene: Scene) -> dict[int, int]:
    """By input partition, the lowest progress of all shards, where all have some."""
    town = scene.town
    wanted = list_topic_needs(town.settings.parameters, town.settings.config.kafka, simulated=False)
    found = run_preflight(town.settings.kafka, town.settings.parameters, wanted, town.topics.alerts)
    with closing(redis_windows(town.settings, found, SystemClock())) as windows:
        shards = windows.progress()
    common = set.intersection(*(set(shard) for shard in shards))
    return {partition: min(shard[partition] for shard in shards) for partition in common}


def delete_records(scene: Scene, before: dict[int, int]) -> None:
    """Cut the input's log off below these offsets, as age does, or somebody."""
    topic = scene.town.topics.visits
    with scene.town.admin() as admin:
        admin.delete_records({TopicPartition(topic, partition): offset for partition, offset in before.items()})


def offsets_of(scene: Scene, instant: int) -> dict[int, int]:
    """By input partition, the first offset stamped at an instant or later."""
    town = scene.town
    with closing(town.settings.kafka.consumer()) as consumer:
        asked = {TopicPartition(town.topics.visits, partition): instant // 1_000 for partition in range(3)}
        found = consumer.offsets_for_times(asked)
    return {place.partition: at.offset for place, at in found.items() if at is not None}


def flushed(scene: Scene) -> None:
    """Redis has nothing: the reader begins by the input's timestamps."""
    with closing(redis.Redis.from_url(scene.town.settings.config.redis.url.get_secret_value())) as client:
        client.flushall()


def lost(scene: Scene) -> None:
    """Visits were deleted before anyone read them: unknown until none of them can be in a window."""
    known = reached(scene)
    until(lambda: all(end > known[at] + 5 for at, end in ends(scene).items()), 40, "visits come in")
    delete_records(scene, ends(scene))


def expired(scene: Scene) -> None:
    """What was deleted unread is older than anyone asks about: the rest is read again, and nothing is lost."""
    known = reached(scene)
    until(
        lambda: all(old_enough(scene).get(at, 0) > offset + 3 for at, offset in known.items()), 90, "it is old enough"
    )
    delete_records(scene, old_enough(scene))


def ends(scene: Scene) -> dict[int, int]:
    return scene.town.ends(scene.town.topics.visits)


def old_enough(scene: Scene) -> dict[int, int]:
    """By input partition, what lies before the longest window and F slots, and a slot that passes meanwhile."""
    parameters = scene.town.settings.parameters
    return offsets_of(
        scene, parameters.grid.start(scene.town.now() - parameters.history_slots - parameters.max_lead - 2)
    )


# What the recount can no longer tell of records that were deleted.
UNTOLD: Final = (
    "and no visit tells",
    "a record that was acknowledged is not in the input topic",
    "is a dead letter, and should be none, or holds something else",
    "counts somebody who was not reported before as_of",
)


def unasked(text: str, bounds: dict[int, int]) -> bool:
    """Whether it is about a dead letter of a record that is not read any more: it lies below these offsets."""
    letter = re.match(r"Letter\(partition=(\d+), offset=(\d+),.* should be a dead letter, and is none", text)
    return letter is not None and int(letter[2]) < bounds.get(int(letter[1]), 0)


@pytest.mark.parametrize("before", [flushed, lost, pytest.param(expired, marks=pytest.mark.soak)])
def test_a_reader_dies_as_soon_as_it_has_noted_where_to_begin(before: Callable[[Scene], None], scene: Scene) -> None:
    """Nothing was read from there yet, in one partition of three; whoever comes next must not take it for whole.

    progress  ├── noted in one partition ── SIGKILL
    other                                     ├── unknown until its facts are whole ──
    """
    before(scene)
    noted = reached(scene)
    victim = scene.start("--at", "reader.assigned:1:kill")
    assert victim.wait(40) == -signal.SIGKILL, victim.text[-2_000:]
    changed = {partition for partition, offset in reached(scene).items() if noted.get(partition) != offset}
    assert len(changed) == 1
    assert ("lost before they were read" in victim.text) == (before is lost)
    other = scene.start()
    scene.subscriber.wait_whole(90)
    skipped = old_enough(scene) if before is expired else {}
    verdict = scene.settle(other)
    broken = [text for text in verdict.broken if not unasked(text, skipped)]
    assert [text for text in broken if before is flushed or not text.endswith(UNTOLD)] == []
    assert verdict.count("safe") > 0
