"""The folder of the page: names, whole files, one writer, a full disk, and a writer that is killed."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from monitor.errors import FailedError, UsageError
from monitor.page.write_changed_files import LOCK, PART, Folder, name_place

HUGE = b"x" * 300_000
WRITER = """
import itertools, sys
from pathlib import Path
from monitor.page.write_changed_files import Folder
with Folder(Path(sys.argv[1])) as folder:
    print("ready", flush=True)
    for number in itertools.count():
        folder.write("a/states.json", b"%d" % (number % 10) * 200_000)
"""


def list_files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    ("location_id", "name"),
    [
        ("market-7", "places/market-7"),
        ("..", "places/_2e_2e"),
        ("../../etc/passwd", "places/_2e_2e_2f_2e_2e_2fetc_2fpasswd"),
        ("a%2fb", "places/a_252fb"),
        ("a_2fb", "places/a_5f2fb"),
        ("A", "places/_41"),
        ("学校", "places/_e5_ad_a6_e6_a0_a1"),
        ("a\x00\n", "places/a_00_0a"),
    ],
)
def test_name_is_safe(location_id: str, name: str) -> None:
    """The name of a place has no character that means something to a file system, a web server or an address."""
    assert name_place(location_id) == name


def test_names_differ(tmp_path: Path) -> None:
    """Ids that are similar have different files, also where case does not count, and each id of 256 bytes has one."""
    ids = ["a", "A", "a/", "/a", "a.", "a%2f", "a_2f", "é", "e\u0301", "x" * 256, "x" * 255, "x" * 120, "x" * 121]
    ids += ["/" * 256, "é" * 128, "." * 256]
    names = [name_place(each).lower() for each in ids]
    assert len(set(names)) == len(ids)
    with Folder(tmp_path) as folder:
        for each in ids:
            folder.write(f"{name_place(each)}.json", each.encode())
        for each in ids:
            assert (tmp_path / f"{name_place(each)}.json").read_bytes() == each.encode()
    assert list_files(tmp_path) == {f"{name_place(each)}.json" for each in ids} | {LOCK}


def test_only_changes_are_written(tmp_path: Path) -> None:
    """A file is replaced only if its content has changed. Each replacement has a later second, so another ETag."""
    with Folder(tmp_path) as folder:
        assert folder.write("a", HUGE)
        before = (tmp_path / "a").stat()
        assert not folder.write("a", HUGE)
        assert (tmp_path / "a").stat() == before
        seconds = [before.st_mtime]
        for number in range(3):
            assert folder.write("a", HUGE[1:] + b"%d" % number)
            seconds.append((tmp_path / "a").stat().st_mtime)
    assert all(later >= earlier + 1 for earlier, later in pairwise(seconds))
    with Folder(tmp_path) as folder:
        assert folder.write("a", HUGE)
        assert (tmp_path / "a").stat().st_mtime >= seconds[-1] + 1


def test_twin_has_same_content(tmp_path: Path) -> None:
    """The compressed twin has the content of its file. A file that is short has none, also if it was long before."""
    with Folder(tmp_path) as folder:
        folder.write("a", HUGE)
        assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == HUGE
        assert (tmp_path / "a.gz").stat().st_mtime == (tmp_path / "a").stat().st_mtime
        folder.write("a", b"short")
    assert list_files(tmp_path) == {"a", LOCK}


def test_unwanted_files_are_removed(tmp_path: Path) -> None:
    """What an earlier page left behind is removed: a place that is gone, and a file that was not completed."""
    with Folder(tmp_path) as folder:
        folder.write("places/gone.json", HUGE)
        folder.write("places/here.json", HUGE)
    (tmp_path / PART).write_bytes(b"half")
    with Folder(tmp_path) as folder:
        folder.remove_others({"places/here.json"})
    assert list_files(tmp_path) == {"places/here.json", "places/here.json.gz", LOCK}


def test_second_writer_is_refused(tmp_path: Path) -> None:
    """A folder has one writer at a time, also in one process; the next one may begin when it has ended."""
    with Folder(tmp_path), pytest.raises(FailedError, match="another page writes already"), Folder(tmp_path):
        pass
    with Folder(tmp_path):
        pass


def test_foreign_folder_is_refused(tmp_path: Path) -> None:
    """A folder that has files of something else is refused, and keeps them."""
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(UsageError, match=r"--out is .* has files of something else"), Folder(tmp_path):
        pass
    assert list_files(tmp_path) == {"thesis.txt"}


def test_unusable_folder_is_refused(tmp_path: Path) -> None:
    """A path that is no folder is refused with the reason."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(FailedError, match="cannot be written"), Folder(tmp_path / "file" / "page"):
        pass


@pytest.mark.parametrize("attempt", range(8))
def test_killed_writer_leaves_whole_files(tmp_path: Path, attempt: int) -> None:
    """A writer that is killed at any moment leaves a whole file and a whole twin, and the next one may begin.

    The writer replaces two files 200 KB long as fast as it can; it is killed after 0 to 70 ms.
    """
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        while not (tmp_path / "a/states.json.gz").exists():
            assert writer.poll() is None
        time.sleep(attempt / 100)  # the moment of the kill, not a wait for something
        writer.send_signal(signal.SIGKILL)
    for content in (
        (tmp_path / "a/states.json").read_bytes(),
        gzip.decompress((tmp_path / "a/states.json.gz").read_bytes()),
    ):
        assert len(content) == 200_000
        assert len(set(content)) == 1
    with Folder(tmp_path) as folder:
        folder.write("a/states.json", HUGE)
        folder.remove_others({"a/states.json"})
    assert list_files(tmp_path) == {"a/states.json", "a/states.json.gz", LOCK}


def test_full_disk_keeps_the_file(tmp_path: Path) -> None:
    """If a file cannot be written whole, the earlier content stays, and the part of the new one takes no space.

    The limit of a file's size stands for a full disk: a write ends in the middle.
    """
    code = """
import resource, signal, sys
from pathlib import Path
from monitor.page.write_changed_files import Folder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Folder(Path(sys.argv[1])) as folder:
    folder.write("a", b"before" * 1_000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        folder.write("a", b"x" * 300_000)
    except OSError as error:
        print(error.strerror)
    print(folder.write("a", b"after" * 1_000))
"""
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert result.stdout == f"{os.strerror(27)}\nTrue\n"
    assert (tmp_path / "a").read_bytes() == b"after" * 1_000
    assert list_files(tmp_path) == {"a", "a.gz", LOCK}
