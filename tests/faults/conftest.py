"""Towns for fault tests, on shared servers, or on the test's own servers if the test breaks them."""

from __future__ import annotations

import gc
import logging
import random
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Final

import pytest

from monitor.operate.servers import EmbeddedValkey
from tests.faults.town import SIGNED, FaultTown, Shape
from tests.shared_kafka import SharedKafka

HERE: Final = Path(__file__).parent
LONGEST: Final = (
    "failpoints",
    "servers",
    "rolling",
    "brokers",
    "renewal",
    "lost_ticks",
    "batches",
    "beginnings",
    "walk",
    "changes",
    "connections",
    "redis_moves",
)
"""The files that take longest. A parallel run begins with them, so that no process ends long after the others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files. Ignore unclosed sockets of kafka-python: those of a broker that died remain."""
    first = [HERE / f"test_{name}.py" for name in LONGEST]
    items.sort(key=lambda item: first.index(item.path) if item.path in first else len(first))
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Collect such sockets after the test's fixtures are torn down, so that later tests do not get their warnings.

    pytest calls this hook for the tests of all folders. Only those with servers can leave sockets.
    """
    result = yield
    if item.get_closest_marker("servers") is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    return result


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect the sockets of the last tests, before pytest turns their warnings into errors at its end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


MakeTown = Callable[..., FaultTown]


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Silence kafka-python: its log records of failures keep sockets open for as long as pytest keeps the records."""
    logger = logging.getLogger("kafka")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(level)


@pytest.fixture(scope="session")
def store(valkey: EmbeddedValkey) -> Iterator[EmbeddedValkey]:
    """A Valkey that no test breaks, for faults of other servers."""
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture
def fragile_store(valkey: EmbeddedValkey) -> Iterator[EmbeddedValkey]:
    """A Valkey that the test may break. It loses its data at a restart."""
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture(scope="module")
def make_module_town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeTown]:
    """A function that makes towns for the whole module."""
    yield from _towns(tmp_path_factory.mktemp("towns"))


@pytest.fixture
def make_town(tmp_path: Path) -> Iterator[MakeTown]:
    """A function that makes towns, whose traffic flows: `make_town(kafka.bootstrap_servers, store.url, Shape(…))`."""
    yield from _towns(tmp_path)


def _towns(folder: Path) -> Iterator[MakeTown]:
    towns: list[FaultTown] = []

    def make(kafka: str, redis: str, shape: Shape | None = None, seed: int | None = None) -> FaultTown:
        seed = random.SystemRandom().getrandbits(32) if seed is None else seed
        print(f"seed {seed}")
        town = FaultTown(folder / f"town-{len(towns)}", f"town-{seed:08x}", (kafka, redis), shape or Shape(), seed)
        towns.append(town)
        town.begin()
        return town

    yield make
    for town in towns:
        town.end()


@pytest.fixture(scope="module")
def module_town(kafka: SharedKafka, store: EmbeddedValkey, make_module_town: MakeTown) -> FaultTown:
    """One town for the whole module, on servers that no test breaks. It has answered, and no instance runs.

    Its answers are signed.
    """
    town = make_module_town(kafka.bootstrap_servers, store.url, Shape(changes=SIGNED))
    first = town.start()
    town.subscriber.wait_complete()
    first.kill()
    return town
