"""kube-score, and the published schemas of the objects of Prometheus's operator, KEDA and Strimzi.

`make chart-policies` runs both. They have the soak marker, because the first run compiles kube-score (20 seconds of
processor time) and downloads 50 MB.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no type information
import pytest
import yaml

from tests.deploy.chart.helm import CASES, KUBERNETES, Answer
from tests.deploy.chart.published_schemas import SchemaError, Schemas, published_schemas
from tests.go_programs import GoError, build_program, cache_folder
from tests.missing import report_missing

EXPLAINED = Path(__file__).with_name("score_explained.yaml")
SOURCE = Path(__file__).with_name("score_program")
CHECKED = {
    ("monitoring.coreos.com/v1", "PodMonitor"),
    ("monitoring.coreos.com/v1", "PrometheusRule"),
    ("keda.sh/v1alpha1", "ScaledObject"),
    ("kafka.strimzi.io/v1", "KafkaTopic"),
    ("kafka.strimzi.io/v1", "KafkaUser"),
}
pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def schemas() -> Schemas:
    """The published schemas."""
    try:
        return published_schemas()
    except SchemaError as error:
        report_missing(f"published schemas ({error})", "install Go, with its proxy and Maven Central in reach once")


@pytest.fixture(scope="module")
def score() -> Callable[[str], dict[str, Any]]:
    """A function that runs kube-score on manifests."""
    try:
        program = build_program(cache_folder() / "kube-score", SOURCE)
    except GoError as error:
        report_missing(f"kube-score ({error})", "install Go 1.26 or later, with its proxy in reach")

    def run(manifests: str) -> dict[str, Any]:
        command = [str(program), f"v{KUBERNETES}"]
        ended = subprocess.run(command, input=manifests, capture_output=True, text=True, check=True)
        answer: dict[str, Any] = json.loads(ended.stdout)
        return answer

    return run


def test_every_finding_is_explained(rendered: dict[str, Answer], score: Callable[[str], dict[str, Any]]) -> None:
    """kube-score has exactly the findings that score_explained.yaml explains."""
    counted: Counter[str] = Counter()
    for case in CASES:
        answer = score(rendered[case].text)
        print(f"{case}: {answer['checked']} checks, {len(answer['findings'])} findings")
        assert (answer["checked"] > 0) is not case.endswith("-kafka")  # kube-score knows no object of Strimzi
        counted.update(finding["check"] for finding in answer["findings"])
    explained = yaml.safe_load(EXPLAINED.read_text(encoding="utf-8"))
    assert all(len(reason.split()) > 3 for reason in explained.values())
    assert set(counted) == set(explained)


def test_score_sees_a_privileged_container(rendered: dict[str, Answer], score: Callable[[str], dict[str, Any]]) -> None:
    """kube-score finds a pod that runs as root with a writable file system, so it checks the manifests."""
    (pod,) = rendered["minimal"].of_kind("Pod")
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True, "runAsUser": 0}
    checks = {finding["check"] for finding in score(yaml.safe_dump(pod))["findings"]}
    assert {"container-security-context-privileged", "container-security-context-readonlyrootfilesystem"} <= checks


def test_published_schemas_accept_every_object(rendered: dict[str, Answer], schemas: Schemas) -> None:
    """The published schema of each object accepts it, without unknown keys."""
    checked = set()
    for case in CASES:
        for found in rendered[case].manifests:
            place = found["apiVersion"], found["kind"]
            if place in schemas:
                jsonschema.Draft202012Validator(schemas[place]).validate(found)
                checked.add(place)
            else:
                assert "." not in found["apiVersion"].partition("/")[0] or found["apiVersion"].startswith("networking.")
    assert checked == CHECKED


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("KafkaUser", ("authorization", "acls", 0, "patternTyp"), "literal"),
        ("KafkaUser", ("authorization", "acls", 0, "operations"), ["Reed"]),
        ("KafkaTopic", ("partitions",), "many"),
        ("ScaledObject", ("minReplicas",), 2),
        ("PodMonitor", ("podMetricsEndpoints", 0, "intervall"), "15s"),
        ("PrometheusRule", ("groups", 0, "rules", 0, "for"), "soon"),
    ],
)
def test_published_schemas_refuse_a_mistake(
    rendered: dict[str, Answer], schemas: Schemas, kind: str, path: tuple[Any, ...], value: object
) -> None:
    """A misspelt key or a wrong value is refused."""
    chosen = next(found for case in ("full", "full-kafka") for found in rendered[case].of_kind(kind))
    inner: Any = chosen["spec"]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schemas[chosen["apiVersion"], kind]).validate(chosen)
