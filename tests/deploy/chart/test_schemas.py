"""The published schemas of the objects of Prometheus's operator, KEDA and Strimzi.

`make chart-schemas` runs this file. It has the soak marker, because the first run downloads 50 MB.
"""

from __future__ import annotations

import jsonschema  # type: ignore[import-untyped]  # it ships no type information
import pytest

from tests.deploy.chart.helm import CASES, Answer
from tests.deploy.chart.published_schemas import SchemaError, Schemas, published_schemas
from tests.needed_programs import report_missing

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
