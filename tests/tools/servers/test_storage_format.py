"""The storage of a node, formatted with kept files."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from monitor.tools.servers import EmbeddedKafka, NodeSettings
from monitor.tools.servers.storage_format import copy_format, find_kept_format, keep_format, make_id
from tests.shared_kafka import SharedKafka


def _read_ids(data: Path) -> dict[str, str]:
    lines = (data / "meta.properties").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


@pytest.fixture
def kept(kafka: SharedKafka, tmp_path: Path) -> Path:
    """The files of the session's broker, kept."""
    kept = find_kept_format(tmp_path / "classes.aot")
    keep_format(Path(kafka.folder) / "data", kept)
    return kept


def test_copied_storage_has_its_own_ids(kafka: SharedKafka, kept: Path, tmp_path: Path) -> None:
    """A copy has its own ids of cluster, node and folder, and otherwise the same properties and the same checkpoint."""
    first, second = Path(kafka.folder) / "data", tmp_path / "data"
    cluster = make_id()
    assert copy_format(kept, second, cluster, 7)
    ids, earlier = _read_ids(second), _read_ids(first)
    assert (ids["cluster.id"], ids["node.id"], ids["version"]) == (cluster, "7", earlier["version"])
    assert ids["directory.id"] != earlier["directory.id"]
    assert ids.keys() == earlier.keys()
    assert (second / "bootstrap.checkpoint").read_bytes() == (first / "bootstrap.checkpoint").read_bytes()


def test_without_kept_files_nothing_is_written(tmp_path: Path) -> None:
    """Without kept files, the folder is left to Kafka's own command."""
    assert not copy_format(tmp_path / "missing", tmp_path / "data", make_id(), 1)
    assert not (tmp_path / "data").exists()


def test_kept_files_do_not_change(kafka: SharedKafka, kept: Path) -> None:
    """Files that were kept once are not replaced."""
    (kept / "meta.properties").write_text("version=1\n", encoding="utf-8")
    keep_format(Path(kafka.folder) / "data", kept)
    assert (kept / "meta.properties").read_text(encoding="utf-8") == "version=1\n"


def test_nodes_start_with_kept_files(kafka: SharedKafka, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With kept files, two nodes start as a cluster of their own, without Kafka's command."""
    monkeypatch.setattr("monitor.tools.servers.kafka.find_kept_format", lambda _archive: kept)
    monkeypatch.setattr(EmbeddedKafka, "_run", lambda *_: pytest.fail("the command of Kafka was used"))
    with (
        EmbeddedKafka() as one,
        EmbeddedKafka(NodeSettings(node_id=2, quorum=one.quorum)) as two,
        closing(KafkaAdminClient(bootstrap_servers=two.bootstrap_servers)) as admin,
    ):
        found = admin.describe_cluster()
        cluster = one.quorum.cluster_id
    assert found["cluster_id"] == cluster
    assert len(found["brokers"]) == 2
