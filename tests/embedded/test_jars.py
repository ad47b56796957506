"""Kafka's jars are fetched once, whole or not at all, and the user is told."""

from __future__ import annotations

import gc
import hashlib
import sys
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from monitor.errors import EmbeddedError
from monitor.tools.embedded import jars


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Keep requests out of the tests' output."""


@pytest.fixture
def central(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a Maven repository on loopback, which takes Maven Central's place and holds two small jars."""
    folder = tmp_path / "central"
    pinned = (_publish(folder, "first", b"one" * 1000), _publish(folder, "second", b"two" * 2000))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr("jgo.constants.MAVEN_CENTRAL_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("JGO_CONFIG_FILE", str(tmp_path / "absent.conf"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(jars, "pinned_jars", lambda: pinned)
    yield folder
    server.shutdown()
    server.server_close()
    thread.join()
    with warnings.catch_warnings():
        # On a failure jgo leaves the answer that it was reading to the garbage collector.
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        gc.collect()


def _publish(folder: Path, name: str, content: bytes) -> jars.Jar:
    jar = jars.Jar("org.example", name, "1.0", hashlib.sha256(content).hexdigest(), len(content))
    (folder / jar.path).parent.mkdir(parents=True)
    (folder / jar.path).write_bytes(content)
    return jar


def test_the_first_fetch_is_announced_with_its_size_and_the_next_start_is_silent(central: Path, tmp_path: Path) -> None:
    told: list[str] = []
    paths = jars.kafka_class_path(told.append, tmp_path / "m2")
    assert [path.read_bytes() for path in paths] == [b"one" * 1000, b"two" * 2000]
    assert "Fetching Apache Kafka 4.3.0 from Maven Central, once: 2 jars" in told[0]
    assert "Fetched" in told[-1]
    told.clear()
    assert jars.kafka_class_path(told.append, tmp_path / "m2") == paths
    assert told == []


def test_progress_tells_how_much_of_the_total_is_there(
    central: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "_REPORT_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(jars, "_MEGABYTE", 1000)
    told: list[str] = []
    jars.kafka_class_path(told.append, tmp_path / "m2")
    assert told[-2] == "  9.0 of 9.0 MB"


def test_a_jar_that_was_cut_off_is_fetched_again(central: Path, tmp_path: Path) -> None:
    first, _ = jars.kafka_class_path(lambda _: None, tmp_path / "m2")
    first.write_bytes(b"on")
    told: list[str] = []
    jars.kafka_class_path(told.append, tmp_path / "m2")
    assert first.read_bytes() == b"one" * 1000
    assert "1 jars" in told[0]


def test_an_altered_jar_is_refused_and_not_kept(central: Path, tmp_path: Path) -> None:
    first, _ = jars.pinned_jars()
    (central / first.path).write_bytes(b"eno" * 1000)
    with pytest.raises(EmbeddedError, match=r"first-1\.0\.jar has SHA-256 .* expected " + first.sha256):
        jars.kafka_class_path(lambda _: None, tmp_path / "m2")
    assert not (tmp_path / "m2" / first.path).exists()
    assert list((tmp_path / "m2").glob(".location-monitor-*")) == []


def test_without_a_network_the_error_says_what_to_do(
    central: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jgo.constants.MAVEN_CENTRAL_URL", "http://127.0.0.1:1")
    with pytest.raises(EmbeddedError, match=r"cannot be fetched from Maven Central.*Check the network"):
        jars.kafka_class_path(lambda _: None, tmp_path / "m2")


def test_a_jar_that_is_not_there_is_an_error_of_ours(central: Path, tmp_path: Path) -> None:
    (central / jars.pinned_jars()[0].path).unlink()
    with pytest.raises(EmbeddedError, match="cannot be fetched from Maven Central"):
        jars.kafka_class_path(lambda _: None, tmp_path / "m2")


def test_without_jgo_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jgo.config", None)
    with pytest.raises(EmbeddedError, match=r"jgo.*pip install 'location-monitor\[embedded\]'"):
        jars.kafka_class_path(lambda _: None)


def test_the_pinned_jars_are_of_one_kafka_and_one_log4j() -> None:
    """Resolved with its logger, Kafka 4.3 got kafka-clients 3.9: such a mixture fails only when it runs."""
    pinned = jars.pinned_jars()
    assert {jar.version for jar in pinned if jar.group == "org.apache.kafka"} == {jars.KAFKA_VERSION}
    assert len({jar.version for jar in pinned if jar.group == "org.apache.logging.log4j"}) == 1
    assert len({(jar.group, jar.artifact) for jar in pinned}) == len(pinned)
    assert all(len(jar.sha256) == 64 for jar in pinned)
