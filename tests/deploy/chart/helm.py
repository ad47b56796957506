"""Helm for the tests of the chart: its own program, with the values of the tests."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[3]
CHART: Final = ROOT / "deploy/chart"
KUBERNETES: Final = "1.29"
"""The oldest version that Chart.yaml allows."""

CASES: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "minimal": ("minimal", ()),
    "full": ("full", ()),
    "secure": ("secure", ()),
    "readers": (
        "secure",
        (
            "auditor.enabled=true",
            "auditor.kafkaPassword.existingSecret=auditor",
            "auditor.kafkaUsername=auditor",
            "auditor.since=2026-01-05T18:00:00Z",
            "page.enabled=true",
            "page.kafkaUsername=page",
            "page.kafkaPassword.existingSecret=page",
            "page.since=2026-01-05T18:00:00Z",
        ),
    ),
    "token": (
        "secure",
        (
            "config.kafka.sasl_mechanism=OAUTHBEARER",
            "config.kafka.username=null",
            "secrets.kafkaPassword.existingSecret=",
            "secrets.kafkaToken.audience=kafka",
            "config.redis.url=rediss://primary/0",
            "config.redis.sentinels={sentinels.stores:26379}",
            "secrets.sentinelPassword.existingSecret=sentinels",
            "auditor.enabled=true",
            "auditor.serviceAccountName=auditor",
            "page.enabled=true",
            "page.serviceAccountName=page",
        ),
    ),
    "full-kafka": ("full", ("component=kafka",)),
    "secure-kafka": ("secure", ("component=kafka",)),
}
"""The cases by name: the set of values, and the values of `--set`."""


@dataclass(frozen=True)
class Answer:
    """What Helm printed: the manifests, or the messages of the linter, and an error."""

    text: str
    error: str

    @cached_property
    def manifests(self) -> list[dict[str, Any]]:
        """The Kubernetes objects, in Helm's order."""
        return [found for found in yaml.load_all(self.text, yaml.CSafeLoader) if found]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a kind."""
        return [found for found in self.manifests if found["kind"] == kind]


@dataclass(frozen=True)
class Helm:
    """The program. Options of its commands, such as `set`, `set_json` and `set_file`, with their values."""

    program: Path
    chart: Path = CHART

    def lint(self, *values: Path, **options: Sequence[str]) -> Answer:
        """Run `helm lint` with files of values."""
        return self._run(["lint", str(self.chart), "--kube-version", KUBERNETES], values, options)

    def template(self, *values: Path, **options: Sequence[str]) -> Answer:
        """Run `helm template` with files of values."""
        return self._run(["template", "city", str(self.chart), "--kube-version", KUBERNETES], values, options)

    def upgrade(self, *values: Path, **options: Sequence[str]) -> Answer:
        """Run `helm template --is-upgrade` with files of values."""
        command = ["template", "city", str(self.chart), "--kube-version", KUBERNETES, "--is-upgrade"]
        return self._run(command, values, options)

    def _run(self, command: Sequence[str], values: Sequence[Path], options: Mapping[str, Sequence[str]]) -> Answer:
        words = [str(self.program), *command, "--namespace", "monitor"]
        words += [word for path in values for word in ("--values", str(path))]
        words += [f"{_option(name)}={each}" for name, given in options.items() for each in given]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        return Answer(ended.stdout, "" if ended.returncode == 0 else ended.stderr)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def render(helm: Helm, case: str) -> Answer:
    """Return Helm's output for a case."""
    name, given = CASES[case]
    return helm.template(value_set(name), set=given)


def value_set(name: str) -> Path:
    """Return the path of a set of values in the chart's folder `ci`."""
    return CHART / "ci" / f"{name}-values.yaml"
