"""The units of systemd: systemd accepts them, they are hardened, and their commands, codes and files are the program's.

They run the service, the auditor and the public page.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from monitor.cli import main
from monitor.errors import EXIT_REFUSED, EXIT_USAGE
from tests.needed_programs import find_program

pytestmark = pytest.mark.long

SECTIONS = {
    "location-monitor@.service": "On a host with systemd",
    "location-auditor.service": "The auditor and the page on a host with systemd",
    "location-page.service": "The auditor and the page on a host with systemd",
}


@pytest.fixture(params=SECTIONS)
def unit(root: Path, request: pytest.FixtureRequest) -> Path:
    """The unit's file."""
    return root / "deploy" / "systemd" / str(request.param)


@pytest.fixture
def settings(unit: Path) -> dict[str, list[str]]:
    """The values of each setting of the unit, in their order."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


@pytest.fixture
def analyze() -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs systemd-analyze."""
    program = find_program("systemd-analyze", "systemd", "install systemd 252 or later")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *words], capture_output=True, text=True, timeout=60, check=False)

    return run


def test_systemd_accepts_unit(
    unit: Path, tmp_path: Path, analyze: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """The verification of systemd finds nothing, with the program of this environment in place of the installed one."""
    program = Path(sys.executable).parent / "location-monitor"
    text = unit.read_text(encoding="utf-8").replace("/opt/location-monitor/bin/location-monitor", str(program))
    file = tmp_path / unit.name
    file.write_text(text, encoding="utf-8")
    ended = analyze("verify", str(file))
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


def test_unit_is_hardened(unit: Path, analyze: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """The exposure that systemd computes for the unit is at most 1.5 of 10."""
    ended = analyze("security", "--offline=true", "--threshold=15", "--no-pager", str(unit))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Overall exposure level" in ended.stdout


def test_exit_codes_that_no_restart_helps(unit: Path, settings: dict[str, list[str]]) -> None:
    """A process is started again after a failure, except after the exit codes that need an operator.

    The auditor refuses no state of the servers: it checks no topic, and waits for those that it cannot read.
    """
    expected = {
        "location-monitor@.service": f"{EXIT_USAGE} {EXIT_REFUSED}",
        "location-auditor.service": str(EXIT_USAGE),
        "location-page.service": str(EXIT_USAGE),
    }
    assert settings["Restart"] == ["on-failure"]
    assert settings["RestartPreventExitStatus"] == [expected[unit.name]]
    comment = unit.read_text(encoding="utf-8").partition("Restart=on-failure")[0].rpartition("\n\n")[2]
    assert " ".join(re.findall(r"\((\d)\)", comment)) == expected[unit.name]


def test_command_exists(settings: dict[str, list[str]]) -> None:
    """The unit's command and options exist in the program."""
    (line,) = settings["ExecStart"]
    _, name, *options = line.split()
    known = {option for parameter in main.commands[name].params for option in parameter.opts}
    assert {option for option in options if option.startswith("--")} <= known


@pytest.mark.parametrize("name", ["auditor", "page"])
def test_since_has_a_place(name: str, root: Path) -> None:
    """The line of the how-to gives the auditor and the page `--since`: the unit appends it, and by default nothing."""
    unit = (root / "deploy" / "systemd" / f"location-{name}.service").read_text(encoding="utf-8")
    assert re.search(r"^ExecStart=.* \$OPTIONS$", unit, re.MULTILINE)
    assert re.search(r"^Environment=OPTIONS=$", unit, re.MULTILINE)
    page = (root / "docs" / "operations.md").read_text(encoding="utf-8")
    (given,) = re.findall(r"`OPTIONS=([^`]*)`", page)
    command = main.commands["audit" if name == "auditor" else name]
    config = str(root / "config" / "demo.yaml")
    parent = click.Context(main, **main.context_settings)  # click keeps the names of the help option that it sees
    context = command.make_context(name, ["--config", config, *given.split()], parent)
    assert context.params["since"] == "2026-01-05T18:00:00Z"


def test_stop_signal_is_sigterm(settings: dict[str, list[str]], root: Path) -> None:
    """The unit and the container stop the service with the same signal."""
    assert settings["KillSignal"] == ["SIGTERM"]
    assert "STOPSIGNAL SIGTERM" in (root / "deploy" / "Containerfile").read_text(encoding="utf-8")


def test_how_to_names_the_same_files(unit: Path, settings: dict[str, list[str]], root: Path) -> None:
    """The how-to in docs/operations.md installs the files that the unit uses."""
    text = (root / "docs" / "operations.md").read_text(encoding="utf-8")
    page = text.partition(f"### {SECTIONS[unit.name]}\n")[2].partition("\n### ")[0]
    page = page.replace("$NAME", unit.stem)
    words = settings["ExecStart"][0].split()
    program, config = words[0], words[words.index("--config") + 1]
    assert "install -m 0640" in page
    assert Path(config).name in page
    for path in (str(Path(program).parent), str(Path(config).parent), settings["EnvironmentFile"][0].removeprefix("-")):
        assert path in page
    assert f"--system --no-create-home --shell /usr/sbin/nologin {settings['User'][0]}" in page
