"""Reports within a release delay, on real servers, count at the next tick and not at this one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from monitor.contracts.instants import MILLISECOND
from monitor.tools.audit.terms import read_terms
from monitor.tools.audit.visits import decode
from monitor.tools.servers import EmbeddedValkey
from tests.faults.conftest import MakeScene, Scene
from tests.faults.exact import find_inexact, recount
from tests.faults.town import LATE, FaultTown, Shape
from tests.kit.topics import read_topic
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

REPORTS = 8


def find_late_ticks(scene: Scene) -> list[tuple[str, int, int]]:
    """Return, for each late report, its place, the slot of its stamp, and the milliseconds into this slot."""
    town = scene.town
    terms = read_terms(town.config)
    reports = []
    for record in read_topic(town.servers, town.topics.visits, "read_committed"):
        for visit in decode(record.value, record.timestamp * MILLISECOND, terms):
            if not isinstance(visit, int) and visit.location in LATE:
                stamp = terms.grid.find_slot(visit.reported)
                offset = record.timestamp - terms.grid.start(stamp) // MILLISECOND
                reports.append((visit.location, stamp, offset))
    return reports


@pytest.mark.promise(27)
def test_late_report_counts_at_next_tick(kafka: SharedKafka, store: EmbeddedValkey, make_scene: MakeScene) -> None:
    """
    A report stamped after as_of and before the release of a tick is not in the count of that tick.

    One person was at a place with T = 1. At ε = 32, a draw is above zero with a probability of e^-32.

        slot        t         | t+1                 | t+2
        visit          x      |
        report                |  x   (release of tick t)
        tick        t: safe     t+1: 1
    """
    scene = make_scene(kafka.bootstrap_servers, store.url)
    instance = scene.start()
    scene.subscriber.wait_complete()

    def are_counted() -> bool:
        statuses = scene.subscriber.statuses("late").values()
        return sum(status == "noisy_count" for status in statuses) > REPORTS

    until(are_counted, 60, "late reports are counted")
    statuses = scene.subscriber.statuses("late")
    counted = 0
    for place, stamp, offset in find_late_ticks(scene):
        if (place, stamp) in statuses and statuses.get((place, stamp - 1)) == "safe" and offset < 900:
            counted += statuses[place, stamp] == "noisy_count"
        assert statuses.get((place, stamp - 1), "safe") in {"safe", "unknown", "paused"}
    assert counted >= REPORTS // 2
    assert scene.settle(instance).broken == []


@pytest.fixture(scope="module")
def module_town(tmp_path_factory: pytest.TempPathFactory) -> FaultTown:
    """A town without servers."""
    return FaultTown(tmp_path_factory.mktemp("town"), "town", ("localhost:1", "redis://localhost:1/0"), Shape(), 1)


def value(status: str, **more: Any) -> dict[str, Any]:
    known = {
        "kind": "over_time",
        "monitor": "late",
        "location_id": "late-0",
        "tick": 7,
        "epsilon": "40",
        "threshold": 1,
    }
    return {**known, "status": status, "window_start": "2026-01-01T00:00:12Z", **more}


@pytest.mark.parametrize(
    ("stamp", "answer", "broken"),
    [
        (7, value("safe"), 1),  # the visit was not counted
        (7, value("noisy_count", noisy_count=1), 0),
        (8, value("safe"), 0),
        (8, value("noisy_count", noisy_count=1), 1),  # the visit was counted too early
        (7, value("noisy_count", noisy_count=0), 1),
        (8, value("noisy_count", noisy_count=1, epsilon="1"), 0),  # it may be noise
        (8, value("unknown"), 0),
    ],
)
def test_inexact_answer_is_found(module_town: FaultTown, stamp: int, answer: dict[str, Any], broken: int) -> None:
    """The oracle finds an answer that does not follow from the stamps: one visit, stamped in slot 7 or 8."""
    terms = read_terms(module_town.config)
    body = (
        b'{"person_id": "p", "location_id": "late-0", "arrived_at": "2026-01-01T00:00:14.5Z", '
        b'"left_at": "2026-01-01T00:00:15Z"}'
    )
    record = SimpleNamespace(partition=0, offset=0, timestamp=terms.grid.start(stamp) // MILLISECOND + 1, value=body)
    assert len(list(find_inexact(recount(terms, [record]), [answer], 0))) == broken
