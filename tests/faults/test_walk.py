"""A random walk over faults: all are drawn from a seed that is printed, and FAULTS_SEED walks the same way once more.

Faults follow each other while the service is still recovering from those before. `make soak` walks for hours
(FAULTS_SOAK_MINUTES, 120 unless told).
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Final

import pytest

from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey
from tests.faults.conftest import MakeScene
from tests.faults.steps import CROWD, FAULTS, Walk, left, schedule

STEPS: Final = 52
RESTS: Final = 4  # how often, on the way, all is waited for and judged
SOAK_LEG_MINUTES: Final = 20  # designated times are there for 30
CHURN_SECONDS: Final = 30.0

StartWalk = Callable[[int], Walk]


@pytest.fixture
def start(kafka: EmbeddedKafka, valkey: EmbeddedValkey, make_scene: MakeScene) -> Iterator[StartWalk]:
    """Starts walks on servers of the test's own: `start(seed)`."""
    with EmbeddedKafka() as broker, EmbeddedValkey() as store:

        def started(seed: int) -> Walk:
            walk = Walk(make_scene(broker.bootstrap_servers, store.url, seed=seed), broker, store)
            walk.start()
            walk.scene.subscriber.wait_whole(60)
            return walk

        yield started


def seeded() -> int:
    return int(os.environ.get("FAULTS_SEED") or random.SystemRandom().getrandbits(32))


def finish(walk: Walk) -> None:
    """One instance stays, and everything is judged."""
    for instance in walk.running:
        instance.kill()
    last = walk.start()
    walk.scene.subscriber.wait_whole(90)
    verdict = walk.scene.settle(last)
    print(f"{walk.done.total()} faults: {dict(walk.done)}; answers: {verdict.report.answers}", flush=True)
    assert verdict.broken == []
    assert verdict.count("safe") > 0
    assert verdict.report.noisy > 0


def test_a_seed_alone_says_which_faults_come_in_which_order_and_how_long_each_lasts() -> None:
    """What runs, and how fast, changes nothing of what comes next: it is drawn before anything is started."""
    drawn = list(islice(schedule(17), 200))
    assert list(islice(schedule(17), 200)) == drawn
    assert list(islice(schedule(18), 200)) != drawn


def test_each_kind_is_dealt_once_before_any_comes_again() -> None:
    for seed in range(50):
        dealt = [step.kind for step in islice(schedule(seed), len(FAULTS))]
        assert sorted(dealt) == sorted(FAULTS)


@pytest.mark.timeout(900)
def test_fifty_faults_one_after_another(start: StartWalk) -> None:
    """Every kind is among them, and the rest are drawn at random."""
    seed = seeded()
    walk = start(seed)
    for step in islice(schedule(seed), STEPS):
        walk.do(step)
        if step.number % (STEPS // RESTS) == 0:
            walk.rest()
    finish(walk)
    assert set(walk.done) == set(FAULTS)
    assert walk.done.total() >= 50


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_faults_for_hours(start: StartWalk) -> None:
    """Legs of twenty minutes, each in a town of its own, and with a seed of its own: one more than the last one's."""
    seed = seeded()
    end = time.monotonic() + 60 * float(os.environ.get("FAULTS_SOAK_MINUTES", "120"))
    total: Counter[str] = Counter()
    while time.monotonic() < end:
        walk = start(seed)
        leg = min(time.monotonic() + 60 * SOAK_LEG_MINUTES, end)
        for step in schedule(seed):
            walk.do(step)
            if step.number % 10 == 0:
                walk.rest()
                if time.monotonic() > leg:
                    break
        finish(walk)
        total += walk.done
        seed += 1
    print(f"{total.total()} faults by kind: {dict(total)}")


def test_instances_join_and_leave_every_two_or_three_seconds(
    kafka: EmbeddedKafka, store: EmbeddedValkey, make_scene: MakeScene
) -> None:
    """For half a minute the groups are hardly ever at rest; then all is known again, and nothing said is false.

    running  1 2 3 2 3 2 1 2 1 2 3 2 …    + starts, - SIGTERM, or SIGKILL
    """
    seed = seeded()
    walk = Walk(make_scene(kafka.bootstrap_servers, store.url, seed=seed), kafka, store)
    walk.start()
    walk.scene.subscriber.wait_whole()
    before = len(walk.scene.subscriber.values)
    chance = random.Random(seed)
    leaving: list[Future[None]] = []
    done: Counter[str] = Counter()
    end = time.monotonic() + CHURN_SECONDS
    with ThreadPoolExecutor() as pool:
        going = walk.running
        while time.monotonic() < end:
            going = [instance for instance in going if instance.code is None]
            drawn, index, pause = (
                chance.choice(("start", "SIGTERM", "SIGKILL")),
                chance.getrandbits(32),
                chance.random(),
            )
            what = "start" if len(going) < 2 else "SIGTERM" if drawn == "start" and len(going) > CROWD else drawn
            if what == "start":
                going.append(walk.start())
            elif what == "SIGTERM":
                leaving.append(pool.submit(left, going.pop(index % len(going))))
            else:
                going.pop(index % len(going)).kill()
            done[what] += 1
            time.sleep(2 + pause)
    for one in leaving:
        one.result()
    assert set(done) == {"start", "SIGTERM", "SIGKILL"}
    print(f"{dict(done)}; answers meanwhile: {len(walk.scene.subscriber.values) - before}")
    finish(walk)
