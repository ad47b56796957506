"""The archive of Kafka's classes: optional, created once for a Java and its jars, and ignored if it is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.tools.servers import EmbeddedKafka
from monitor.tools.servers.class_archive import archive_options, archive_path
from monitor.tools.servers.jars import fetch_kafka, find_java


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, so that other tests keep their archive."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_without_archive_no_option_is_added() -> None:
    """Without an archive, Java gets no option for it."""
    assert archive_options(find_java(), [Path("a.jar")]) == ()


def test_archive_belongs_to_java_and_jars(cache: Path) -> None:
    """The archive's path depends on the Java runtime and on the jars."""
    java = find_java()
    path = archive_path(java, [Path("a.jar")])
    assert path.is_relative_to(cache)
    assert path == archive_path(java, [Path("a.jar")])
    assert path != archive_path(java, [Path("b.jar")])


def test_created_archive_is_used() -> None:
    """An archive is created once, and Kafka then starts with it."""
    java, jars = find_java(), fetch_kafka(print)
    EmbeddedKafka().archive_classes()
    assert archive_path(java, jars).exists()
    assert archive_options(java, jars)[0] == f"-XX:AOTCache={archive_path(java, jars)}"
    with EmbeddedKafka() as server:
        assert server.is_running()


def test_damaged_archive_is_ignored() -> None:
    """Kafka starts although its archive is damaged."""
    java, jars = find_java(), fetch_kafka(print)
    path = archive_path(java, jars)
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(range(256)) * 1_000)
    assert archive_options(java, jars)
    with EmbeddedKafka() as server:
        assert server.is_running()
