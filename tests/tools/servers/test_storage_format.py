"""The storage of a node, formatted without Kafka's own command."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from monitor.tools.servers.jars import fetch_kafka, find_java
from monitor.tools.servers.storage_format import format_storage, make_id

_NODE = """
process.roles=broker,controller
node.id=7
controller.quorum.voters=7@127.0.0.1:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
log.dirs={data}
"""


def read_names(checkpoint: Path) -> list[bytes]:
    """Return the names of the features in a checkpoint."""
    return re.findall(rb"[a-z.]{8,}", checkpoint.read_bytes())


def test_format_is_that_of_the_command(tmp_path: Path) -> None:
    """The files have the keys, the features and the size of those that this version of Kafka writes, and other ids."""
    own, ours, cluster = tmp_path / "own", tmp_path / "ours", make_id()
    (tmp_path / "server.properties").write_text(_NODE.format(data=own), encoding="utf-8")
    jars = os.pathsep.join(map(str, fetch_kafka(print)))
    words = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(tmp_path / "server.properties")]
    subprocess.run([str(find_java()), "-cp", jars, *words], check=True, capture_output=True)
    format_storage(ours, cluster, 7)
    name = "bootstrap.checkpoint"
    assert read_names(ours / name) == read_names(own / name) != []
    assert (ours / name).stat().st_size == (own / name).stat().st_size
    first, second = (
        dict(line.split("=", 1) for line in (data / "meta.properties").read_text().splitlines() if "=" in line)
        for data in (own, ours)
    )
    assert first.pop("directory.id") != second.pop("directory.id")
    assert first == second
