"""Known ways to break a promise, each a small change of the code, and the tests that must catch it.

A mutant (see `tests.mutants.mutants`) is applied to a copy of the package and the tests. The tests that it names run in
that copy, and each of them must fail. Without a mutant all of them pass, so it is the mutant that they catch.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.mutants.mutants import KNOWN, apply_change, read_mutant

REPOSITORY = Path(__file__).parents[2]
PLUGIN = "only_the_copy"


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
    """Runs tests of this repository against the copy: pytest's exit code and output."""

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


@pytest.mark.promise(9, 21)
@pytest.mark.parametrize("path", KNOWN, ids=lambda path: path.stem)
def test_mutant_is_caught(path: Path, copy: Path, run: Run) -> None:
    """Every test that a mutant names fails on the code with the mutant."""
    mutant = read_mutant(path)
    for change in mutant.changes:
        apply_change(change, copy)
    code, output = run(mutant.tests)
    last = output.strip().splitlines()[-1]
    assert code == pytest.ExitCode.TESTS_FAILED, f"no test catches the mutant that breaks {mutant.breaks}\n{output}"
    assert re.match(r"\d+ failed in ", last), f"a test of the mutant passes, or has an error instead\n{output}"


@pytest.mark.promise(37)
def test_tests_pass_without_mutant(run: Run) -> None:
    """Every test that a mutant names passes on the code without a mutant."""
    tests = sorted({test for path in KNOWN for test in read_mutant(path).tests})
    code, output = run(tests)
    assert code == pytest.ExitCode.OK, output
    assert re.match(r"\d+ passed in ", output.strip().splitlines()[-1]), output
