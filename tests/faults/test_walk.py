"""A random walk over faults. All are drawn from a seed, which is printed; FAULTS_SEED repeats a walk.

Faults follow each other while the service is still recovering from earlier ones. The walk of `make test` has the kinds
that test_servers.py does not have alone. `make soak` walks over all kinds for hours (FAULTS_SOAK_MINUTES, default 120).
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from signal import SIGKILL, SIGTERM
from typing import Final

import pytest

from monitor.errors import EXIT_REFUSED
from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey
from tests.faults import test_servers
from tests.faults.conftest import MakeTown
from tests.faults.oracles import settle
from tests.faults.steps import FAULTS, Walk, schedule
from tests.shared_kafka import SharedKafka

WALKED: Final = FAULTS.keys() - test_servers.FAULTS.keys()
SOAK_LEG_MINUTES: Final = 20  # a town has designated times for 30 minutes

StartWalk = Callable[[int], Walk]


@pytest.fixture
def start(kafka: SharedKafka, valkey: EmbeddedValkey, make_town: MakeTown) -> Iterator[StartWalk]:
    """A function that starts a walk on separate servers: `start(seed)`."""
    with EmbeddedKafka() as broker, EmbeddedValkey() as store:

        def start_walk(seed: int) -> Walk:
            walk = Walk(make_town(broker.bootstrap_servers, store.url, seed=seed), broker, store)
            walk.start()
            walk.town.subscriber.wait_complete(60)
            return walk

        yield start_walk


def choose_seed() -> int:
    return int(os.environ.get("FAULTS_SEED") or random.SystemRandom().getrandbits(32))


def finish(walk: Walk) -> None:
    """Replace all instances by one, and check everything."""
    for instance in walk.running:
        instance.kill()
    last = walk.start()
    walk.town.subscriber.wait_complete(90)
    verdict = settle(walk.town, last)
    print(f"{walk.done.total()} faults: {dict(walk.done)}; answers: {verdict.report.answers}", flush=True)
    assert verdict.broken == []
    assert verdict.count("safe") > 0
    assert verdict.report.noisy > 0
    # Nothing else may have ended an instance: a kill, or a SIGTERM, which may come too early or during a refusal.
    assert {instance.code for instance in walk.town.instances} <= {0, -SIGKILL, -SIGTERM, EXIT_REFUSED}


@pytest.mark.promise(1, 26, 27, 29)
@pytest.mark.timeout(900)
def test_faults_one_after_another(start: StartWalk) -> None:
    """After faults of many kinds in a row, no promise is broken. `make soak` continues for hours."""
    seed = choose_seed()
    walk = start(seed)
    for step in islice(schedule(seed, WALKED), len(WALKED)):
        walk.do(step)
        if step.number == len(WALKED) // 2:
            walk.rest()
    finish(walk)
    assert set(walk.done) == WALKED


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
        for step in schedule(seed, FAULTS):
            walk.do(step)
            if step.number % 10 == 0:
                walk.rest()
                if time.monotonic() > leg:
                    break
        finish(walk)
        total += walk.done
        seed += 1
    print(f"{total.total()} faults by kind: {dict(total)}")
