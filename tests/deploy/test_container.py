"""The container file, without a container engine. test_image.py builds and runs the image."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from deploy.dist.sbom import EXTRAS
from monitor.config.kafka_and_redis import AuditorSettings, MetricsSettings

pytestmark = pytest.mark.long


def _read_pins(path: Path) -> dict[str, set[str]]:
    """Return the hashes of each pinned requirement (`name==version`, with its marker)."""
    pins: dict[str, set[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([a-z0-9.-]+==[^\\]+?)\s*\\?$", line):
            current = pins.setdefault(match[1], set())
        elif match := re.match(r"\s+--hash=(sha256:[0-9a-f]{64})", line):
            current.add(match[1])
    return pins


def _read_names(path: Path) -> set[str]:
    return {pin.partition("==")[0] for pin in _read_pins(path)}


def _list_copied(containerfile: list[Any]) -> list[str]:
    sources = [instruction.rest.split()[:-1] for instruction in containerfile if instruction.word == "COPY"]
    return [source for files in sources if not files[0].startswith("--from") for source in files]


@pytest.mark.parametrize("lock", ["requirements-run.lock", "requirements-build.lock"])
def test_container_locks_match_tested_versions(root: Path, lock: str) -> None:
    """The container's lock files pin versions and hashes of the lock file that the tests use."""
    all_pins, pins = _read_pins(root / "requirements.lock"), _read_pins(root / lock)
    assert pins
    assert all(hashes and hashes <= all_pins[pin] for pin, hashes in pins.items())


def test_container_has_only_runtime_dependencies(root: Path) -> None:
    """The container has every runtime dependency, and of the extras only that of the page."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.split(r"[\[<>=!~ ]", dependency)[0].lower() for dependency in project["dependencies"]}
    unwanted = {
        re.split(r"[\[<>=!~ ]", dependency)[0].lower()
        for extra, dependencies in project["optional-dependencies"].items()
        for dependency in dependencies
        if extra not in EXTRAS
    }
    names = _read_names(root / "requirements-run.lock")
    assert wanted <= names
    optional = {re.split(r"[<>=]", name)[0] for extra in EXTRAS for name in project["optional-dependencies"][extra]}
    assert optional <= names
    assert not (unwanted - optional) & names
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    assert "".join(f" --extra {extra}" for extra in EXTRAS) + " pyproject.toml -o requirements-run.lock" in makefile


def test_copied_files_are_not_ignored(root: Path, containerfile: list[Any]) -> None:
    """Every copied file exists, and the ignore file includes exactly these and no key."""
    ignore = (root / "deploy/Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [rule for rule in ignore if rule and not rule.startswith("#")]
    assert rules[0] == "*", "the first rule must exclude everything"
    included = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    copied = _list_copied(containerfile)
    assert set(copied) == set(included)
    assert all((root / source).exists() for source in copied)
    assert not [name for name in included if fnmatch.fnmatch(name, "*key*")]


def test_final_stage_runs_no_commands(containerfile: list[Any]) -> None:
    """The final stage contains no RUN and no ADD."""
    last = max(instruction.stage for instruction in containerfile)
    assert not [line for line in containerfile if line.stage == last and line.word in {"RUN", "ADD"}]


def test_image_serves_its_metrics(containerfile: list[Any]) -> None:
    """Outside a container the metrics listen on localhost; the image sets all addresses of the container."""
    assert (MetricsSettings().host, AuditorSettings().host) == ("localhost", "localhost")
    last = max(instruction.stage for instruction in containerfile)
    environment = next(line.rest for line in containerfile if line.stage == last and line.word == "ENV")
    for section in ("METRICS", "AUDITOR"):
        assert f"LOCATION_MONITOR__{section}__HOST=0.0.0.0" in environment.split()
