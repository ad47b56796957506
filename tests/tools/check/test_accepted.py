"""On new servers, `topics --create` and `run` accept every configuration that `check` accepts.

`make soak` draws more configurations, from a seed that it prints. CONFIGURATIONS_SEED sets the seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from monitor.cli import main
from monitor.commands.settings import load_settings
from monitor.contracts.clock import SystemClock
from monitor.errors import EXIT_USAGE
from monitor.observe.health import Health
from monitor.observe.metrics import Metrics
from monitor.service.preflight import Preflight
from monitor.service.run import check_clock, prepare
from monitor.service.service import Service, Settings, create_noise, create_windows
from monitor.store.redis_store import RedisWindows
from monitor.tools.servers import EmbeddedValkey
from tests.conftest import Eventually
from tests.shared_kafka import SharedKafka
from tests.tools.check.configurations import TWISTS, Drawn, Maker

KEY = "qn/TGe6D7vsXiFKstZA9GykOnGMmd6iBzgSziHXuhUA="


def run_command(*words: str | Path) -> Result:
    """Run a command in this process."""
    return CliRunner(env={"LOCATION_MONITOR__VISITS__PERSON_KEY": KEY}).invoke(main, [str(word) for word in words])


def is_accepted(path: Path, drawn: Drawn) -> bool:
    """Return whether `check` accepts a configuration. If not, it must exit with 2 and name the problems."""
    result = run_command("check", "--config", path, "--json")
    assert result.exit_code in (0, EXIT_USAGE), (result.exception, drawn.twists, drawn.tree)
    assert result.exit_code == 0 or "privacy.epsilon" in result.output or "nothing was started" in result.output
    return result.exit_code == 0


@contextmanager
def prepare_servers(settings: Settings) -> Iterator[tuple[Preflight, RedisWindows]]:
    """Check the servers as `run` does before it starts the service."""
    clock = SystemClock()
    found = prepare(settings, clock)
    with closing(create_windows(settings, found)) as windows:
        windows.check()
        check_clock(windows, clock, settings.parameters.tolerance)
        yield found, windows


def wait_ready(settings: Settings, found: Preflight, windows: RedisWindows, eventually: Eventually) -> None:
    """Start the service, and wait until it is ready."""
    health = Health()
    service = Service(settings, found, windows, SystemClock(), create_noise(), Metrics(), health)
    try:
        service.start()
        eventually(lambda: service.ended.is_set() or not health.list_waiting(), 60)
        assert service.failure is None, service.failure
    finally:
        service.stop()


def create_topics(drawn: Drawn, path: Path) -> Settings:
    """Create the topics of a configuration, and check them."""
    created = run_command("topics", "--config", path, "--create")
    assert created.exit_code == 0, (created.output, created.exception, drawn.twists, drawn.tree)
    assert run_command("topics", "--config", path).exit_code == 0
    return load_settings(path)


@pytest.fixture
def maker(
    kafka: SharedKafka, valkey: EmbeddedValkey, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], Maker]:
    """A function that makes a Maker for the session's servers from a seed."""
    monkeypatch.setenv("LOCATION_MONITOR__VISITS__PERSON_KEY", KEY)
    return lambda seed: Maker(seed, lambda: topic("drawn"), kafka.bootstrap_servers, valkey.url)


def run_if_accepted(drawn: Drawn, folder: Path, eventually: Eventually, *, started: bool) -> bool:
    """Return whether `check` accepts a configuration. If so, create its topics and check servers; `started`: run it."""
    path = drawn.write(folder)
    if not is_accepted(path, drawn):
        return False
    settings = create_topics(drawn, path)
    with prepare_servers(settings) as (found, windows):
        if started:
            wait_ready(settings, found, windows, eventually)
    return True


@pytest.mark.promise(36)
def test_accepted_configurations_run(maker: Callable[[int], Maker], tmp_path: Path, eventually: Eventually) -> None:
    """Configurations that `check` accepts run on new servers.

    Five of them become ready. For each twist, if `check` accepts it, the topics are created and the servers checked.
    """
    configurations, ready = maker(9), 0
    while ready < 5:
        ready += run_if_accepted(configurations.next(""), tmp_path, eventually, started=True)
    by_twist = {
        twist: run_if_accepted(configurations.next(twist), tmp_path, eventually, started=False) for twist in TWISTS
    }
    assert {twist for twist, runs in by_twist.items() if not runs} >= {
        "shards",
        "inputs",
        "release",
        "own topic",
        "collision",
    }
    assert {twist for twist, runs in by_twist.items() if runs} >= {"many", "longest name", "stay"}


def test_check_accepts_or_explains(maker: Callable[[int], Maker], tmp_path: Path) -> None:
    """`check` accepts or explains each of 60 more configurations; no servers are used."""
    configurations = maker(10)
    accepted = set()
    for _ in range(60):
        drawn = configurations.next()
        accepted.add(is_accepted(drawn.write(tmp_path), drawn))
    assert accepted == {True, False}


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_many_accepted_configurations_run(
    maker: Callable[[int], Maker], tmp_path: Path, eventually: Eventually
) -> None:
    """400 accepted configurations from a random seed become ready."""
    seed = int(os.environ.get("CONFIGURATIONS_SEED", random.SystemRandom().randrange(10**9)))
    print(f"CONFIGURATIONS_SEED={seed}", flush=True)
    configurations, done = maker(seed), 0
    while done < 400:
        done += run_if_accepted(configurations.next(), tmp_path, eventually, started=True)
