"""Helm for the tests of the chart: a running program with Helm's own code (`tests.deploy.chart.helm_build`)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[3]
CHART: Final = ROOT / "deploy/chart"
KUBERNETES: Final = "1.29"
"""The oldest version that Chart.yaml allows."""


@dataclass(frozen=True)
class Answer:
    """What Helm printed: the rendered files by their path in the chart, the linter's messages, and an error."""

    files: Mapping[str, str]
    messages: Sequence[str]
    error: str

    @cached_property
    def manifests(self) -> list[dict[str, Any]]:
        """The Kubernetes objects of all files, in the order of the files."""
        texts = [text for path, text in sorted(self.files.items()) if path.endswith(".yaml")]
        return [found for text in texts for found in yaml.load_all(text, yaml.CSafeLoader) if found]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a kind."""
        return [found for found in self.manifests if found["kind"] == kind]


@dataclass
class Helm:
    """A running program, which answers one command after the other."""

    program: Path
    _process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        """Start the program."""
        self._process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _ask(self, command: str, values: Sequence[Path], options: Mapping[str, Sequence[str]]) -> Answer:
        request = {
            "command": command,
            "chart": str(CHART),
            "release": "city",
            "namespace": "monitor",
            "kube": KUBERNETES,
            "values": [str(path) for path in values],
            **options,
        }
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        print(json.dumps(request), file=stdin, flush=True)
        answer = json.loads(stdout.readline())
        return Answer(answer["files"] or {}, answer["messages"] or [], answer["error"])

    def lint(self, *values: Path, **options: Sequence[str]) -> Answer:
        """Run `helm lint` with files of values. Options: `set`, `set_json`, `set_file`."""
        return self._ask("lint", values, options)

    def template(self, *values: Path, **options: Sequence[str]) -> Answer:
        """Run `helm template` with files of values. Options as in `lint`."""
        return self._ask("template", values, options)

    def upgrade(self, *values: Path, **options: Sequence[str]) -> Answer:
        """Run `helm template --is-upgrade` with files of values. Options as in `lint`."""
        return self._ask("upgrade", values, options)

    def close(self) -> None:
        """End the program."""
        self._process.communicate(timeout=10)


def value_set(name: str) -> Path:
    """Return the path of a set of values in the chart's folder `ci`."""
    return CHART / "ci" / f"{name}-values.yaml"
