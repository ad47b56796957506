"""The published schemas of the objects of Prometheus's operator, KEDA and Strimzi.

`make chart-schemas` runs this file. It has the soak marker, because the first run downloads 50 MB.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import jgo
import jsonschema  # type: ignore[import-untyped]  # it ships no type information
import pytest
import yaml

from monitor.errors import EmbeddedError
from monitor.operate.servers.jars import find_java
from tests.deploy.chart.helm import CASES, Answer
from tests.go_programs import cache_folder
from tests.needed_programs import report_missing

MODULES: Final = {
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
    "github.com/kedacore/keda/v2@v2.17.0": ("config/crd/bases/keda.sh_scaledobjects.yaml",),
}
STRIMZI: Final = ("io.strimzi:crd-generator:1.2.0", "io.strimzi:api:1.2.0")
CLASSES: Final = {"KafkaTopic": "topic.KafkaTopic", "KafkaUser": "user.KafkaUser"}
_PRESERVED: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"

Schemas = Mapping[tuple[str, str], dict[str, Any]]
"""The strict schema of an object by (apiVersion, kind)."""


class SchemaError(Exception):
    """The schemas cannot be downloaded."""


def published_schemas() -> Schemas:
    """Return the schemas. The first call on a machine downloads them (50 MB, of which it keeps 1 MB).

    Raises:
        SchemaError: they cannot be downloaded.
    """
    wanted = hashlib.sha256(repr((MODULES, STRIMZI, CLASSES)).encode()).hexdigest()[:16]
    folder = cache_folder() / f"schemas-{wanted}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as unfinished:
            download(Path(unfinished) / "schemas")
            (Path(unfinished) / "schemas").rename(folder)
    definitions = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(folder.iterdir())]
    return dict(found for definition in definitions for found in _read_schemas(definition))


def download(folder: Path) -> None:
    """Write the definitions into a folder, one file each.

    Raises:
        SchemaError: they cannot be downloaded.
    """
    folder.mkdir()
    try:
        for module, files in MODULES.items():
            _copy(module, files, folder)
        _generate(folder)
    except (
        OSError,
        RuntimeError,
        subprocess.CalledProcessError,
        EmbeddedError,
    ) as error:  # jgo's own errors are RuntimeErrors
        raise SchemaError(f"{error}") from error


def _copy(module: str, files: tuple[str, ...], folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise SchemaError("no go on the PATH")
    with tempfile.TemporaryDirectory() as empty:
        command = [go, "mod", "download", "-json", module]
        ended = subprocess.run(
            command, cwd=empty, env=os.environ | {"GOWORK": "off"}, capture_output=True, text=True, check=False
        )
    answer = json.loads(ended.stdout or "{}")
    if "Dir" not in answer:
        raise SchemaError(f"{module}: {answer.get('Error', ended.stderr)[-300:]}")
    for file in files:
        shutil.copy(Path(answer["Dir"]) / file, folder)


def _generate(folder: Path) -> None:
    jars = dict.fromkeys(str(jar.resolve()) for coordinates in STRIMZI for jar in jgo.resolve(coordinates))
    targets = [f"io.strimzi.api.kafka.model.{name}={folder / kind}.yaml" for kind, name in CLASSES.items()]
    options = ["--yaml", "--target-kube", "1.29+", "--crd-api-version", "v1"]
    command = [str(find_java()), "-cp", os.pathsep.join(jars), "io.strimzi.crdgenerator.CrdGenerator"]
    subprocess.run([*command, *options, *targets], check=True, capture_output=True)


def _read_schemas(definition: dict[str, Any]) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    spec = definition["spec"]
    for version in spec["versions"]:
        schema = make_strict(version["schema"]["openAPIV3Schema"])
        # These belong to every object of Kubernetes, so a definition need not describe them.
        schema["properties"] |= {"metadata": {"type": "object"}, "apiVersion": {}, "kind": {}}
        yield (f"{spec['group']}/{version['name']}", spec["names"]["kind"]), schema


def make_strict(schema: Any) -> Any:
    """Return a JSON schema for a structural schema of Kubernetes that also refuses unknown keys.

    A cluster would remove them silently.
    """
    if isinstance(schema, list):
        return [make_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: make_strict(value) for key, value in schema.items()}
    if made.get(_INT_OR_STRING):
        made.pop("type", None)
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if isinstance(made.get("properties"), dict) and "type" in schema and not made.get(_PRESERVED):
        made.setdefault("additionalProperties", False)
    return made


CHECKED = {
    ("monitoring.coreos.com/v1", "PodMonitor"),
    ("monitoring.coreos.com/v1", "PrometheusRule"),
    ("keda.sh/v1alpha1", "ScaledObject"),
    ("kafka.strimzi.io/v1", "KafkaTopic"),
    ("kafka.strimzi.io/v1", "KafkaUser"),
}
pytestmark = [pytest.mark.soak, pytest.mark.timeout(900), pytest.mark.long]


@pytest.fixture(scope="module")
def schemas() -> Schemas:
    """The published schemas."""
    try:
        return published_schemas()
    except SchemaError as error:
        report_missing(f"published schemas ({error})", "install Go, with its proxy and Maven Central in reach once")


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
