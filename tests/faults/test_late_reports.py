"""What is reported within a release delay, on real servers: it is in the next tick's counts, and not in this one's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from monitor.public.instants import MILLISECOND
from monitor.tools.audit.terms import read_terms
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey
from tests.faults.conftest import MakeScene, Scene
from tests.faults.exact import Counts, inexact
from tests.faults.processes import until
from tests.faults.reading import read_topic
from tests.faults.recount import Recount
from tests.faults.town import KEY, LATE, Shape, Town

REPORTS = 8


def late_ticks(scene: Scene) -> list[tuple[str, int, int]]:
    """Of each record about a place of late reports: the place, the slot of its stamp, and how far into it (ms)."""
    town = scene.town
    terms = read_terms(town.config)
    recount = Recount(terms, KEY.encode())
    found = []
    for record in read_topic(town.servers, town.topics.visits, "read_committed"):
        for one in recount.accepted(record):
            if terms.locations[one.row] in LATE:
                into = record.timestamp - terms.grid.start(one.stamp) // MILLISECOND
                found.append((terms.locations[one.row], one.stamp, into))
    return found


def test_a_report_stamped_within_the_release_delay_is_not_in_the_count_of_that_tick(
    kafka: EmbeddedKafka, store: EmbeddedValkey, make_scene: MakeScene
) -> None:
    """
    One person was at a place with T = 1 and is reported just after as_of, at ε = 40: that tick is "safe", surely.

        slot        t         | t+1                 | t+2
        was there      x      |
        reported              |  x   (release of tick t)
        tick        t: safe     t+1: 1                the chance that a draw makes it otherwise is e^-40
    """
    scene = make_scene(kafka.bootstrap_servers, store.url)
    instance = scene.start()
    scene.subscriber.wait_whole()

    def followed() -> bool:
        said = scene.subscriber.statuses("late")
        return sum(said[place, tick] == "noisy_count" for place, tick in said) > REPORTS

    until(followed, 60, "late reports are counted")
    said = scene.subscriber.statuses("late")
    counted = 0
    for place, stamp, into in late_ticks(scene):
        if (place, stamp) in said and said.get((place, stamp - 1)) == "safe" and into < 900:
            counted += said[place, stamp] == "noisy_count"
        assert said.get((place, stamp - 1), "safe") in {"safe", "unknown", "paused"}
    assert counted >= REPORTS // 2
    assert scene.settle(instance).broken == []


@pytest.fixture(scope="module")
def module_town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    """A town that nobody serves."""
    return Town(tmp_path_factory.mktemp("town"), "town", ("localhost:1", "redis://localhost:1/0"), Shape(), 1)


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
    ("stamp", "said", "broken"),
    [
        (7, value("safe"), 1),  # a visit that was not counted
        (7, value("noisy_count", noisy_count=1), 0),
        (8, value("safe"), 0),
        (8, value("noisy_count", noisy_count=1), 1),  # a visit that was counted too early
        (7, value("noisy_count", noisy_count=0), 1),
        (8, value("noisy_count", noisy_count=1, epsilon="1"), 0),  # it may be noise
        (8, value("unknown"), 0),
    ],
)
def test_an_answer_that_does_not_follow_from_the_stamps_is_found(
    module_town: Town, stamp: int, said: dict[str, Any], broken: int
) -> None:
    """One visit of slot 7, whose record is stamped in that slot or in the next one."""
    terms = read_terms(module_town.config)
    body = (
        b'{"person_id": "p", "location_id": "late-0", "arrived_at": "2026-01-01T00:00:14.5Z", '
        b'"left_at": "2026-01-01T00:00:15Z"}'
    )
    record = SimpleNamespace(partition=0, offset=0, timestamp=terms.grid.start(stamp) // MILLISECOND + 1, value=body)
    counts = Counts(Recount(terms, KEY.encode()), [record])
    assert len(list(inexact(counts, [said], 0))) == broken
