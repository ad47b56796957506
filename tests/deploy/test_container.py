"""The container file, without an engine: what it copies is there, and its build's own commands run."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from monitor import __version__
from monitor.config.servers import MetricsSettings

Skip = Callable[[str, str], NoReturn]
_HOME = "/opt/location-monitor"


def _pins(path: Path) -> dict[str, set[str]]:
    """By pinned requirement (`name==version`, with its marker), its hashes."""
    pins: dict[str, set[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([a-z0-9.-]+==[^\\]+?)\s*\\?$", line):
            current = pins.setdefault(match[1], set())
        elif match := re.match(r"\s+--hash=(sha256:[0-9a-f]{64})", line):
            current.add(match[1])
    return pins


def _names(path: Path) -> set[str]:
    return {pin.partition("==")[0] for pin in _pins(path)}


def _copied(containerfile: list[Any]) -> list[str]:
    sources = [instruction.rest.split()[:-1] for instruction in containerfile if instruction.word == "COPY"]
    return [source for each in sources if not each[0].startswith("--from") for source in each]


@pytest.mark.parametrize("lock", ["requirements-run.lock", "requirements-build.lock"])
def test_a_lock_of_the_container_pins_what_the_tests_ran_with(root: Path, lock: str) -> None:
    all_pins, pins = _pins(root / "requirements.lock"), _pins(root / lock)
    assert pins
    assert all(hashes and hashes <= all_pins[pin] for pin, hashes in pins.items())


def test_the_container_has_every_dependency_and_nothing_for_development(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.split(r"[\[<>=!~ ]", dependency)[0].lower() for dependency in project["dependencies"]}
    unwanted = {
        re.split(r"[\[<>=!~ ]", dependency)[0].lower()
        for extra in project["optional-dependencies"].values()
        for dependency in extra
    }
    names = _names(root / "requirements-run.lock")
    assert wanted <= names
    assert not unwanted & names


def test_all_that_is_copied_is_there_and_not_kept_from_the_build(root: Path, containerfile: list[Any]) -> None:
    ignore = (root / "deploy/Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [rule for rule in ignore if rule and not rule.startswith("#")]
    assert rules[0] == "*", "everything is kept out but what is named"
    let_in = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    copied = _copied(containerfile)
    assert set(copied) == set(let_in)
    assert all((root / source).exists() for source in copied)
    assert not [name for name in let_in if fnmatch.fnmatch(name, "*key*")]


def test_the_service_runs_as_a_numbered_user_that_is_not_root(containerfile: list[Any]) -> None:
    last = max(instruction.stage for instruction in containerfile)
    users = [each.rest for each in containerfile if each.word == "USER" and each.stage == last]
    assert users
    assert all(re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", user) for user in users)


def test_nothing_is_run_or_installed_in_the_final_stage(containerfile: list[Any]) -> None:
    last = max(instruction.stage for instruction in containerfile)
    assert not [each for each in containerfile if each.stage == last and each.word in {"RUN", "ADD"}]


def test_the_probe_asks_where_the_service_answers_by_default(containerfile: list[Any]) -> None:
    port = MetricsSettings().port
    assert [each.rest for each in containerfile if each.word == "EXPOSE"] == [str(port)]
    assert f"http://127.0.0.1:{port}/healthz" in next(each.rest for each in containerfile if each.word == "HEALTHCHECK")


@pytest.mark.timeout(600)
def test_the_commands_of_the_build_make_a_service_that_starts(
    root: Path, containerfile: list[Any], tmp_path: Path, skip_without: Skip
) -> None:
    """Stage 0 of the container file, run as it stands but for its folders: it ends with the installed command."""
    build, home, base = tmp_path / "build", tmp_path / "home", tmp_path / "base"
    subprocess.run([sys.executable, "-m", "venv", str(base)], check=True)
    environment = os.environ | {"PATH": f"{base / 'bin'}{os.pathsep}{os.environ['PATH']}", "PIP_NO_INPUT": "1"}
    environment.pop("PYTHONPATH", None)
    build.mkdir()
    for instruction in (each for each in containerfile if each.stage == 0):
        if instruction.word == "COPY":
            *sources, target = instruction.rest.split()
            for source in sources:
                _copy(root / source, build / target, into=len(sources) > 1 or target.endswith("/"))
        if instruction.word == "RUN":
            command = instruction.rest.replace(_HOME, str(home))
            done = subprocess.run(
                ["/bin/sh", "-ec", command], cwd=build, env=environment, capture_output=True, text=True, check=False
            )
            if "NewConnectionError" in done.stderr or "NameResolutionError" in done.stderr:
                skip_without("a package index", "let pip reach one")
            assert done.returncode == 0, done.stderr
    _assert_it_starts(home, root)


def _copy(source: Path, target: Path, *, into: bool) -> None:
    place = target / source.name if into else target
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, place)


def _assert_it_starts(home: Path, root: Path) -> None:
    command = home / "bin/location-monitor"
    elsewhere = {"PATH": "/nowhere"}
    version = subprocess.run([command, "--version"], env=elsewhere, capture_output=True, text=True, check=True)
    assert __version__ in version.stdout
    check: list[str | Path] = [command, "check", "--config", root / "deploy/config.yaml"]
    subprocess.run(check, env=elsewhere, capture_output=True, check=True)
    subprocess.run([command, "schema", "asyncapi"], env=elsewhere, capture_output=True, check=True)
    installed = {path.name.split("-")[0].lower().replace("_", "-") for path in home.glob("lib/*/*/*.dist-info")}
    assert "location-monitor" in installed
    assert installed - {"location-monitor"} <= _names(root / "requirements-run.lock")
