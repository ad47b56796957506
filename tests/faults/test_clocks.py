"""Zombies, two owners at once, and clocks that are wrong: refused or unknown, never false and never a second draw."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.embedded import EmbeddedKafka, EmbeddedValkey
from monitor.times import HOUR, SECOND
from tests.faults.conftest import MakeScene, Scene
from tests.faults.oracles import judge
from tests.faults.processes import Instance, until


@pytest.fixture
def scene(kafka: EmbeddedKafka, store: EmbeddedValkey, make_scene: MakeScene) -> Scene:
    return make_scene(kafka.bootstrap_servers, store.url)


def clock(scene: Scene, name: str, offset: int) -> Path:
    """A file that a clock is off by."""
    path = scene.town.folder / name
    path.write_text(str(offset))
    return path


def verdict_of(scene: Scene, instance: Instance) -> list[str]:
    verdict = scene.settle(instance)
    assert verdict.count("safe") > 0
    return verdict.broken


SOAK = pytest.mark.soak


@pytest.mark.parametrize(
    "place", [pytest.param("tick.released", marks=SOAK), "ledger.sent", pytest.param("reader.accepted", marks=SOAK)]
)
def test_an_instance_stops_beyond_its_session_and_wakes_when_another_has_taken_over(place: str, scene: Scene) -> None:
    """It holds counts, answers or visits of long ago; what it does with them when it wakes is refused, or no harm.

    zombie   ├────┤ SIGSTOP ............ ├─ SIGCONT
    other           ├─ takes over ────────────────────
    """
    zombie = scene.start("--at", f"{place}:4:stop")
    until(zombie.is_stopped, 40, "stopped at its place")
    other = scene.start()
    scene.subscriber.wait_new()
    scene.subscriber.wait_new()
    zombie.resume()
    scene.subscriber.wait_whole()
    assert judge(scene.town).broken == []
    assert zombie.terminate() == 0
    assert verdict_of(scene, other) == []


def test_two_owners_at_once_hold_answers_to_the_same_tick_and_one_is_fenced(scene: Scene) -> None:
    """The first has drawn and waits just before its transaction; the second takes the partitions over and draws."""
    gate = scene.town.folder / "gate"
    first = scene.start("--at", "ledger.begun:6:hold", "--hold", str(gate))
    until(gate.with_name("gate.reached").exists, 40, "answers are drawn")
    first.pause()
    other = scene.start()
    until(lambda: all(f"owns ledger partition {n}" in other.text for n in (0, 1)), 40, "the other owns both")
    gate.touch()
    first.resume()
    scene.subscriber.wait_new()
    assert first.terminate() == 0
    assert verdict_of(scene, other) == []


@pytest.mark.parametrize(
    "offset",
    [-HOUR, pytest.param(-6 * SECOND, marks=SOAK), 6 * SECOND, pytest.param(HOUR, marks=SOAK)],
)
def test_one_instance_has_a_wrong_clock_from_its_start(offset: int, scene: Scene) -> None:
    """Whatever it owns: nothing false is said about any tick, and an instance with a right clock carries on."""
    wrong = scene.start("--clock", str(clock(scene, "clock", offset)))
    right = scene.start()
    scene.subscriber.wait_new()
    scene.subscriber.wait_new()
    wrong.kill()
    scene.subscriber.wait_whole()
    assert max(value["tick"] for value in scene.subscriber.values) <= scene.town.now()
    assert verdict_of(scene, right) == []


@pytest.mark.parametrize("step", [pytest.param(-HOUR, marks=SOAK), HOUR])
def test_the_clock_of_a_running_instance_steps_and_comes_back(step: int, scene: Scene) -> None:
    """It says nothing meanwhile, and goes on when its clock is right again."""
    path = clock(scene, "clock", 0)
    instance = scene.start("--clock", str(path))
    scene.subscriber.wait_whole()
    path.write_text(str(step))
    until(lambda: scene.town.now() > scene.subscriber.last_tick + 4, 30, "ticks pass by")
    path.write_text("0")
    scene.subscriber.wait_whole()
    assert max(value["tick"] for value in scene.subscriber.values) <= scene.town.now()
    assert verdict_of(scene, instance) == []
