"""Towns under fault: servers of one test's own where it breaks them, the session's where it does not."""

from __future__ import annotations

import gc
import logging
import random
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Final

import pytest

from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey, ValkeySettings
from tests.faults.oracles import Verdict, settle
from tests.faults.processes import Instance
from tests.faults.town import Shape, Subscriber, Town

HERE: Final = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let kafka-python's sockets be: it leaves those of a broker that died to the garbage collector."""
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Collect such sockets once the test's fixtures are let go of too: their warnings would hit tests of others."""
    done = yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    return done


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect those of the last tests too, before pytest takes their warnings for errors at its end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class Scene:
    """A town with its subscriber: traffic flows, and nothing runs yet."""

    def __init__(self, town: Town) -> None:
        self.town = town
        town.create()
        self.subscriber = Subscriber(town)
        town.traffic.start()

    def start(self, *arguments: str) -> Instance:
        """Start an instance (armed.py's arguments)."""
        return self.town.start(*arguments)

    def settle(self, instance: Instance) -> Verdict:
        """End everything in order, and judge it."""
        return settle(self.town, self.subscriber, instance)

    def end(self) -> None:
        """End everything at once; settling before makes this do nothing."""
        self.town.end()
        self.subscriber.stop()


MakeScene = Callable[..., Scene]


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Have kafka-python not log: each of its records of a failure holds the socket, for as long as pytest keeps it."""
    logger = logging.getLogger("kafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


@pytest.fixture(scope="session")
def store(valkey: EmbeddedValkey) -> Iterator[EmbeddedValkey]:
    """A Valkey that nobody breaks, for the faults of other servers."""
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture
def fragile_store(valkey: EmbeddedValkey) -> Iterator[EmbeddedValkey]:
    """A Valkey of the test's own, to be broken; it keeps nothing over a restart."""
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture
def lasting_store(valkey: EmbeddedValkey) -> Iterator[EmbeddedValkey]:
    """A Valkey of the test's own that writes each command to its disk."""
    with EmbeddedValkey(ValkeySettings(appendonly=True, arguments=("--appendfsync", "always"))) as server:
        yield server


@pytest.fixture(scope="module")
def make_module_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeScene]:
    """Makes scenes that last for the module."""
    yield from _scenes(tmp_path_factory.mktemp("towns"))


@pytest.fixture
def make_scene(tmp_path: Path) -> Iterator[MakeScene]:
    """Makes scenes: `make_scene(kafka.bootstrap_servers, store.url, Shape(queues=1))`."""
    yield from _scenes(tmp_path)


def _scenes(folder: Path) -> Iterator[MakeScene]:
    made: list[Scene] = []

    def scene(kafka: str, redis: str, shape: Shape | None = None, seed: int | None = None) -> Scene:
        drawn = random.SystemRandom().getrandbits(32) if seed is None else seed
        print(f"seed {drawn}")
        town = Town(folder / f"town-{len(made)}", f"town-{drawn:08x}", (kafka, redis), shape or Shape(), drawn)
        made.append(Scene(town))
        return made[-1]

    yield scene
    for one in made:
        one.end()


@pytest.fixture(scope="module")
def module_scene(kafka: EmbeddedKafka, store: EmbeddedValkey, make_module_scene: MakeScene) -> Scene:
    """One town for the whole module, on servers that nobody breaks, that has answered and runs no more."""
    scene = make_module_scene(kafka.bootstrap_servers, store.url)
    first = scene.start()
    scene.subscriber.wait_whole()
    first.kill()
    return scene
