"""Fetch Apache Kafka's jars once from Maven Central with jgo. `kafka.lock` pins each jar's name, size and SHA-256.

The pinned list ensures that the fetched jars are those that were tested, and gives the total size for progress
messages. A jar's SHA-256 is checked when it is fetched, and at each start, because Maven's local repository is shared
with other programs. Each jar is moved there in one step, so that no partial jar appears.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from monitor.errors import EmbeddedError

Report = Callable[[str], None]

KAFKA_VERSION = "4.3.0"
EXTRA = "pip install 'location-monitor[embedded]'"
"""The command that installs what the servers need, for error messages."""

_CONNECTIONS = 4
_REPORT_EVERY_SECONDS = 2.0
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned jar: Maven coordinates, SHA-256 in hexadecimal, size in bytes."""

    group: str
    artifact: str
    version: str
    sha256: str
    size: int

    @property
    def path(self) -> Path:
        """The path in Maven's layout, relative to a repository."""
        return Path(*self.group.split("."), self.artifact, self.version, f"{self.artifact}-{self.version}.jar")


def read_pinned_jars() -> tuple[Jar, ...]:
    """Return the jars of the class path. Each line of `kafka.lock` has a SHA-256, a size and group:artifact:version."""
    text = resources.files("monitor.tools.servers").joinpath("kafka.lock").read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(_parse_jar(sha256, int(size), name) for sha256, size, name in rows)


def _parse_jar(sha256: str, size: int, name: str) -> Jar:
    group, artifact, version = name.split(":")
    return Jar(group, artifact, version, sha256, size)


def fetch_kafka(report: Report, repository: Path | None = None) -> tuple[Path, ...]:
    """Fetch the missing jars and return the paths of all jars.

    If a jar is missing, `report` is called with a line before the fetch, about every two seconds, and after the fetch.
    `repository` is a local Maven repository. The default is the one in jgo's configuration (`~/.m2/repository`).

    Raises:
        EmbeddedError: jgo is missing, or a jar could not be fetched.
    """
    settings = _import_jgo("jgo.config").GlobalSettings.load()
    repository = repository or Path(settings.repo_cache)
    jars = read_pinned_jars()
    missing = tuple(jar for jar in jars if not _is_whole(repository / jar.path, jar))
    if missing:
        _Fetch(missing, repository, settings.repositories, report).run()
    return tuple(repository / jar.path for jar in jars)


def _is_whole(path: Path, jar: Jar) -> bool:
    """Return whether the file is the pinned jar. All 44 MB are hashed in less than a second."""
    try:
        return path.stat().st_size == jar.size and hashlib.sha256(path.read_bytes()).hexdigest() == jar.sha256
    except FileNotFoundError:
        return False


def _import_jgo(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EmbeddedError(
            f"jgo is not installed and is needed to fetch Apache Kafka {KAFKA_VERSION} ({error}): {EXTRA}."
        ) from error


class _Cancelled(Exception):  # noqa: N818 - not an error: it ends a download that is no longer needed
    """Another download failed, or the user pressed Ctrl-C."""


class _Fetch:
    """One fetch of several jars over a few connections, with progress messages."""

    def __init__(self, jars: tuple[Jar, ...], repository: Path, mirrors: dict[str, str], report: Report) -> None:
        self._jars = jars
        self._repository = repository
        self._mirrors = mirrors
        self._report = report
        self._total = sum(jar.size for jar in jars)
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._bytes = 0
        self._reported_at = time.monotonic()

    def run(self) -> None:
        self._report(
            f"Fetching Apache Kafka {KAFKA_VERSION} from Maven Central, once: "
            f"{len(self._jars)} jars, {self._total / _MEGABYTE:.0f} MB, kept in {self._repository} …"
        )
        started = time.monotonic()
        try:
            self._repository.mkdir(parents=True, exist_ok=True)
            # The staging folder is on the same file system, so each complete jar is moved into place in one step.
            with tempfile.TemporaryDirectory(prefix=".location-monitor-", dir=self._repository) as staging:
                self._fetch_all(Path(staging))
        except (OSError, RuntimeError) as error:  # requests' errors are OSErrors, jgo's own are RuntimeErrors
            raise EmbeddedError(
                f"Apache Kafka {KAFKA_VERSION} cannot be fetched from Maven Central into {self._repository}: {error}. "
                "Check the network (HTTPS_PROXY, or a mirror under [repositories] in ~/.config/jgo.conf) and the "
                "disk, then try again; jars already fetched are kept. "
                "Or configure your own servers and omit --embedded."
            ) from error
        self._report(f"Fetched Apache Kafka {KAFKA_VERSION} in {time.monotonic() - started:.0f} s.")

    def _fetch_all(self, staging: Path) -> None:
        maven = _import_jgo("jgo.maven")
        context = maven.MavenContext(
            resolver=maven.PythonResolver(progress_callback=self._show_progress),
            repo_cache=staging,
            local_repos=[],
            remote_repos={**self._mirrors, "central": _import_jgo("jgo.constants").MAVEN_CENTRAL_URL},
            timeout=30,
        )
        with ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="fetch-jars") as pool:
            try:
                # The largest jars are fetched first. Otherwise one might still be downloading when all others are done.
                ordered = sorted(self._jars, key=lambda jar: -jar.size)
                for future in [pool.submit(self._fetch, jar, context) for jar in ordered]:
                    future.result()
            except BaseException:
                self._cancelled.set()
                raise

    def _fetch(self, jar: Jar, context: Any) -> None:
        if self._cancelled.is_set():
            raise _Cancelled
        staged = Path(context.project(jar.group, jar.artifact).at_version(jar.version).artifact().resolve())
        sha256 = hashlib.sha256(staged.read_bytes()).hexdigest()
        if sha256 != jar.sha256:
            raise OSError(f"{jar.path.name} has SHA-256 {sha256}, expected {jar.sha256} (truncated or altered)")
        target = self._repository / jar.path
        target.parent.mkdir(parents=True, exist_ok=True)
        staged.replace(target)

    @contextlib.contextmanager
    def _show_progress(self, _filename: str, _size: int) -> Iterator[Callable[[int], None]]:
        yield self._add

    def _add(self, count: int) -> None:
        if self._cancelled.is_set():
            raise _Cancelled
        with self._lock:
            self._bytes += count
            if time.monotonic() - self._reported_at < _REPORT_EVERY_SECONDS:
                return
            self._reported_at = time.monotonic()
            self._report(f"  {self._bytes / _MEGABYTE:.1f} of {self._total / _MEGABYTE:.1f} MB")
