"""On new servers, `topics --create` and `run` accept every configuration that `check` accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.cli import main
from monitor.errors import EXIT_USAGE
from monitor.kinds.all_kinds import KINDS
from monitor.observe.health import Health
from monitor.observe.update_service_metrics import Metrics
from monitor.operate.servers import EmbeddedValkey
from monitor.service.keep_running import check_clock, prepare
from monitor.service.load_settings import load_settings
from monitor.service.preflight import Preflight
from monitor.service.wiring import Service, Settings, create_noise, create_store
from monitor.store.redis_store import RedisStore
from monitor.time.clock import SystemClock
from tests.conftest import Eventually
from tests.kinds.examples import MONITORS
from tests.shared_kafka import SharedKafka

pytestmark = pytest.mark.long

KEY = "qn/TGe6D7vsXiFKstZA9GykOnGMmd6iBzgSziHXuhUA="

LARGEST: Final = "1000000000000"
SLOTS: Final = {"1s": 1, "7s": 7, "90s": 90, "1h": 3_600, "3h30m": 12_600, "1d": 86_400}
ORIGINS: Final = (
    "2026-01-05T00:00:00+09:00", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "2199-12-31T23:59:59-11:30",
    "9999-12-31T23:59:59.001Z",
)  # fmt: skip
EPSILONS: Final = st.sampled_from((1, "1/2", "0.123456789", "123457/9876541", "40", "1/1000000", 999_999, LARGEST))
TIMES: Final = ("00:00", "18:00", "02:30", "12:00:01", "2026-03-29T02:30:00.123456+01:00", "2999-12-31T23:59:59Z")
ZONES: Final = ("UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu")
PLACES: Final = st.one_of(
    st.lists(st.sampled_from(('"', "\\", "/", "駅", "'", "{x}", "%", "#", "🏥", ": ", "null", "1e3")), min_size=1),
    st.just([f"{number:06}{'w' * 240}" for number in range(3_000)]),
)

ODD: Final[dict[str, tuple[str, tuple[Any, ...]]]] = {
    "shards": ("service", (5, 4_095, 4_096)),
    "accept_ahead": ("visits", ("100y", "9999s")),
    "default_stay": ("visits", ("100y", "1ms")),
    "period": ("privacy", ("100y",)),
    "epsilon": ("privacy", ("1/1000000000000", "3")),
    "release_delay": ("clock", ("1d", "1ms")),
    "partitions": ("kafka", ({"visits": 60, "alerts": 2}, {"visits": 10_000}, {"visits": 2**31})),
}
"""Values that may be a problem, by key: the section and the values. `check` decides whether one is a problem."""


@st.composite
def draw_monitors(draw: st.DrawFn, slot: int, places: list[str]) -> dict[str, Any]:
    """Draw a monitor, as a person might write it."""
    kind = draw(st.sampled_from(list(KINDS)))
    monitor: dict[str, Any] = {"name": f"{kind}-1", "kind": kind, "epsilon": draw(EPSILONS)}
    if kind in {"over_time", "upper_bound"}:
        watched = draw(st.lists(st.sampled_from(places[:7]), min_size=1, unique=True))
        weights = {place: draw(st.integers(1, 9_876_541)) for place in watched}
        window = slot * draw(st.sampled_from((1, 2, 336)))
        monitor |= {"locations": draw(st.sampled_from((watched, weights))), "window": f"{window}s"}
        bucket, threshold = slot * draw(st.sampled_from((1, 2, 5))), draw(st.sampled_from((1, 20, 10**12)))
        return monitor | ({"bucket": f"{bucket}s"} if kind == "upper_bound" else {"threshold": threshold})
    times = draw(st.lists(st.sampled_from(TIMES), min_size=1, unique=True))
    horizon = draw(st.sampled_from(("1d", "25h7m", "100d", "1ms")))
    monitor |= {"at": times, "timezone": draw(st.sampled_from(ZONES)), "reporting_horizon": horizon}
    own = MONITORS[kind] | ({"top": 10**12} if kind == "hot_spots" else {})
    bounds = {"at_least": {"epsilon": draw(EPSILONS)}} if kind == "at_times" and draw(st.booleans()) else {}
    return own | monitor | bounds


@st.composite
def draw_configurations(draw: st.DrawFn) -> tuple[dict[str, Any], list[str]]:
    """Draw a configuration without names and servers, and the ids of its registry. Most are valid."""
    slot = draw(st.sampled_from(list(SLOTS)))
    seconds = SLOTS[slot]
    places = [f"{name}{number}" for number, name in enumerate(draw(PLACES))]
    delay = draw(st.sampled_from((11, seconds * 500, seconds * 1_000 - 21)))
    ahead = seconds * draw(st.sampled_from((0, 1, 50)))
    partitions = draw(st.integers(1, 3))
    tree: dict[str, dict[str, Any]] = {
        "service": {"shards": partitions * draw(st.sampled_from((1, 2, 16)))},
        "clock": {"slot": slot, "origin": draw(st.sampled_from(ORIGINS)), "release_delay": f"{delay}ms"},
        "locations": {"file": "locations.csv"},
        "visits": {"default_stay": draw(st.sampled_from(("15m", "90s", "30d"))), "accept_ahead": f"{ahead}s"},
        "privacy": {"epsilon": LARGEST, "period": draw(st.sampled_from(("1ms", "14d", "1y", "13h7m")))},
        "kafka": {"partitions": {"visits": draw(st.integers(1, 3)), "alerts": partitions}},
        "metrics": {"port": 0},
    }
    tree["clock"]["tolerance"] = "10ms"
    if draw(st.integers(0, 3)) == 0:
        key = draw(st.sampled_from(list(ODD)))
        section, values = ODD[key]
        tree[section][key] = draw(st.sampled_from(values))
    return {**tree, "monitors": [draw(draw_monitors(seconds, places))]}, places


def write_files(folder: Path, drawn: tuple[dict[str, Any], list[str]], name: str, kafka: str, redis: str) -> Path:
    """Write a configuration with names and servers, and its registry."""
    tree, places = drawn
    tree = {**tree, "service": {**tree["service"], "name": name}, "redis": {"url": redis}}
    topics = {topic: f"{name}.{topic.replace('_', '-')}" for topic in ("visits", "alerts", "dead_letters")}
    tree["kafka"] = {**tree["kafka"], "bootstrap_servers": [kafka], "topics": topics}
    rows = "".join(f'"{place.replace(chr(34), chr(34) * 2)}"\n' for place in places)
    (folder / "locations.csv").write_text(f"location_id\n{rows}", encoding="utf-8")
    path = folder / "service.yaml"
    path.write_text(yaml.safe_dump(tree, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


def run_command(*words: str | Path) -> Result:
    """Run a command in this process."""
    return CliRunner(env={"LOCATION_MONITOR__VISITS__PERSON_KEY": KEY}).invoke(main, [str(word) for word in words])


def is_accepted(path: Path) -> bool:
    """Return whether `check` accepts a configuration. If not, it must exit with 2 and name the problems."""
    result = run_command("check", "--config", path, "--json")
    assert result.exit_code in (0, EXIT_USAGE), (result.exception, path.read_text())
    assert result.exit_code == 0 or "privacy.epsilon" in result.output or "nothing was started" in result.output
    return result.exit_code == 0


@contextmanager
def prepare_servers(settings: Settings) -> Iterator[tuple[Preflight, RedisStore]]:
    """Check the servers as `run` does before it starts the service."""
    clock = SystemClock()
    found = prepare(settings, clock)
    with closing(create_store(settings, found)) as windows:
        windows.check()
        check_clock(windows, clock, settings.parameters.tolerance)
        yield found, windows


def wait_ready(settings: Settings, found: Preflight, windows: RedisStore, eventually: Eventually) -> None:
    """Start the service, and wait until it is ready."""
    health = Health()
    service = Service(settings, found, windows, SystemClock(), create_noise(), Metrics(), health)
    try:
        service.start()
        eventually(lambda: service.ended.is_set() or not health.list_waiting(), 60)
        assert service.failure is None, service.failure
    finally:
        service.stop()


def run_if_accepted(path: Path, eventually: Eventually) -> None:
    """If `check` accepts a configuration, create its topics, check the servers, and run the service until ready."""
    if not is_accepted(path):
        return
    created = run_command("topics", "--config", path, "--create")
    assert created.exit_code == 0, (created.output, created.exception, path.read_text())
    assert run_command("topics", "--config", path).exit_code == 0
    found_settings = load_settings(path)
    with prepare_servers(found_settings) as (found, windows):
        wait_ready(found_settings, found, windows, eventually)


@pytest.mark.promise(36)
@pytest.mark.parametrize("examples", [8, pytest.param(400, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)])])
def test_accepted_configurations_run(
    examples: int,
    kafka: SharedKafka,
    valkey: EmbeddedValkey,
    topic: Callable[[str], str],
    tmp_path: Path,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Configurations that `check` accepts run on new servers. `make soak` draws more of them."""
    monkeypatch.setenv("LOCATION_MONITOR__VISITS__PERSON_KEY", KEY)

    @settings(max_examples=examples, deadline=None, derandomize=examples < 400, database=None)
    @given(draw_configurations())
    def run(drawn: tuple[dict[str, Any], list[str]]) -> None:
        path = write_files(tmp_path, drawn, topic("drawn"), kafka.bootstrap_servers, valkey.url)
        run_if_accepted(path, eventually)

    run()


def test_check_accepts_or_explains(tmp_path: Path) -> None:
    """`check` accepts or explains each of 40 configurations; no servers are used."""
    accepted = set()

    @settings(max_examples=40, deadline=None, derandomize=True, database=None)
    @given(draw_configurations())
    def check(drawn: tuple[dict[str, Any], list[str]]) -> None:
        accepted.add(is_accepted(write_files(tmp_path, drawn, "drawn", "localhost:1", "redis://localhost:1")))

    check()
    assert accepted == {True, False}
