"""The how-to for a plain host (docs/operations.md): its commands install the files with the stated owners and modes.

The commands run unchanged in a shell whose absolute paths lead into a folder. Commands that need a running systemd, a
package index or the accounts of the machine are recorded and not run.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

RECORDED = ("useradd", "python3", "pip", "systemctl", "runuser", "journalctl", "userdel")
SECRET, SHARED, FOLDER = 0o600, 0o640, 0o750
OTHERS = "The auditor and the page on a host with systemd"


def read_blocks(root: Path, title: str = "On a host with systemd") -> list[str]:
    """Return the shell blocks of the how-to, in order."""
    page = (root / "docs" / "operations.md").read_text(encoding="utf-8")
    section = page.partition(f"### {title}\n")[2].partition("\n### ")[0]
    return re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


@pytest.fixture
def host(tmp_path: Path, root: Path) -> Path:
    """A folder that stands for the host, with the files that an operator brings."""
    work = tmp_path / "work"
    (work / "deploy").mkdir(parents=True)
    (work / "deploy" / "systemd").symlink_to(root / "deploy" / "systemd")
    for name in ("config.yaml", "locations.csv", "person.key", "secrets.env"):
        (work / name).write_text(name)
    for folder in ("opt", "etc/systemd/system"):
        (tmp_path / "host" / folder).mkdir(parents=True)
    return tmp_path / "host"


def run_block(block: str, host: Path) -> list[str]:
    """Run a block on the host, stop at the first failure, and return the recorded commands."""
    record = host.parent / "recorded"
    record.write_text("")
    text = re.sub(r"(?<!\S)/(opt|etc)/", rf"{host}/\1/", block)
    assert not re.search(r"/(opt|etc)/", text.replace(f"{host}/", "")), "a path of this machine would be changed"
    text = re.sub(rf"^{host}/opt/location-monitor/bin/", "", text, flags=re.MULTILINE)
    # The account does not exist here, so owners and groups are recorded instead of set.
    shell = "".join(f'{name}() {{ echo "{name} $*" >> {record}; }}\n' for name in RECORDED)
    shell += (
        'install() { echo "install $*" >> '
        + str(record)
        + '; command install $(echo " $*" | sed -E "s/ -[go] [a-z-]+//g"); }\n'
    )
    command = ["/bin/bash", "-euc", shell + text]
    ended = subprocess.run(
        command, cwd=host.parent / "work", env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return record.read_text().splitlines()


def read_mode(path: Path) -> int:
    """Return the permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_how_to_installs_files(host: Path, root: Path) -> None:
    """The first block creates the account, installs the program, and puts every file in its place with its mode."""
    done = run_block(read_blocks(root)[0], host)
    settings = host / "etc" / "location-monitor"
    assert read_mode(settings) == FOLDER
    assert {path.name: read_mode(path) for path in settings.iterdir()} == {
        "config.yaml": SHARED,
        "locations.csv": SHARED,
        "person.key": SECRET,
        "secrets.env": SECRET,
    }
    unit = host / "etc" / "systemd" / "system" / "location-monitor@.service"
    assert unit.read_bytes() == (root / "deploy" / "systemd" / unit.name).read_bytes()
    assert any(line.startswith("useradd --system") for line in done)
    assert any(line.startswith("pip install") and line.endswith(".whl") for line in done)
    owners = {line.split()[-2]: re.findall(r" -([go]) location-monitor", line) for line in done if "install -m" in line}
    assert owners["person.key"] == ["o"]
    assert owners["secrets.env"] == []
    assert owners["locations.csv"] == ["g"]


@pytest.mark.parametrize("name", ["location-auditor", "location-page"])
def test_how_to_installs_others(host: Path, root: Path, name: str) -> None:
    """The auditor and the page get accounts and files of their own, without the person key."""
    (block,) = read_blocks(root, OTHERS)
    done = run_block(block.replace("NAME=location-auditor ", f"NAME={name} "), host)
    settings = host / "etc" / name
    assert {path.name: read_mode(path) for path in settings.iterdir()} == {
        "config.yaml": SHARED,
        "locations.csv": SHARED,
        "secrets.env": SECRET,
    }
    unit = host / "etc" / "systemd" / "system" / f"{name}.service"
    assert unit.read_bytes() == (root / "deploy" / "systemd" / unit.name).read_bytes()
    assert any(line.startswith("useradd --system") and line.endswith(f" {name}") for line in done)


def test_how_to_names_present_version(root: Path) -> None:
    """The wheel that the how-to installs has the present version."""
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    (version,) = re.findall(r'^version = "(.+)"$', project, re.MULTILINE)
    commands = [*read_blocks(root), *read_blocks(root, OTHERS)]
    wheels = re.findall(r"location_monitor-([0-9.]+)-py3", "".join(commands))
    assert wheels
    assert set(wheels) == {version}


def test_removal_leaves_nothing(host: Path, root: Path) -> None:
    """The block about removal deletes everything that the first block has installed."""
    run_block(read_blocks(root)[0], host)
    (host / "opt" / "location-monitor").mkdir()
    (removal,) = (block for block in read_blocks(root) if "userdel" in block)
    done = run_block(removal, host)
    assert [path for path in host.rglob("*") if "location-monitor" in path.name] == []
    assert done[0] == "systemctl disable --now location-monitor@9108"
    assert done[-1] == "userdel location-monitor"
