"""`run --processes N` on real servers: the recount finds the same answers as for one process, in any fault."""

from __future__ import annotations

import os
import re
import signal
from typing import Final

import pytest

from monitor.tools.embedded import EmbeddedValkey
from tests.faults.conftest import MakeScene, Scene
from tests.faults.processes import COMMAND, Instance, until
from tests.shared_kafka import SharedKafka

STARTED: Final = re.compile(r"process (\d+) started: pid (\d+)")


@pytest.fixture
def scene(kafka: SharedKafka, store: EmbeddedValkey, make_scene: MakeScene) -> Scene:
    """A town on servers that no test breaks, with three input partitions and two output partitions."""
    return make_scene(kafka.bootstrap_servers, store.url)


def start(scene: Scene, processes: int) -> Instance:
    """Start the command that operators use."""
    town = scene.town
    log = town.folder / f"instance-{len(town.instances)}.log"
    town.instances.append(Instance(town.config, log, ("--processes", str(processes)), COMMAND))
    return town.instances[-1]


def read_pids(instance: Instance) -> dict[int, int]:
    """Return the latest process id of each process, by the log."""
    return {int(number): int(pid) for number, pid in STARTED.findall(instance.text)}


def find_deciders(instance: Instance) -> set[str]:
    """Return the processes that have decided a tick, by the metrics."""
    shown = re.findall(
        r'^location_monitor_last_tick_timestamp_seconds\{.*process="(\d+)".*\}', instance.page(), re.MULTILINE
    )
    return set(shown)


@pytest.mark.parametrize("processes", [1, 2])
def test_answers_do_not_depend_on_processes(scene: Scene, processes: int) -> None:
    """With one and with two processes every answer, fact and dead letter is the one that the recount finds."""
    instance = start(scene, processes)
    scene.subscriber.wait_complete(60)
    if processes > 1:
        until(lambda: find_deciders(instance) == {"1", "2"}, 60, "each process decides an output partition")
    verdict = scene.settle(instance)
    assert verdict.broken == []
    assert verdict.count("safe") > 0
    assert verdict.count("noisy_count") > 0


def test_killed_process_restarts(scene: Scene) -> None:
    """After kill -9 of one process the other answers for it, it is started again, and SIGTERM ends all with code 0.

    process 1  ├── answers ─────────────────────────────────┤ SIGTERM
    process 2  ├── answers ──┤ kill -9   ├── started again ──┤ SIGTERM
    """
    instance = start(scene, 2)
    scene.subscriber.wait_complete(60)
    before = until(lambda: found if len(found := read_pids(instance)) == 2 else {}, 20, "both have started")
    until(lambda: '"ok": true' in instance.page("/readyz"), 60, "both are ready")
    instance.keep_pages()
    os.kill(before[2], signal.SIGKILL)
    until(lambda: '"ok": false' in instance.page("/readyz"), 20, "the loss is reported")
    until(lambda: read_pids(instance)[2] != before[2], 20, "it has been started again")
    until(lambda: '"ok": true' in instance.page("/readyz"), 60, "both are ready again")
    restarts = 'location_monitor_process_restarts_total{process="2"} 1.0'
    assert restarts in instance.page()
    assert read_pids(instance)[1] == before[1]
    scene.subscriber.wait_complete(60)
    verdict = scene.settle(instance)
    assert verdict.broken == []
    for pid in read_pids(instance).values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_refusal_ends_all(scene: Scene) -> None:
    """A refused start ends all processes with exit code 3 and one message that names the remedy."""
    instance = start(scene, 2)
    scene.subscriber.wait_complete(60)
    assert instance.terminate() == 0
    tree = {**scene.town.tree, "privacy": {"epsilon": scene.town.tree["privacy"]["epsilon"], "period": "30s"}}
    tree["kafka"] = {**tree["kafka"], "topics": {**tree["kafka"]["topics"], "visits": "absent"}}
    scene.town.configure(tree)
    refused = start(scene, 2)
    assert refused.wait(60) == 3
    assert "topics --create" in refused.text
    assert "and a restart does not help" in refused.text
