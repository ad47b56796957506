"""Zombies, two owners at once, and wrong clocks: no false answer and no second draw."""

from __future__ import annotations

import re
from http import HTTPStatus
from pathlib import Path

import pytest

from monitor.contracts.instants import HOUR, SECOND, parse_instant
from monitor.tools.servers import EmbeddedValkey
from tests.faults.conftest import MakeScene, Scene
from tests.faults.oracles import judge
from tests.kit.processes import Instance
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka


@pytest.fixture
def scene(kafka: SharedKafka, store: EmbeddedValkey, make_scene: MakeScene) -> Scene:
    return make_scene(kafka.bootstrap_servers, store.url)


def write_clock(scene: Scene, name: str, offset: int) -> Path:
    """Write and return the file with the error of a clock."""
    path = scene.town.folder / name
    path.write_text(str(offset))
    return path


def settle_findings(scene: Scene, instance: Instance) -> list[str]:
    verdict = scene.settle(instance)
    assert verdict.count("safe") > 0
    return verdict.broken


SOAK = pytest.mark.soak

# The message of an instance with a wrong clock (the town's tolerance is 100 ms), with the instants of both clocks.
REFUSED = re.compile(
    r"this machine's clock shows (?P<mine>\S+Z), Redis's clock shows (?P<redis>\S+Z): expected a difference of at "
    r"most clock\.tolerance \(100ms\)\. Synchronize both clocks \(NTP\)"
)


def wait_logged(instance: Instance, pattern: re.Pattern[str]) -> re.Match[str]:
    """Wait until an instance has logged a pattern, and return the first match."""
    until(lambda: pattern.search(instance.text), 40, pattern.pattern)
    return next(pattern.finditer(instance.text))


@pytest.mark.promise(30)
@pytest.mark.parametrize(
    "place", [pytest.param("tick.released", marks=SOAK), "ledger.sent", pytest.param("reader.accepted", marks=SOAK)]
)
def test_zombie_wakes_after_takeover(place: str, scene: Scene) -> None:
    """A zombie that wakes with old counts, answers or visits is fenced, or its writes change nothing.

    zombie   ├────┤ SIGSTOP ............ ├─ SIGCONT
    other           ├─ takes over ────────────────────
    """
    zombie = scene.start("--at", f"{place}:4:stop")
    until(zombie.is_stopped, 40, "stopped at its place")
    other = scene.start()
    scene.subscriber.wait_new()
    scene.subscriber.wait_new()
    zombie.resume()
    scene.subscriber.wait_complete()
    assert judge(scene.town).broken == []
    assert zombie.terminate() == 0
    assert settle_findings(scene, other) == []


@pytest.mark.promise(30)
def test_one_of_two_owners_is_fenced(scene: Scene) -> None:
    """If two owners have drawn answers to one tick, the first owner is fenced and its answers are not published."""
    gate = scene.town.folder / "gate"
    first = scene.start("--at", "ledger.begun:6:hold", "--hold", str(gate))
    until(gate.with_name("gate.reached").exists, 40, "answers are drawn")
    first.pause()
    other = scene.start()
    until(lambda: all(f"owns ledger partition {n}" in other.text for n in (0, 1)), 40, "the second owns both")
    gate.touch()
    first.resume()
    scene.subscriber.wait_new()
    assert first.terminate() == 0
    assert settle_findings(scene, other) == []


@pytest.mark.promise(34)
@pytest.mark.parametrize(
    "offset",
    [-HOUR, pytest.param(-6 * SECOND, marks=SOAK), 6 * SECOND, pytest.param(HOUR, marks=SOAK)],
)
def test_wrong_clock_at_start(offset: int, scene: Scene) -> None:
    """An instance that starts with a wrong clock waits, alive and not ready, and logs both clocks; another one answers.

    wrong   ├─ refused, tries again ─ refused ─ … ─┤
    right      ├───────────────────────────────────────
    """
    wrong = scene.start("--clock", str(write_clock(scene, "clock", offset)))
    right = scene.start()
    match = wait_logged(wrong, REFUSED)
    error = parse_instant(match["mine"]) - parse_instant(match["redis"])
    assert abs(error - offset) < 2 * SECOND
    scene.subscriber.wait_complete()
    until(lambda: len(REFUSED.findall(wrong.text)) > 1, 40, "refused again")
    assert wrong.fetch("/healthz")[0] == HTTPStatus.OK
    assert wrong.fetch("/readyz")[0] == HTTPStatus.SERVICE_UNAVAILABLE
    until(lambda: REFUSED.search(wrong.page("/readyz")), 40, "the reason in its answer")
    assert right.fetch("/readyz")[0] == HTTPStatus.OK
    assert "owns ledger partition" not in wrong.text
    assert wrong.terminate() == 0
    scene.subscriber.wait_new()
    assert max(value["tick"] for value in scene.subscriber.values) <= scene.town.now()
    assert settle_findings(scene, right) == []


@pytest.mark.promise(34)
def test_clock_steps_back_and_ahead(scene: Scene) -> None:
    """While its clock is wrong, a running instance publishes nothing, and it continues once the clock is right.

    its clock   ├── right ──┼── -1 h ──┼── right ──┼── +1 h ──┼── right ──
    ticks        s n p s s              s s n p p               s n s s s
    """
    path = write_clock(scene, "clock", 0)
    instance = scene.start("--clock", str(path))
    for step in (-HOUR, HOUR):
        scene.subscriber.wait_complete()
        path.write_text(str(step))
        until(lambda: scene.town.now() > scene.subscriber.last_tick + 4, 30, "ticks pass by")
        path.write_text("0")
        assert max(value["tick"] for value in scene.subscriber.values) <= scene.town.now()
    scene.subscriber.wait_complete()
    assert max(value["tick"] for value in scene.subscriber.values) <= scene.town.now()
    assert settle_findings(scene, instance) == []
