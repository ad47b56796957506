"""The order of the tests in a parallel run (`make test`): the longest first, and computing ones in one process.

Most tests wait for servers most of the time, and have deadlines. Others compute all the time. Two processes of
pytest-xdist take the computing tests, so that they can fill two processors. They run with a lower priority, and use the
processors only while the other processes wait. On an overloaded machine, tests with deadlines fail. So one process has
the highest priority, and takes the tests that may miss no tick. It also starts the shared Kafka.

Each process takes the next part of its kind, the longest first. So no process has a long part left when the others have
ended. When no part of its kind is left, it takes the other kind. The seconds below are only weights.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import Any, Final

import pytest

_SECONDS: Final = {
    "tests/faults/test_walk.py": 250,
    "tests/security/test_access.py": 90,
    "tests/faults/test_redis.py": 150,
    "tests/faults/test_failpoints.py": 130,
    "tests/faults/test_beginnings.py": 130,
    "tests/bench/test_lines.py": 150,
    "tests/faults/test_kafka.py": 115,
    "tests/service/test_lost_ticks_walk.py": 95,
    "tests/faults/test_connections.py": 90,
    "tests/faults/test_redis_many.py": 80,
    "tests/faults/test_brokers.py": 76,
    "tests/faults/test_changes.py": 60,  # for each test
    "tests/service/test_run.py": 50,
    "tests/faults/test_rolling.py": 50,  # for each test: they are distributed one by one
    "tests/faults/test_topics.py": 50,  # for each test
    "tests/mutants/test_mutants.py": 60,
    "tests/faults/test_batches.py": 44,
    "tests/tools/page/test_browser.py": 45,
    "tests/faults/test_clocks.py": 40,  # for each test
    "tests/service/test_outages.py": 40,  # for each test
    "tests/faults/test_late_reports.py": 40,
    "tests/deploy/test_image.py": 60,
    "tests/commands/test_replay.py": 40,
    "tests/service/test_missed_slots.py": 35,  # for each test
    "tests/service/test_service.py": 35,
    "tests/deploy/test_container.py": 35,
    "tests/ticks/test_replicated.py": 35,
    "tests/service/test_check_live.py": 35,
    "tests/service/test_topic_changes.py": 32,
    "tests/ticks/test_period_check.py": 30,
    "tests/experiments/test_command.py": 30,
    "tests/deploy/alerts/test_runbooks.py": 55,
    "tests/privacy_service/test_service_loss.py": 25,
    "tests/tools/check/test_accepted.py": 25,
    "tests/docs/test_site.py": 25,
    "tests/docs/test_tutorial.py": 25,
    "tests/statistics/test_pipeline.py": 40,
    "tests/faults/test_lost_ticks.py": 160,
    "tests/privacy_service/test_cells.py": 20,
    "tests/statistics/test_replay.py": 25,
    "tests/tools/servers/test_kafka.py": 25,
    "tests/tools/demo/test_demo.py": 25,
    "tests/privacy_service/test_interleavings.py": 40,
    "tests/ticks/test_loss.py": 40,
    "tests/store/test_contract.py": 65,
    "tests/ingest/test_start_offsets.py": 26,
    "tests/tools/audit/test_follow.py": 26,
    "tests/ingest/test_reader.py": 23,
    "tests/ingest/test_bad_records.py": 22,
    "tests/tools/audit/test_topics.py": 21,
    "tests/ticks/test_takeover.py": 20,
    "tests/service/startup/test_preflight.py": 19,
    "tests/simulators/test_library.py": 19,
    "tests/simulators/test_synthetic.py": 20,
    "tests/service/test_unexpected_errors.py": 18,
    "tests/docs/test_access.py": 17,
    "tests/contracts/test_schedule.py": 15,
    "tests/privacy/test_noise.py": 15,
    "tests/tools/page/test_http.py": 15,
    "tests/fuzz/test_records.py": 16,
    "tests/privacy_service/test_changes.py": 15,
    "tests/service/startup/test_setup.py": 28,
}
"""Files that take long. The others take a few seconds."""

_COMPUTING: Final = (
    "tests/architecture/",
    "tests/config/",
    "tests/contracts/",
    "tests/deploy/",
    "tests/docs/",
    "tests/experiments/",
    "tests/mutants/",
    "tests/tools/onesided/",
    "tests/tools/plan/",
    "tests/privacy/",
    "tests/privacy_service/",
    "tests/contracts/",
    "tests/simulators/",
    "tests/statistics/",
)
"""Folders of which nearly all tests compute."""

_APART: Final = frozenset(
    {
        "tests/faults/test_changes.py",
        "tests/faults/test_clocks.py",
        "tests/faults/test_rolling.py",
        "tests/faults/test_topics.py",
        "tests/faults/test_walk.py",
        "tests/service/test_missed_slots.py",
        "tests/service/test_outages.py",
    }
)
"""Files of which each test is a part. Their tests share no expensive fixture."""

_PROMPT: Final = ("tests/faults/test_rolling.py", "tests/faults/test_changes.py")
"""Files whose tests fail if their service is late for a tick. They use the shared Kafka."""

_PROMPT_PROCESS: Final = "gw1"
_NICENESS: Final = {"gw0": 8, _PROMPT_PROCESS: 0, "gw7": 12}
"""How far the priority of a process is lowered. Those with the lowest priorities compute."""
_NICENESS_OF_OTHERS: Final = 3
_COMPUTING_FROM: Final = 5


def part_of(nodeid: str) -> str:
    """Return the name of a test's part: its file, or the test itself."""
    file = nodeid.partition("::")[0]
    return nodeid if file in _APART else file


def seconds_of(part: str) -> int:
    """Return the weight of a part."""
    return _SECONDS.get(part.partition("::")[0], 1)


def next_part(parts: Iterable[str], process: str) -> str:
    """Return the part that a process takes: the first of its kind, or else of another kind."""
    if _NICENESS.get(process, _NICENESS_OF_OTHERS) >= _COMPUTING_FROM:
        order = ("computing", "other", "prompt")
    elif process == _PROMPT_PROCESS:
        order = ("prompt", "other", "computing")
    else:
        order = ("other", "computing", "prompt")
    return min(parts, key=lambda part: order.index(_find_kind(part)))


def _find_kind(part: str) -> str:
    if part.startswith(_PROMPT):
        return "prompt"
    return "computing" if part.startswith(_COMPUTING) else "other"


@pytest.fixture(scope="session")
def starts_shared_servers() -> bool:
    """Whether this process should start the servers that all processes share, because it has the highest priority."""
    return os.environ.get("PYTEST_XDIST_WORKER", _PROMPT_PROCESS) == _PROMPT_PROCESS


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute parts of files to the processes."""
    scheduling = importlib.import_module("xdist.scheduler").LoadScopeScheduling(config, log)
    assign = scheduling._assign_work_unit

    def assign_part(node: Any) -> None:
        scheduling.workqueue.move_to_end(next_part(scheduling.workqueue, node.gateway.id), last=False)
        assign(node)

    scheduling._split_scope = part_of
    scheduling._assign_work_unit = assign_part
    return scheduling


def pytest_configure(config: pytest.Config) -> None:
    """Lower the priority of a process of a parallel run."""
    if hasattr(config, "workerinput"):
        os.nice(_NICENESS.get(config.workerinput["workerid"], _NICENESS_OF_OTHERS))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests of a parallel run by the weight of their parts, the largest first."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: -seconds_of(part_of(item.nodeid)))
