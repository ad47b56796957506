"""Known mutants can be applied to the present code."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.mutants import apply_change, read_mutants

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[2]


def test_named_files_exist() -> None:
    """The file of each test that a known mutant names exists."""
    files = {test.partition("::")[0] for mutant in read_mutants() for test in mutant.tests}
    assert [file for file in sorted(files) if not (REPOSITORY / file).is_file()] == []


def test_every_mutant_applies(tmp_path: Path) -> None:
    """Each known mutant changes each of its files, and uses no name that is undefined there."""
    for mutant in read_mutants():
        root = tmp_path / mutant.name
        for file in {change.file for change in mutant.changes}:
            copy = root / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPOSITORY / file, copy)
        for change in mutant.changes:
            before = (root / change.file).read_bytes()
            apply_change(change, root)
            assert (root / change.file).read_bytes() != before, f"{mutant.name} changes nothing"
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "F821", str(tmp_path)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
