"""Known ways to break a promise, each a small patch, and the tests that must catch it.

A patch is applied to a copy of the package and the tests. The tests that its header names run in that copy, and each
of them must fail. Without a patch all of them pass, so it is the patch that they catch.

    Breaks: what the patch breaks, and the rule of docs/rules.md
    Caught by: tests/….py::test_…
    --- a/monitor/….py              a unified diff; a hunk applies where its old lines occur, exactly once
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.forking import Program

REPOSITORY = Path(__file__).parents[2]
PATCHES = sorted((Path(__file__).parent / "patches").glob("*.patch"))
COPIED = ("monitor", "tests")
PLUGIN = "only_the_copy"
RUN_TESTS = Path(__file__).with_name("run_tests.py")
LIBRARIES = (
    "click",
    "crc32c",
    "hypothesis.strategies",
    "kafka.admin",
    "kafka.consumer",
    "kafka.producer",
    "lz4.frame",
    "msgspec",
    "numpy",
    "prometheus_client",
    "pydantic",
    "pytest",
    "redis",
    "redis.cluster",
    "rich.console",
    "rich.progress",
    "rich.table",
    "snappy",
    "yaml",
    "zstandard",
)
"""What the copy's tests import from elsewhere."""


@dataclass(frozen=True)
class Hunk:
    """Lines of one file as they are, and as the mutant has them. `name` and `line` say where it is from."""

    path: str
    before: str
    after: str
    name: str
    line: int


@dataclass(frozen=True)
class Mutant:
    """One parsed patch."""

    breaks: str
    tests: tuple[str, ...]
    hunks: tuple[Hunk, ...]


def read_hunks(diff: str, patch: str) -> Iterator[Hunk]:
    """Yield the hunks of a diff; `patch` is the file name that errors report."""
    number = 0
    for part in re.split(r"^(?=--- a/)", diff, flags=re.MULTILINE)[1:]:
        head, *hunks = re.split(r"^@@ -(\d+).*@@.*\n", part, flags=re.MULTILINE)
        path = head.splitlines()[0].removeprefix("--- a/")
        for line, hunk in zip(hunks[::2], hunks[1::2], strict=True):
            number += 1
            lines = hunk.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if line[0] in " -")
            after = "".join(line[1:] for line in lines if line[0] in " +")
            yield Hunk(path, before, after, f"{patch}, hunk {number}", int(line))


def read_mutant(patch: Path) -> Mutant:
    head, _, _ = (text := patch.read_text(encoding="utf-8")).partition("\n\n")
    fields = [line.partition(": ") for line in head.splitlines()]
    breaks = [value for key, _, value in fields if key == "Breaks"]
    tests = tuple(value for key, _, value in fields if key == "Caught by")
    hunks = tuple(read_hunks(text, patch.name))
    assert len(breaks) == 1, f"{patch.name}: expected one line `Breaks: …`"
    assert tests, f"{patch.name}: expected a line `Caught by: …`"
    assert hunks, f"{patch.name}: expected a unified diff with paths a/… and b/…"
    return Mutant(breaks[0], tests, hunks)


def most_similar_line(text: str, before: str) -> int:
    """Return the number of the line where the most lines of `before` occur in order."""
    lines, wanted = text.splitlines(), before.splitlines()

    def count_equal(start: int) -> int:
        return sum(old == new for old, new in zip(wanted, lines[start:], strict=False))

    return max(range(len(lines)), key=count_equal) + 1


def apply(hunks: Sequence[Hunk], root: Path) -> None:
    for hunk in hunks:
        path = root / hunk.path
        text = path.read_text(encoding="utf-8")
        count = text.count(hunk.before)
        assert count == 1, (
            f"{hunk.name} no longer applies: {hunk.path} contains its old lines {count} times, expected once. "
            f"They were at line {hunk.line} when the patch was written; the most similar lines are now at line "
            f"{most_similar_line(text, hunk.before)}. Change the patch to match the code. Its old lines:\n{hunk.before}"
        )
        path.write_text(text.replace(hunk.before, hunk.after), encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like this repository, with copies of the package and the tests, and a plugin that refuses others.

    The copies have the files' times, so that Python's compiled files are valid for them.
    """
    folder = tmp_path_factory.mktemp("copy")
    for path in REPOSITORY.iterdir():
        if path.name in COPIED:
            shutil.copytree(path, folder / path.name)
        elif not path.name.startswith("."):
            (folder / path.name).symlink_to(path)
    (folder / f"{PLUGIN}.py").write_text(
        "import pathlib\nimport monitor\n\n\n"
        "def pytest_sessionstart(session):\n"
        "    assert pathlib.Path(monitor.__file__).parents[1] == pathlib.Path(__file__).parent, monitor.__file__\n",
        encoding="utf-8",
    )
    return folder


@contextmanager
def patched(hunks: Sequence[Hunk], copy: Path) -> Iterator[None]:
    """Apply a patch to the copy, and restore the original files at the end."""
    try:
        apply(hunks, copy)
        yield
    finally:
        for path in {hunk.path for hunk in hunks}:
            shutil.copy2(REPOSITORY / path, copy / path)


Run = Callable[[Sequence[str]], tuple[int, str]]


@pytest.fixture
def run(copy: Path, tmp_path: Path) -> Run:
    """Runs tests of this repository against the copy: pytest's exit code and output.

    The process is forked from one that has imported the libraries, but nothing of this repository.
    """

    def run_tests(tests: Sequence[str]) -> tuple[int, str]:
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        output = tmp_path / "output"
        program = Program([str(RUN_TESTS), PLUGIN, *tests], output, None, environment, copy, LIBRARIES)
        code = program.wait()
        return code, output.read_text(encoding="utf-8")

    return run_tests


@pytest.mark.promise(9, 21)
@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_mutant_is_caught(patch: Path, copy: Path, run: Run) -> None:
    """Every test that a patch names fails on the code with the patch."""
    mutant = read_mutant(patch)
    with patched(mutant.hunks, copy):
        code, output = run(mutant.tests)
    last = output.strip().splitlines()[-1]
    assert code == pytest.ExitCode.TESTS_FAILED, f"no test catches the mutant that breaks {mutant.breaks}\n{output}"
    assert re.match(r"\d+ failed in ", last), f"a test of the patch passes, or has an error instead\n{output}"


@pytest.mark.promise(37)
def test_tests_pass_without_mutant(run: Run) -> None:
    """Every test that a patch names passes on the code without a patch."""
    tests = sorted({test for patch in PATCHES for test in read_mutant(patch).tests})
    code, output = run(tests)
    assert code == pytest.ExitCode.OK, output
    assert re.match(r"\d+ passed in ", output.strip().splitlines()[-1]), output


def test_stale_patch_is_reported(tmp_path: Path) -> None:
    """A patch whose old lines are gone fails, and the message has the patch, the hunk, and where the lines were."""
    (tmp_path / "module.py").write_text("one\ntwo\nthree\nfour\n", encoding="utf-8")
    diff = "--- a/module.py\n+++ b/module.py\n@@ -7,1 +7,1 @@\n-one\n+1\n@@ -9,2 +9,2 @@\n three\n-Four\n+4\n"
    with pytest.raises(AssertionError) as caught:
        apply(list(read_hunks(diff, "some.patch")), tmp_path)
    message = str(caught.value)
    assert message.startswith("some.patch, hunk 2 no longer applies: module.py contains its old lines 0 times")
    assert "at line 9 when" in message
    assert "are now at line 3." in message
