"""What `check` accepts, `topics --create` and `run` accept on servers that are new; all that is wrong it says at once.

`make soak` draws more configurations, from a seed that is printed; CONFIGURATIONS_SEED repeats it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from monitor.cli import load_settings, main
from monitor.errors import EXIT_USAGE
from monitor.operate.health import Health
from monitor.operate.metrics import Metrics
from monitor.operate.preflight import Preflight
from monitor.public.clock import SystemClock
from monitor.run import check_clock, prepare
from monitor.service import Service, Settings, redis_windows, secure_noise
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey
from monitor.windows.redis_store import RedisWindows
from tests.check.configurations import TWISTS, Made, Maker

KEY = "x9Tq2LwB7mZr4KcV8nHs3PdY6fGj1QaE"
Eventually = Callable[..., Any]


def called(*words: str | Path) -> Result:
    """A command, in this process."""
    return CliRunner(env={"LOCATION_MONITOR__VISITS__PERSON_KEY": KEY}).invoke(main, [str(word) for word in words])


def accepted(path: Path, made: Made) -> bool:
    """Whether `check` accepts it; whatever it refuses, it refuses with 2 and the reasons, and never fails."""
    result = called("check", "--config", path, "--json")
    assert result.exit_code in (0, EXIT_USAGE), (result.exception, made.twists, made.tree)
    assert result.exit_code == 0 or "privacy.epsilon" in result.output or "nothing was started" in result.output
    return result.exit_code == 0


@contextmanager
def prepared(settings: Settings) -> Iterator[tuple[Preflight, RedisWindows]]:
    """Look at the servers as `run` does before it starts the service."""
    clock = SystemClock()
    found = prepare(settings, clock)
    with closing(redis_windows(settings, found, clock)) as windows:
        windows.check()
        check_clock(windows, clock, settings.parameters.tolerance)
        yield found, windows


def becomes_ready(settings: Settings, found: Preflight, windows: RedisWindows, eventually: Eventually) -> None:
    """Start the service, and wait until it is ready."""
    health = Health()
    service = Service(settings, found, windows, SystemClock(), secure_noise(), Metrics(), health)
    try:
        service.start()
        eventually(lambda: service.ended.is_set() or not health.waiting(), 60)
        assert service.failure is None, service.failure
    finally:
        service.stop()


def made_on_servers(made: Made, path: Path) -> Settings:
    """Make its topics, and look at them."""
    created = called("topics", "--config", path, "--create")
    assert created.exit_code == 0, (created.output, created.exception, made.twists, made.tree)
    assert called("topics", "--config", path).exit_code == 0
    return load_settings(path)


@pytest.fixture
def maker(
    kafka: EmbeddedKafka, valkey: EmbeddedValkey, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], Maker]:
    """Draws configurations for the session's servers."""
    monkeypatch.setenv("LOCATION_MONITOR__VISITS__PERSON_KEY", KEY)
    return lambda seed: Maker(seed, lambda: topic("made"), kafka.bootstrap_servers, valkey.url)


def run_if_accepted(made: Made, folder: Path, eventually: Eventually, *, started: bool) -> bool:
    """Make it on servers and look at it as `run` does, and start it as well, if `check` accepts it; whether it does."""
    path = made.write(folder)
    if not accepted(path, made):
        return False
    settings = made_on_servers(made, path)
    with prepared(settings) as (found, windows):
        if started:
            becomes_ready(settings, found, windows, eventually)
    return True


def test_what_check_accepts_is_made_and_runs(
    maker: Callable[[int], Maker], tmp_path: Path, eventually: Eventually
) -> None:
    """Five become ready; of twenty with something that may be wrong, those that it accepts are made and looked at."""
    drawn, ready = maker(9), 0
    while ready < 5:
        ready += run_if_accepted(drawn.made(""), tmp_path, eventually, started=True)
    told = {twist: run_if_accepted(drawn.made(twist), tmp_path, eventually, started=False) for twist in TWISTS}
    assert {twist for twist, yes in told.items() if not yes} >= {
        "shards",
        "inputs",
        "release",
        "own topic",
        "collision",
    }
    assert {twist for twist, yes in told.items() if yes} >= {"many", "longest name", "stay"}


def test_check_says_yes_or_what_is_wrong_whatever_is_drawn(maker: Callable[[int], Maker], tmp_path: Path) -> None:
    """60 more, without the servers."""
    drawn = maker(10)
    told = []
    for _ in range(60):
        made = drawn.made()
        told.append(accepted(made.write(tmp_path), made))
    assert {True, False} == set(told)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_what_check_accepts_is_made_and_runs_for_many(
    maker: Callable[[int], Maker], tmp_path: Path, eventually: Eventually
) -> None:
    """400 of them, all started, from a seed that is drawn."""
    seed = int(os.environ.get("CONFIGURATIONS_SEED", random.SystemRandom().randrange(10**9)))
    print(f"CONFIGURATIONS_SEED={seed}", flush=True)
    drawn, done = maker(seed), 0
    while done < 400:
        done += run_if_accepted(drawn.made(), tmp_path, eventually, started=True)
