"""The order of the tests in a parallel run (`make test`): the longest files first, waiting ones next to computing ones.

With pytest-xdist each process takes the next file of the collection, so the order of the collection is the order of the
start. The longest files start first, so that no process has a long file left when the others have ended. Files that
mostly wait for servers and files that mostly compute alternate in proportion, so that the processor is used evenly: a
machine that is overloaded for some minutes makes tests with deadlines fail.

The seconds below are only weights. Files that are not listed are short.
"""

from __future__ import annotations

import importlib
import zlib
from typing import Any, Final

import pytest

_WAITING: Final = {
    "tests/faults/test_walk.py": 250,
    "tests/faults/test_topics.py": 200,
    "tests/security/test_access.py": 200,
    "tests/faults/test_changes.py": 170,
    "tests/faults/test_clocks.py": 150,
    "tests/faults/test_redis.py": 150,
    "tests/faults/test_failpoints.py": 130,
    "tests/faults/test_beginnings.py": 130,
    "tests/service/test_missed_slots.py": 120,
    "tests/service/test_outages.py": 115,
    "tests/faults/test_kafka.py": 115,
    "tests/service/test_lost_ticks_walk.py": 95,
    "tests/faults/test_connections.py": 90,
    "tests/faults/test_redis_many.py": 80,
    "tests/faults/test_brokers.py": 76,
    "tests/service/test_run.py": 75,
    "tests/service/test_service.py": 53,
    "tests/faults/test_rolling.py": 50,  # for each test: they are distributed one by one
    "tests/faults/test_batches.py": 44,
    "tests/check/test_accepted.py": 40,
    "tests/faults/test_late_reports.py": 40,
    "tests/release/test_replicated.py": 35,
    "tests/service/test_topic_changes.py": 32,
    "tests/release/test_period_check.py": 30,
}
_COMPUTING: Final = {
    "tests/privacy_service/test_service_loss.py": 60,
    "tests/mutants/test_mutants.py": 35,  # for each part
    "tests/privacy_service/test_interleavings.py": 40,
    "tests/deploy/test_container.py": 35,
    "tests/experiments/test_command.py": 30,
    "tests/privacy_service/test_changes.py": 30,
    "tests/ingest/test_decode.py": 25,
    "tests/statistics/test_pipeline.py": 25,
    "tests/statistics/test_replay.py": 25,
    "tests/simulators/test_town.py": 20,
}

# Files whose tests share nothing that is expensive, and the number of parts that processes take one by one.
_PARTS: Final = {
    "tests/faults/test_rolling.py": 0,  # one part for each test
    "tests/faults/test_walk.py": 0,
    "tests/service/test_outages.py": 0,
    "tests/service/test_missed_slots.py": 0,
    "tests/mutants/test_mutants.py": 3,
}


def part_of(nodeid: str) -> str:
    """Return the name of the part to which a test belongs: its file, or a part of the file."""
    file = nodeid.partition("::")[0]
    parts = _PARTS.get(file)
    if parts is None:
        return file
    return nodeid if parts == 0 else f"{file} {zlib.crc32(nodeid.encode()) % parts}"


def order_parts(parts: list[str]) -> list[str]:
    """Return the parts, the longest first, with waiting and computing ones in proportion."""

    def seconds(part: str) -> int:
        file = part.partition("::")[0].partition(" ")[0]
        return _WAITING.get(file) or _COMPUTING.get(file) or 1

    def computes(part: str) -> bool:
        return part.partition("::")[0].partition(" ")[0] in _COMPUTING

    longest = sorted(parts, key=lambda part: -seconds(part))
    queues = [[part for part in longest if computes(part) == kind] for kind in (False, True)]
    totals = [sum(map(seconds, queue)) or 1 for queue in queues]
    taken, ordered = [0, 0], []
    while any(queues):
        # The queue of which the smaller fraction has been taken is next.
        kind = min((number for number in (0, 1) if queues[number]), key=lambda number: taken[number] / totals[number])
        part = queues[kind].pop(0)
        taken[kind] += seconds(part)
        ordered.append(part)
    return ordered


def order_items(items: list[pytest.Item]) -> None:
    """Sort the tests by their parts; within a part their order stays."""
    parts = {
        part: number for number, part in enumerate(order_parts([*dict.fromkeys(part_of(i.nodeid) for i in items)]))
    }
    items.sort(key=lambda item: parts[part_of(item.nodeid)])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute parts of files to the processes."""
    scheduling = importlib.import_module("xdist.scheduler").LoadScopeScheduling(config, log)
    scheduling._split_scope = part_of
    return scheduling


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests of a parallel run."""
    if hasattr(config, "workerinput"):
        order_items(items)
