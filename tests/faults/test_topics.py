"""Topics that are lost and made anew, a ledger that two want, and what is watched changing over a running ledger."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from monitor.embedded import EmbeddedKafka, EmbeddedValkey
from monitor.errors import EXIT_REFUSED, LedgerError
from monitor.operate.setup import Beginning
from tests.faults.conftest import MakeScene, Scene
from tests.faults.processes import until
from tests.faults.town import Shape


@pytest.fixture
def scene(kafka: EmbeddedKafka, store: EmbeddedValkey, make_scene: MakeScene) -> Scene:
    return make_scene(kafka.bootstrap_servers, store.url, Shape(inputs=2, queues=1))


def delete(scene: Scene, topic: str) -> None:
    with scene.town.admin() as admin:
        admin.delete_topics([topic])
        until(lambda: admin.describe_topics([topic])[0]["error_code"], 30, f"{topic} is gone")


def test_the_input_topic_is_made_anew_and_answers_are_unknown_until_a_window_is_whole(scene: Scene) -> None:
    """Visits that were acknowledged are gone for good: no "safe" may speak of a window that they belong to.

    input    ├── visits ──┤ deleted  ├── visits of another topic, its offsets beginning at 0 ──
    answers  s s n p s s  .  u u u u u u u u  s n s
    """
    town = scene.town
    instance = scene.start()
    scene.subscriber.wait_whole()
    delete(scene, town.topics.visits)
    town.create()
    town.traffic.renew()
    made = town.now()
    scene.subscriber.wait_whole(90)
    said = {
        tick: status for (_, tick), status in scene.subscriber.statuses("edges", made + 1).items() if status == "safe"
    }
    window = 6
    assert said
    assert min(said) >= made + window - 1
    verdict = scene.settle(instance)
    assert verdict.broken == []


def test_a_lost_ledger_is_refused_until_someone_says_so_and_pauses_hold_over_two_restarts(scene: Scene) -> None:
    """Everything counts as spent: each over_time location is paused until lost_at + W + A, however often it restarts.

    ledger     ├── answers ──┤ deleted  ├─ --ledger-lost ─┼─ restarted ─┼─ restarted ──
    edges      s n p s s s   .            p p p p           p p           p p s
    """
    town = scene.town
    first = scene.start()
    scene.subscriber.wait_whole()
    first.kill()
    delete(scene, town.topics.alerts)
    assert scene.start().wait(40) == EXIT_REFUSED
    with pytest.raises(LedgerError, match=r"--first-start .*--ledger-lost"):
        town.create()
    assert scene.start().wait(40) == EXIT_REFUSED
    town.create(Beginning.LEDGER_LOST)
    lost = town.now()
    for _ in range(2):
        restarted = scene.start()
        scene.subscriber.wait_new()
        restarted.kill()
    last = scene.start()
    until(lambda: "safe" in set(scene.subscriber.statuses("edges", lost).values()), 60, "answers again")
    pause = 6 + 2
    said = scene.subscriber.statuses("edges", lost)
    assert {status for (_, tick), status in said.items() if tick < lost + pause} == {"paused"}
    verdict = scene.settle(last)
    # The recount knows nothing of the lost ledger: pauses look too long to it, and answers of before are nowhere.
    gone = ("was seen, and is not committed", "was seen, and is not audited")
    excused = ("paused, and the next answer is affordable", *gone)
    assert [broken for broken in verdict.broken if not broken.endswith(excused)] == []


def test_another_service_on_the_same_ledger_is_refused_and_the_first_goes_on(scene: Scene) -> None:
    town = scene.town
    instance = scene.start()
    scene.subscriber.wait_whole()
    other: dict[str, Any] = copy.deepcopy(town.tree)
    other["service"]["name"] = "intruder"
    config = town.folder / "intruder.yaml"
    town.configured(other, config)
    intruder = town.start(config=config)
    assert intruder.wait(40) == EXIT_REFUSED
    assert "give each service its own kafka.topics.alerts" in intruder.text
    scene.subscriber.wait_whole()
    assert scene.settle(instance).broken == []


def test_a_location_newly_watched_counts_the_visits_of_before(scene: Scene) -> None:
    """Visits to the yards were not stored; under the new fingerprint all is read again, so none is missed.

    yards    ── visits, seen by no window ──┼── watched: the visits of before count
    """
    town = scene.town
    first = scene.start()
    scene.subscriber.wait_whole()
    assert first.terminate() == 0
    yards = {"name": "yards", "kind": "over_time", "locations": ["yard-0", "yard-1"], "epsilon": "80"}
    town.tree["monitors"].append({**yards, "threshold": 2, "window": "12s"})
    town.tree["privacy"]["epsilon"] = "100000"
    town.settings = town.configured(town.tree)
    second = scene.start()
    tick = scene.subscriber.wait_whole()
    assert any(at <= tick for _, at in scene.subscriber.statuses("yards"))
    assert scene.settle(second).broken == []


def test_a_change_that_would_break_the_accounting_is_refused_with_the_reason(scene: Scene) -> None:
    """Another slot over a ledger with running marks: ticks would be numbers on another grid."""
    town = scene.town
    first = scene.start()
    scene.subscriber.wait_whole()
    assert first.terminate() == 0
    changed = copy.deepcopy(town.tree)
    changed["clock"]["slot"] = "1s"
    changed["clock"]["release_delay"] = "500ms"
    config = town.folder / "changed.yaml"
    town.configured(changed, config)
    refused = town.start(config=config)
    assert refused.wait(40) == EXIT_REFUSED
    assert "can't change over a ledger" in refused.text
    assert scene.settle(scene.start()).broken == []
