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
from tests.faults.oracles import Verdict, settle
from tests.faults.subscriber import Subscriber
from tests.faults.town import SIGNED, FaultTown, Shape
from tests.kit.processes import Instance
from tests.kit.programs import warm_up
from tests.shared_kafka import SharedKafka

HERE: Final = Path(__file__).parent
LONGEST: Final = ("failpoints", "servers", "rolling", "beginnings", "redis_moves", "renewal", "lost_ticks", "batches")
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


class Scene:
    """A town with traffic and a subscriber. No instance runs yet."""

    def __init__(self, town: FaultTown) -> None:
        self.town = town
        # The service's first start skips records that are too old to count, so it must soon follow the first visits.
        warm_up()
        town.create()
        self.subscriber = Subscriber(town)
        town.traffic.start()

    def start(self, *arguments: str) -> Instance:
        """Start an instance with arguments of armed.py."""
        return self.town.start(*arguments)

    def settle(self, instance: Instance, *towns: FaultTown) -> Verdict:
        """End traffic and service in order, and judge everything.

        `towns`: the town under each configuration that was in force, newest first.
        """
        newest, *earlier = towns or (self.town,)
        return settle(newest, self.subscriber, instance, *(town.config for town in earlier))

    def end(self) -> None:
        """End everything at once. After `settle` there is nothing left to end."""
        self.town.end()
        self.subscriber.stop()


MakeScene = Callable[..., Scene]


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
def make_module_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeScene]:
    """A function that makes scenes for the whole module."""
    yield from _scenes(tmp_path_factory.mktemp("towns"))


@pytest.fixture
def make_scene(tmp_path: Path) -> Iterator[MakeScene]:
    """A function that makes scenes: `make_scene(kafka.bootstrap_servers, store.url, Shape(ledger_partitions=1))`."""
    yield from _scenes(tmp_path)


def _scenes(folder: Path) -> Iterator[MakeScene]:
    scenes: list[Scene] = []

    def make(kafka: str, redis: str, shape: Shape | None = None, seed: int | None = None) -> Scene:
        seed = random.SystemRandom().getrandbits(32) if seed is None else seed
        print(f"seed {seed}")
        town = FaultTown(folder / f"town-{len(scenes)}", f"town-{seed:08x}", (kafka, redis), shape or Shape(), seed)
        scenes.append(Scene(town))
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.end()


@pytest.fixture(scope="module")
def module_scene(kafka: SharedKafka, store: EmbeddedValkey, make_module_scene: MakeScene) -> Scene:
    """One town for the whole module, on servers that no test breaks. It has answered, and no instance runs.

    Its answers are signed.
    """
    scene = make_module_scene(kafka.bootstrap_servers, store.url, Shape(changes=SIGNED))
    first = scene.start()
    scene.subscriber.wait_complete()
    first.kill()
    return scene
