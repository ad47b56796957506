"""A random walk over faults. All are drawn from a seed, which is printed; FAULTS_SEED repeats a walk.

Faults follow each other while the service is still recovering from earlier ones. `make soak` walks for hours
(FAULTS_SOAK_MINUTES, default 120).
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

from monitor.tools.servers import EmbeddedKafka, EmbeddedValkey
from tests.faults.conftest import MakeScene
from tests.faults.steps import CROWD, FAULTS, Walk, end_in_order, schedule
from tests.shared_kafka import SharedKafka

STEPS: Final = 26
RESTS: Final = 2  # the number of times that the walk waits for recovery and checks everything
SOAK_LEG_MINUTES: Final = 20  # a town has designated times for 30 minutes
CHURN_SECONDS: Final = 30.0

StartWalk = Callable[[int], Walk]


@pytest.fixture
def start(kafka: SharedKafka, valkey: EmbeddedValkey, make_scene: MakeScene) -> Iterator[StartWalk]:
    """A function that starts a walk on separate servers: `start(seed)`."""
    with EmbeddedKafka() as broker, EmbeddedValkey() as store:

        def start_walk(seed: int) -> Walk:
            walk = Walk(make_scene(broker.bootstrap_servers, store.url, seed=seed), broker, store)
            walk.start()
            walk.scene.subscriber.wait_complete(60)
            return walk

        yield start_walk


def choose_seed() -> int:
    return int(os.environ.get("FAULTS_SEED") or random.SystemRandom().getrandbits(32))


def finish(walk: Walk) -> None:
    """Replace all instances by one, and check everything."""
    for instance in walk.running:
        instance.kill()
    last = walk.start()
    walk.scene.subscriber.wait_complete(90)
    verdict = walk.scene.settle(last)
    print(f"{walk.done.total()} faults: {dict(walk.done)}; answers: {verdict.report.answers}", flush=True)
    assert verdict.broken == []
    assert verdict.count("safe") > 0
    assert verdict.report.noisy > 0


@pytest.mark.promise(1, 26, 27, 29)
@pytest.mark.timeout(900)
def test_all_faults_one_after_another(start: StartWalk) -> None:
    """After faults of every kind in a row, no promise is broken. `make soak` continues for hours."""
    seed = choose_seed()
    walk = start(seed)
    for step in islice(schedule(seed), STEPS):
        walk.do(step)
        if step.number % (STEPS // RESTS) == 0:
            walk.rest()
    finish(walk)
    assert set(walk.done) == set(FAULTS)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_faults_for_hours(start: StartWalk) -> None:
    """After hours of faults, no promise is broken. Each leg of 20 minutes has a new town, and the next seed."""
    seed = choose_seed()
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


def test_instances_join_and_leave_continuously(start: StartWalk) -> None:
    """After half a minute of joining and leaving instances, the service recovers, and no answer is false.

    running  1 2 3 2 3 2 1 2 1 2 3 2 …    + starts, - SIGTERM, or SIGKILL
    """
    seed = choose_seed()
    walk = start(seed)
    before = len(walk.scene.subscriber.values)
    chance = random.Random(seed)
    leaving: list[Future[None]] = []
    done: Counter[str] = Counter()
    end = time.monotonic() + CHURN_SECONDS
    with ThreadPoolExecutor() as pool:
        going = walk.running
        bag: list[str] = []
        while time.monotonic() < end:
            if not bag:  # each action is drawn once before any is drawn again
                bag = chance.sample(("start", "SIGTERM", "SIGKILL"), 3)
            going = [instance for instance in going if instance.code is None]
            drawn, index, pause = bag.pop(), chance.getrandbits(32), chance.random()
            action = "start" if len(going) < 2 else "SIGTERM" if drawn == "start" and len(going) > CROWD else drawn
            if action == "start":
                going.append(walk.start())
            elif action == "SIGTERM":
                leaving.append(pool.submit(end_in_order, going.pop(index % len(going))))
            else:
                going.pop(index % len(going)).kill()
            done[action] += 1
            time.sleep(2 + pause)
    for future in leaving:
        future.result()
    assert set(done) == {"start", "SIGTERM", "SIGKILL"}
    print(f"{dict(done)}; answers meanwhile: {len(walk.scene.subscriber.values) - before}")
    finish(walk)
