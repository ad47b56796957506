"""Known ways to break a promise, each a small change of the code, and the tests that must catch it.

A mutant (see `tests.mutants.mutants`) is applied to a copy of the package and the tests. The tests that it names run in
that copy, and each of them must fail. Without a mutant all of them pass, so it is the mutant that they catch.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.forking import Program
from tests.mutants.mutants import KNOWN, Change, apply_change, read_mutant

REPOSITORY = Path(__file__).parents[2]
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
def mutated(changes: Sequence[Change], copy: Path) -> Iterator[None]:
    """Apply changes to the copy, and restore the original files at the end."""
    try:
        for change in changes:
            apply_change(change, copy)
        yield
    finally:
        for file in {change.file for change in changes}:
            shutil.copy2(REPOSITORY / file, copy / file)


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
@pytest.mark.parametrize("path", KNOWN, ids=lambda path: path.stem)
def test_mutant_is_caught(path: Path, copy: Path, run: Run) -> None:
    """Every test that a mutant names fails on the code with the mutant."""
    mutant = read_mutant(path)
    with mutated(mutant.changes, copy):
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
