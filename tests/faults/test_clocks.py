"""Zombies, two owners at once, and clocks that are wrong: refused or unknown, never false and never a second draw."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path

import pytest

from monitor.public.instants import HOUR, SECOND, parse_instant
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey
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

# What an instance says whose clock is wrong (the town's tolerance is 100 ms); the instants are those of both clocks.
REFUSED = re.compile(
    r"this machine's clock shows (?P<mine>\S+Z), Redis's clock shows (?P<redis>\S+Z): expected a difference of at "
    r"most clock\.tolerance \(100ms\)\. Synchronize both clocks \(NTP\)"
)
ENDPOINT = re.compile(r"metrics and health on port (\d+)")


def said(instance: Instance, what: re.Pattern[str]) -> re.Match[str]:
    """Where an instance's log first says something, once it does."""
    until(lambda: what.search(instance.text), 40, what.pattern)
    return next(what.finditer(instance.text))


def status(instance: Instance, path: str) -> int:
    """What an endpoint of an instance answers with."""
    port = said(instance, ENDPOINT)[1]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as failing:
        with failing:
            return failing.code


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
    """It waits, alive and not ready, and says by how much the clocks differ; one with a right clock carries on.

    wrong   ├─ refused, tries again ─ refused ─ … ─┤
    right      ├───────────────────────────────────────
    """
    wrong = scene.start("--clock", str(clock(scene, "clock", offset)))
    right = scene.start()
    found = said(wrong, REFUSED)
    off = parse_instant(found["mine"]) - parse_instant(found["redis"])
    assert abs(off - offset) < 2 * SECOND
    scene.subscriber.wait_whole()
    until(lambda: len(REFUSED.findall(wrong.text)) > 1, 40, "refused again")
    assert status(wrong, "/healthz") == HTTPStatus.OK
    assert status(wrong, "/readyz") == HTTPStatus.SERVICE_UNAVAILABLE
    until(lambda: REFUSED.search(wrong.page("/readyz")), 40, "the reason in its answer")
    assert status(right, "/readyz") == HTTPStatus.OK
    assert "owns ledger partition" not in wrong.text
    assert wrong.terminate() == 0
    scene.subscriber.wait_new()
    assert max(value["tick"] for value in scene.subscriber.values) <= scene.town.now()
    assert verdict_of(scene, right) == []


def test_the_clock_of_a_running_instance_steps_back_then_ahead_and_comes_back_each_time(scene: Scene) -> None:
    """It says nothing meanwhile, above all nothing about ticks to come, and goes on when its clock is right again.

    its clock   ├── right ──┼── -1 h ──┼── right ──┼── +1 h ──┼── right ──
    ticks        s n p s s              s s n p p               s n s s s
    """
    path = clock(scene, "clock", 0)
    instance = scene.start("--clock", str(path))
    for step in (-HOUR, HOUR):
        scene.subscriber.wait_whole()
        path.write_text(str(step))
        until(lambda: scene.town.now() > scene.subscriber.last_tick + 4, 30, "ticks pass by")
        path.write_text("0")
        assert max(value["tick"] for value in scene.subscriber.values) <= scene.town.now()
    scene.subscriber.wait_whole()
    assert max(value["tick"] for value in scene.subscriber.values) <= scene.town.now()
    assert verdict_of(scene, instance) == []
