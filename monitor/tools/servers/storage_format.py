"""Format the storage of a new node. Kafka's command `StorageTool format` would start a separate Java for it.

The command writes two files. `meta.properties` has ids. `bootstrap.checkpoint` depends only on the version of Kafka,
except for its times: the one that the command wrote is beside the lock of the version's jars, and a test compares it
with the command's output.
"""

from __future__ import annotations

import base64
import uuid
from pathlib import Path

from monitor.tools.servers.jars import find_lock


def make_id() -> str:
    """Return a random UUID in Kafka's format of 22 characters. One with a leading dash would be parsed as an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def format_storage(data: Path, cluster_id: str, node_id: int) -> None:
    """Create a folder for the data of a node, and write both files."""
    data.mkdir()
    (data / "bootstrap.checkpoint").write_bytes(find_lock().with_suffix(".checkpoint").read_bytes())
    ids = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": make_id()}
    text = "".join(f"{key}={value}\n" for key, value in ids.items())
    (data / "meta.properties").write_text(text, encoding="utf-8")
