"""The cluster that KUBECONFIG names: kubectl and Helm in one namespace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.engines.scenario import StepError
from tests.go_programs import HELM, GoError, install_program

CHART: Final = Path(__file__).parents[3] / "deploy/chart"
RELEASE: Final = "city"
NAME: Final = "city-location-monitor"
"""The name that the chart gives to the objects of the release."""
MISSING: Final = "CONTRIBUTING.md says how to get a cluster"


@dataclass(frozen=True, slots=True)
class Programs:
    """The paths of kubectl and Helm."""

    kubectl: str
    helm: str


def find_programs() -> Programs:
    """Return kubectl and Helm, which is compiled if there is none.

    Raises:
        StepError: a program, or KUBECONFIG, is missing, or the cluster does not answer.
    """
    if not os.environ.get("KUBECONFIG"):
        raise StepError(f"KUBECONFIG is not set: set it to the file of a cluster for tests; {MISSING}")
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise StepError("no kubectl on the PATH: install it (https://kubernetes.io/docs/tasks/tools)")
    try:
        helm = shutil.which("helm") or str(install_program(HELM))
    except GoError as error:
        raise StepError(f"no helm on the PATH, and none can be compiled ({error}): install Helm 3") from error
    _run(kubectl, "get", "--raw", "/readyz", "--request-timeout=20s")
    return Programs(kubectl, helm)


def _run(*words: str, text: str = "", seconds: float = 600) -> str:
    ended = subprocess.run(words, input=text, capture_output=True, text=True, timeout=seconds, check=False)
    if ended.returncode != 0:
        shown = " ".join(words[:12])
        said = f"{ended.stdout.strip()[-1500:]}\n{ended.stderr.strip()[-1500:]}".strip()
        raise StepError(f"{shown}: exit code {ended.returncode}: {said}")
    return ended.stdout


@dataclass(frozen=True, slots=True)
class Cluster:
    """A namespace of the cluster."""

    programs: Programs
    namespace: str

    def kubectl(self, *words: str, text: str = "") -> str:
        """Run kubectl in the namespace, and return its output.

        Raises:
            StepError: it failed.
        """
        return _run(self.programs.kubectl, "--namespace", self.namespace, *words, text=text)

    def helm(self, *words: str) -> str:
        """Run Helm in the namespace, and return its output.

        Raises:
            StepError: it failed.
        """
        return _run(self.programs.helm, "--namespace", self.namespace, *words)

    def apply(self, manifests: object) -> None:
        """Create or change objects."""
        text = manifests if isinstance(manifests, str) else json.dumps(manifests)
        self.kubectl("apply", "--filename", "-", text=text)

    def list_pods(self, part: str = "") -> dict[str, dict[str, Any]]:
        """Return the pods of the service, or of its `auditor` or `page`, by their unique id, oldest first."""
        labels = f"app.kubernetes.io/name={NAME}-{part}" if part else "app.kubernetes.io/component=instance"
        command = ("get", "pods", "--selector", labels, "--sort-by=.metadata.creationTimestamp", "--output", "json")
        return {pod["metadata"]["uid"]: pod for pod in json.loads(self.kubectl(*command))["items"]}

    def wait_for_rollout(self, *parts: str) -> None:
        """Wait until the instances, or the named parts, are the newest ones and ready."""
        for part in parts or ("",):
            name = f"{NAME}-{part}" if part else NAME
            self.kubectl("rollout", "status", f"deployment/{name}", "--timeout=300s")

    def execute(self, pod: str, *words: str) -> str:
        """Run a program in a pod or a Deployment, and return its output."""
        return self.kubectl("exec", pod, "--", *words)

    def run_tool(self, *words: str) -> str:
        """Run a command of `in_pod.py`."""
        return self.execute("pod/tools", "python", "/programs/in_pod.py", *words)

    def request(self, url: str, pod: str = "pod/tools") -> int:
        """Return the status of a request from a pod; 0 if there is no connection."""
        program = (
            "import sys, urllib.request as u, urllib.error as e\n"
            "try: print(u.urlopen(sys.argv[1], timeout=5).status)\n"
            "except e.HTTPError as error: print(error.code)\n"
            "except OSError: print(0)"
        )
        return int(self.execute(pod, "python", "-c", program, url))


@contextmanager
def open_namespace(programs: Programs, name: str) -> Iterator[Cluster]:
    """Create a namespace that accepts only restricted pods, and remove it with all that it has."""
    cluster = Cluster(programs, name)
    cluster.kubectl("create", "namespace", name)
    try:
        cluster.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
        yield cluster
    finally:
        cluster.kubectl("delete", "namespace", name, "--timeout=180s")
