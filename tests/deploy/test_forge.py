"""What the forge runs, and the version that all parts of a release name. The workflows themselves cannot run here."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner

from monitor.cli import main
from tests.go_programs import ACTIONLINT, GoError, install_program
from tests.needed_programs import report_missing

_PINNED: Final = re.compile(r"uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def list_workflows(root: Path) -> list[Path]:
    """Return the files of the workflows."""
    return sorted((root / ".github/workflows").glob("*.yml"))


@pytest.mark.long
@pytest.mark.timeout(900)  # the first test on a machine compiles the linter
def test_linter_accepts_workflows(root: Path, tmp_path: Path) -> None:
    """`actionlint` finds nothing in the workflows: keys, expressions, contexts and permissions are right."""
    try:
        linter = install_program(ACTIONLINT)
    except GoError as error:
        report_missing(f"actionlint ({error})", "install Go 1.26 or later, with its module proxy in reach once")
    files = list_workflows(root)
    assert len(files) >= 2
    found = subprocess.run([linter, *files], capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (0, "")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(files[0].read_text(encoding="utf-8").replace("matrix.python", "matrix.pyton"), encoding="utf-8")
    assert subprocess.run([linter, wrong], capture_output=True, timeout=60, check=False).returncode == 1


def test_actions_are_pinned(root: Path) -> None:
    """Each action of a workflow is named by its commit, with its version as a comment; no job may write by default."""
    for path in list_workflows(root):
        text = path.read_text(encoding="utf-8")
        used = [line for line in text.splitlines() if "uses:" in line]
        assert used
        assert [line for line in used if not _PINNED.search(line)] == []
        assert yaml.safe_load(text)["permissions"] == {"contents": "read"}


def test_unit_tests_run_on_each_python(root: Path) -> None:
    """The workflow runs the fast tests on each version of Python that the package supports."""
    jobs: dict[str, Any] = yaml.safe_load((root / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    named = re.findall(r"Python :: (3\.\d+)", (root / "pyproject.toml").read_text(encoding="utf-8"))
    assert named
    assert {*named} <= {*jobs["unit"]["strategy"]["matrix"]["python"]}


def test_versions_agree(root: Path) -> None:
    """The command, the package, the chart, the image of the compose file and the changelog name one version."""

    def find(file: str, pattern: str) -> str:
        match = re.search(pattern, (root / file).read_text(encoding="utf-8"), re.MULTILINE)
        assert match is not None, f"{file} has no {pattern}"
        return match[1]

    printed = CliRunner().invoke(main, ["--version"]).output.split()[-1]
    assert {
        "pyproject.toml": find("pyproject.toml", r'^version = "(.+)"$'),
        "chart": find("deploy/chart/Chart.yaml", r"^version: (.+)$"),
        "image of the chart": find("deploy/chart/Chart.yaml", r"^appVersion: (.+)$"),
        "compose": find("deploy/compose.yaml", r"image: location-monitor:(\S+)$"),
        "changelog": find("CHANGELOG.md", r"^(?:This will be |## \[)(\d+\.\d+\.\d+)"),
    } == dict.fromkeys(("pyproject.toml", "chart", "image of the chart", "compose", "changelog"), printed)
