"""Format the storage of a new node by copying that of an earlier one, which is faster than Kafka's own command.

Kafka requires a formatted folder. Its command `StorageTool format` starts a separate Java, which takes a third as long
as the broker's start. It writes two files, which depend only on the version of Kafka, except for three ids.
`python -m monitor.tools.servers` keeps these files beside the archive of Kafka's classes.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_PROPERTIES: Final = "meta.properties"
_CHECKPOINT: Final = "bootstrap.checkpoint"


def find_kept_format(archive: Path) -> Path:
    """Return the folder of the kept files, for the path of an archive of classes."""
    return archive.with_suffix(".format")


def make_id() -> str:
    """Return a random UUID in Kafka's format of 22 characters. One with a leading dash would be parsed as an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def keep_format(data: Path, kept: Path) -> None:
    """Keep the files of a formatted folder. They appear in one step. If files were kept before, nothing changes."""
    if kept.exists():
        return
    with tempfile.TemporaryDirectory(prefix=".creating-", dir=kept.parent) as folder:
        created = Path(folder) / kept.name
        created.mkdir()
        for name in (_PROPERTIES, _CHECKPOINT):
            shutil.copyfile(data / name, created / name)
        created.replace(kept)


def copy_format(kept: Path, data: Path, cluster_id: str, node_id: int) -> bool:
    """Format a folder with the kept files and new ids. Return False, and create nothing, if there are no kept files."""
    try:
        checkpoint = (kept / _CHECKPOINT).read_bytes()
        lines = (kept / _PROPERTIES).read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    data.mkdir()
    (data / _CHECKPOINT).write_bytes(checkpoint)
    ids = {"cluster.id": cluster_id, "node.id": str(node_id), "directory.id": make_id()}
    text = "".join(f"{_replace_value(line, ids)}\n" for line in lines)
    (data / _PROPERTIES).write_text(text, encoding="utf-8")
    return True


def _replace_value(line: str, values: Mapping[str, str]) -> str:
    key = line.partition("=")[0]
    return f"{key}={values[key]}" if key in values else line
