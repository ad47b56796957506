"""Files that may name people: only their owner reads them, and no link is followed."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from monitor.errors import UsageError
from monitor.new_files import OWNER_ONLY, PUBLIC, create_file, replace_file
from monitor.operate.convert.files import open_atomically
from tests.operate.convert.command import run, write

POINTS = ("person_id,location_id,time_utc", "olga,A,2026-01-05T09:00:00Z")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("name", ["v.csv", "v.csv.gz"])
def test_only_the_owner_reads(name: str, tmp_path: Path) -> None:
    """Visits are readable for their owner only, whatever the umask is and whoever could read an earlier file."""
    before = os.umask(0)
    try:
        write(tmp_path / name, "earlier").chmod(0o644)
        source = write(tmp_path / "p.csv", *POINTS)
        result = run("--visits", source, "--out", tmp_path / name, "--registry", tmp_path / "r.csv")
    finally:
        os.umask(before)
    assert result.exit_code == 0, result.output
    assert mode(tmp_path / name) == OWNER_ONLY
    assert mode(tmp_path / "r.csv") == PUBLIC


def test_no_link_is_followed(tmp_path: Path) -> None:
    """A link in the place of the file is replaced, and what it points to is unchanged."""
    victim = write(tmp_path / "victim", "keep me")
    for name in ("v.csv", "v.csv.part"):
        (tmp_path / name).symlink_to(victim)
    with open_atomically(tmp_path / "v.csv") as file:
        file.write(b"olga\n")
    assert victim.read_text() == "keep me\n"
    assert not (tmp_path / "v.csv").is_symlink()
    (tmp_path / "new").symlink_to(tmp_path / "nothing")
    with pytest.raises(FileExistsError), create_file(tmp_path / "new"):
        pass
    assert not (tmp_path / "nothing").exists()


def test_unfinished_name_is_unknown(tmp_path: Path) -> None:
    """Until a file is complete, it has another name each time, and only its owner reads it."""
    names = set()
    for _ in range(2):
        with replace_file(tmp_path / "v.csv"):
            (part,) = (path for path in tmp_path.iterdir() if path.name != "v.csv")
            names.add(part.name)
            assert mode(part) == OWNER_ONLY
    assert len(names) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["v.csv"]


@pytest.mark.parametrize("open_file", [create_file, replace_file])
def test_failure_leaves_nothing(open_file: Any, tmp_path: Path) -> None:
    """If writing fails, no file with a part of the people is left, and an earlier file stays."""
    if open_file is replace_file:
        write(tmp_path / "v.csv", "earlier")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(TypeError), open_file(tmp_path / "v.csv") as file:
        file.writelines([b"olga\n", None])
    assert sorted(tmp_path.iterdir()) == before


def test_device_is_not_replaced(tmp_path: Path) -> None:
    """A name that is no regular file is refused: it would be replaced by a file."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="no regular file"), replace_file(tmp_path / "pipe"):
        pass
