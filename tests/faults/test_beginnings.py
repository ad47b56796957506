"""Kills at a beginning: of `topics --create` at each of its steps, and of a reader that has just found its offset."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path
from typing import Final
from unittest.mock import ANY

import pytest
import redis

from monitor.errors import EXIT_REFUSED, LedgerError
from monitor.kafka.groups import list_groups
from monitor.ledger.append_to_ledger import Writer
from monitor.ledger.read_ledger import read_partition
from monitor.observe.failpoints import FAILPOINTS
from monitor.operate.servers import EmbeddedValkey
from monitor.service.create_topics import SetupResult
from monitor.service.preflight import read_ledger
from tests.faults.conftest import MakeTown
from tests.faults.oracles import settle
from tests.faults.steps import RUN_FAILPOINTS
from tests.faults.town import ARMED, FaultTown, Shape
from tests.kit.programs import run_program
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

# The failpoints of `topics --create`, then those of the ledger that it passes too, each in the next partition. At
# "ledger.queued" the first record may have been sent or not.
IN_SETUP: Final = (
    *(name for name in FAILPOINTS if name not in RUN_FAILPOINTS),
    *(name for name in FAILPOINTS if name.startswith("ledger.") and name != "ledger.queued"),
)


def kill_setup_at(town: FaultTown, failpoint: str, *options: str) -> None:
    """Kill `topics --create` where it passes the failpoint for the first time."""
    ended = run_program([ARMED, "--setup", failpoint, str(town.config), *options], town.folder, 60)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-2_000:]


def find_begun_partitions(town: FaultTown) -> list[int]:
    """Return the ledger partitions that have a first record."""
    ledger, partitions = town.topics.alerts, town.shape.ledger_partitions
    states = read_ledger(town.settings.kafka, town.settings.parameters, ledger, partitions).states
    return [partition for partition, state in enumerate(states) if state.terms is not None]


@pytest.fixture
def town(kafka: SharedKafka, store: EmbeddedValkey, tmp_path: Path) -> FaultTown:
    """A town that has no topics yet."""
    return FaultTown(
        tmp_path, f"town-{tmp_path.name}", (kafka.bootstrap_servers, store.url), Shape(inputs=2, ledger_partitions=4), 1
    )


def test_topics_create_completes_after_kills(town: FaultTown) -> None:
    """After kills at each step, `topics --create` completes without options, and the service refuses to start before.

    topics_made  begun  ledger.begun  ledger.sent  ledger.committed   again
    -            0      0             0 1          0 1 2              0 1 2 3
    """
    states = []
    for name in IN_SETUP:
        kill_setup_at(town, name)
        states.append(find_begun_partitions(town))
    assert states == [[], [0], [0], [0, 1], [0, 1, 2]]
    assert town.start().wait(40) == EXIT_REFUSED
    assert town.create() == SetupResult((), (3,), None, ANY)


@pytest.mark.promise(32)
def test_ledger_is_lost_in_all_partitions(town: FaultTown) -> None:
    """A ledger declared lost is lost in all partitions, even if a later run has no such option."""
    kill_setup_at(town, "setup.begun", "--ledger-lost")
    kill_setup_at(town, "setup.begun")
    made = town.create()
    assert made.partitions == (2, 3)
    states = read_ledger(town.settings.kafka, town.settings.parameters, town.topics.alerts, 4).states
    assert {state.lost_at for state in states} == {made.lost_at} != {None}


@pytest.mark.promise(32)
def test_partly_used_ledger_is_refused(town: FaultTown) -> None:
    """If one ledger partition is in use and another is empty, `topics --create` refuses, since records may be lost."""
    kill_setup_at(town, "setup.begun")
    ledger = town.topics.alerts
    with town.admin() as admin:
        topic_id = str(admin.describe_topics([ledger])[0]["topic_id"])
    first = [record for _, record in read_partition(town.settings.kafka, ledger, 0)]
    with closing(Writer(town.settings.kafka, ledger, topic_id, 0)) as writer:
        writer.append(first)
    with pytest.raises(LedgerError, match=r"only some partitions are initialised.*--first-start.*--ledger-lost"):
        town.create()


@pytest.fixture
def stopped_town(kafka: SharedKafka, fragile_store: EmbeddedValkey, make_town: MakeTown) -> FaultTown:
    """A service that has answered and then stopped in order."""
    town: FaultTown = make_town(kafka.bootstrap_servers, fragile_store.url)
    first = town.start()
    town.subscriber.wait_complete()
    assert first.terminate() == 0
    return town


def read_lowest_progress(town: FaultTown) -> dict[int, int]:
    """Return the lowest progress of all shards by input partition, for partitions known to all shards."""
    with closing(town.open_store()) as windows:
        shards = windows.read_progress()
    common = set.intersection(*(set(shard) for shard in shards))
    return {partition: min(shard[partition] for shard in shards) for partition in common}


@pytest.mark.promise(28)
def test_reader_is_killed_before_first_read(stopped_town: FaultTown) -> None:
    """After a kill between storing the first offset and reading, the next reader does not take the facts as complete.

    Redis has been flushed, so that the reader begins by the input's timestamps.

    progress  ├── stored in one partition of three ── SIGKILL
    other                                              ├── unknown until its facts are complete ──
    """
    with closing(redis.Redis.from_url(stopped_town.settings.config.redis.url.get_secret_value())) as client:
        client.flushall()
    victim = stopped_town.start("--at", "reader.assigned:1:kill")
    assert victim.wait(40) == -signal.SIGKILL, victim.text[-2_000:]
    assert len(read_lowest_progress(stopped_town)) == 1
    other = stopped_town.start()
    stopped_town.subscriber.wait_complete(90)
    verdict = settle(stopped_town, other)
    assert verdict.broken == []
    assert verdict.count("safe") > 0


@pytest.mark.promise(26)
def test_group_offsets_expire(stopped_town: FaultTown) -> None:
    """After brokers have deleted the groups' offsets, and Redis its facts, each visit still has exactly one fate.

    input   b g b g b │ g b g b g b g b │ g b …      b: refused
    run     ├─────────┤  longer than a  ├────── the ledger shows that it was there before
                          window
    """
    town = stopped_town
    parameters, since = town.settings.parameters, town.now()
    until(lambda: town.now() > since + parameters.history_slots + parameters.max_lead + 1, 60, "a window passes")
    with town.admin() as admin:
        admin.delete_groups(list_groups(town.settings.kafka, town.name))
    with closing(redis.Redis.from_url(town.settings.config.redis.url.get_secret_value())) as client:
        client.flushall()
    instance = town.start()
    town.subscriber.wait_complete(90)
    assert settle(town, instance).broken == []
