"""Known ways to break the promise, each a small patch, and the test that catches each.

A patch is applied to a copy of the package and the tests. The tests that its header names run in that copy, and each
of them must fail. Without a patch all of them pass, so it is the patch that they catch.

    Breaks: what the patch breaks, and which rule of the privacy model it is
    Caught by: tests/….py::test_…
    --- a/monitor/….py              a unified diff; its line numbers are not looked at
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PATCHES = sorted((Path(__file__).parent / "patches").glob("*.patch"))
PLUGIN = "only_the_copy"


@dataclass(frozen=True)
class Hunk:
    """Lines of one file as they are, and as the mutant has them."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Mutant:
    """One patch, read."""

    breaks: str
    tests: tuple[str, ...]
    hunks: tuple[Hunk, ...]


def read_hunks(diff: str) -> Iterator[Hunk]:
    for part in re.split(r"^(?=--- a/)", diff, flags=re.MULTILINE)[1:]:
        head, *hunks = re.split(r"^@@.*@@.*\n", part, flags=re.MULTILINE)
        path = head.splitlines()[0].removeprefix("--- a/")
        for hunk in hunks:
            lines = hunk.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if line[0] in " -")
            yield Hunk(path, before, "".join(line[1:] for line in lines if line[0] in " +"))


def read_mutant(patch: Path) -> Mutant:
    head, _, _ = (text := patch.read_text(encoding="utf-8")).partition("\n\n")
    told = [line.partition(": ") for line in head.splitlines()]
    breaks = [value for key, _, value in told if key == "Breaks"]
    tests = tuple(value for key, _, value in told if key == "Caught by")
    hunks = tuple(read_hunks(text))
    assert len(breaks) == 1, f"{patch.name}: expected one line `Breaks: …`"
    assert tests, f"{patch.name}: expected a line `Caught by: …`"
    assert hunks, f"{patch.name}: expected a unified diff with paths a/… and b/…"
    return Mutant(breaks[0], tests, hunks)


def apply(hunks: Sequence[Hunk], root: Path) -> None:
    for hunk in hunks:
        path = root / hunk.path
        text = path.read_text(encoding="utf-8")
        found = text.count(hunk.before)
        assert found == 1, (
            f"the patch no longer applies: {hunk.path} holds these lines {found} times, not once; make it anew for the "
            f"code as it is now:\n{hunk.before}"
        )
        path.write_text(text.replace(hunk.before, hunk.after), encoding="utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder like this repository, with copies of the package and the tests, and a plugin that refuses others."""
    for path in REPOSITORY.iterdir():
        if path.name in {"monitor", "tests"}:
            shutil.copytree(path, tmp_path / path.name)
        elif not path.name.startswith("."):
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / f"{PLUGIN}.py").write_text(
        "import pathlib\nimport monitor\n\n\n"
        "def pytest_sessionstart(session):\n"
        "    assert pathlib.Path(monitor.__file__).parents[1] == pathlib.Path(__file__).parent, monitor.__file__\n",
        encoding="utf-8",
    )
    return tmp_path


Run = Callable[[Sequence[str]], tuple[int, str]]


@pytest.fixture
def run(copy: Path) -> Run:
    """Runs tests of this repository against the copy: pytest's exit code and what it said."""

    def run_tests(tests: Sequence[str]) -> tuple[int, str]:
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        options = ["-p", PLUGIN, "-p", "no:cacheprovider", "-q", "--no-header", "--tb=line", "-m", ""]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", *options, *tests],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run_tests


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_the_mutant_is_caught_by_every_test_that_its_patch_names(patch: Path, copy: Path, run: Run) -> None:
    mutant = read_mutant(patch)
    apply(mutant.hunks, copy)
    code, said = run(mutant.tests)
    last = said.strip().splitlines()[-1]
    assert code == pytest.ExitCode.TESTS_FAILED, f"nothing catches the mutant that breaks {mutant.breaks}\n{said}"
    assert re.match(r"\d+ failed in ", last), f"not all of its tests catch it, or not as tests\n{said}"


def test_without_a_mutant_all_of_these_tests_pass(run: Run) -> None:
    tests = sorted({test for patch in PATCHES for test in read_mutant(patch).tests})
    code, said = run(tests)
    assert code == pytest.ExitCode.OK, said
    assert re.match(r"\d+ passed in ", said.strip().splitlines()[-1]), said


def test_a_patch_that_no_longer_applies_is_told(copy: Path) -> None:
    """Never passed over: a mutant that isn't there is a test that catches nothing."""
    with pytest.raises(AssertionError, match="no longer applies"):
        apply([Hunk("monitor/public/slot_grid.py", "what was there before\n", "")], copy)
