"""Wrong values: the schema or the chart refuses each, and names the key. Right values give a valid configuration."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from click.testing import CliRunner
from pydantic import BaseModel

from monitor.cli import main
from monitor.config.kafka_and_redis import find_url_password
from monitor.config.load import load_config
from monitor.config.whole_config import Config
from tests.deploy.chart.helm import CHART, Helm, value_set

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.long,
]  # the first test on a machine compiles Helm, which a busy machine delays
WRONG: dict[str, tuple[str, str]] = {
    # --set-json of the value, and what the message must contain: the key, as Helm writes it, and the reason
    "unknown value": ("replicaCount=2", "additional properties 'replicaCount' not allowed"),
    "missing section": ("config.privacy=null", "at '/config/privacy': got null, want object"),
    "password in the values": (
        'config.kafka.password="secret"',
        "at '/config/kafka/password': value must be 'absent: set secrets.kafkaPassword.existingSecret'",
    ),
    "path of a secret": ('config.visits.person_key_file="k"', "'absent: set secrets.personKey.existingSecret'"),
    "name of an earlier configuration": (
        'auditor.earlier={"previous":{"config":"a"}}',
        "invalid propertyName 'previous'",
    ),
    "an earlier registry alone": ('auditor.earlier={"2026":{"registry":"a"}}', "at '/auditor/earlier/2026'"),
    "no person key": ('secrets.personKey.existingSecret=""', "at '/secrets/personKey/existingSecret'"),
    "person key as a value": ('secrets.personKey.value="0"', "at '/secrets/personKey': additional properties"),
    "two registries": ('registry.existingClaim="other"', "at '/registry': 'oneOf' failed, subschemas 0, 2 matched"),
    "no registry": ('registry.csv=""', "at '/registry/csv'"),
    "no instances": ("replicas=0", "at '/replicas'"),
    "impatient": ("terminationGracePeriodSeconds=30", "at '/terminationGracePeriodSeconds'"),
    "unknown strategy": ('strategy="rolling"', "at '/strategy'"),
    "digest": ('image.digest="latest"', "at '/image/digest'"),
    "autoscaling without Prometheus": ("autoscaling.enabled=true", "at '/autoscaling/prometheusAddress'"),
    "no Kafka cluster": ('component="kafka"', "at '/strimzi/cluster'"),
    "no time": ('page.since="yesterday"', "at '/page/since'"),
    "no time zone": ('auditor.since="2026-01-05T18:00:00"', "at '/auditor/since'"),
    "unknown component": ('component="topics"', "at '/component'"),
}


CONTRADICTIONS: dict[str, tuple[str, str]] = {
    "another user": (
        'component="kafka",config.kafka.username="town",strimzi={"cluster":"events","user":{"name":"city"}}',
        'strimzi.user.name is "city": expected config.kafka.username ("town")',
    ),
    "more than the partitions": (
        "autoscaling.maxReplicas=9",
        "autoscaling.maxReplicas is 9: expected at most config.kafka.partitions.visits (8)",
    ),
    "fewest above most": (
        'autoscaling={"enabled":true,"prometheusAddress":"http://p:9090","maxReplicas":1}',
        "replicas is 2: expected at most autoscaling.maxReplicas (1)",
    ),
    "the page logs in as the service": (
        'secrets.kafkaToken.audience="kafka",page.enabled=true',
        'page.serviceAccountName is "": expected a service account that is not the one of the service ("")',
    ),
    "the page has the service's account": (
        'secrets.kafkaToken.audience="kafka",serviceAccountName="city",page={"enabled":true,"serviceAccountName":"city"}',
        'page.serviceAccountName is "city": expected a service account that is not the one of the service ("city")',
    ),
    "the auditor logs in as the service": (
        'secrets.kafkaToken.audience="kafka",serviceAccountName="city",auditor.enabled=true',
        'auditor.serviceAccountName is "": expected a service account that is not the one of the service ("city")',
    ),
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_value_is_refused(helm: Helm, fault: str) -> None:
    """`helm template` and `helm lint` refuse each wrong value, and the message names the key."""
    given, expected = WRONG[fault]
    answer = helm.template(value_set("minimal"), set_json=[given])
    assert expected in answer.error, answer.error
    assert answer.text == ""
    linted = helm.lint(value_set("minimal"), set_json=[given])
    assert linted.error
    assert expected in linted.text


@pytest.mark.parametrize("fault", CONTRADICTIONS)
def test_contradicting_values_are_refused(helm: Helm, fault: str) -> None:
    """Values that contradict each other, which a schema cannot express, are refused when the chart is rendered."""
    given, expected = CONTRADICTIONS[fault]
    answer = helm.template(value_set("minimal"), set_json=[given])
    assert expected in answer.error
    assert answer.text == ""


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2@valkey:6379/0",
        "rediss://town:hunter2@valkey:6380/0",
        "redis://valkey:6379/0?password=hunter2",
        "unix:///run/valkey.sock?db=1&password=hunter2",
    ],
)
def test_password_in_a_url_is_refused(helm: Helm, url: str) -> None:
    """A password in `redis.url` is refused before Helm keeps the values anywhere, and the message does not show it."""
    answer = helm.template(value_set("minimal"), set_json=[f'config.redis.url="{url}"'])
    assert "config.redis.url contains a password" in answer.error
    assert "hunter2" not in answer.error
    assert answer.text == ""


@pytest.mark.parametrize(
    "url",
    ["redis://[::1]:6379", "redis://town@valkey:6379/0", "redis://valkey:6379?db=2", "unix:///run/valkey.sock?db=1"],
)
def test_url_without_a_password_is_accepted(helm: Helm, url: str) -> None:
    """Other parts of a URL are not mistaken for a password."""
    assert find_url_password(url) is None
    assert helm.template(value_set("minimal"), set_json=[f'config.redis.url="{url}"']).error == ""


def list_secret_keys(section: type[BaseModel]) -> list[str]:
    """Return the keys of a section that name a file or are a secret, except URLs."""
    kinds = {name: str(field.annotation) for name, field in section.model_fields.items()}
    return [name for name, kind in kinds.items() if "Path" in kind or ("Secret" in kind and name != "url")]


def test_every_path_is_set_or_refused(helm: Helm) -> None:
    """Each key of the configuration that names a file, or is a secret, is refused with the value that replaces it."""
    sections = {
        name: kind
        for name, field in Config.model_fields.items()
        for kind in (field.annotation, *get_args(field.annotation))
        if isinstance(kind, type) and issubclass(kind, BaseModel)
    }
    keys = [(name, key) for name, section in sections.items() for key in list_secret_keys(section)]
    assert {("signing", "key_file"), ("page", "background"), ("auditor", "cosign_key_file")} <= {*keys}
    assert len(keys) >= 19
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    error = helm.template(value_set("minimal"), set_json=[f'config.{name}.{key}="x"' for name, key in keys]).error
    for name, key in keys:
        instead = re.search(rf"at '/config/{name}/{key}': value must be 'absent: (?:set ([\w.]+))?", error)
        assert instead is not None, (name, key, error)
        assert instead[1] or (name, key) == ("page", "audit_file")
        found = values
        for step in (instead[1] or "page").rstrip(",").split("."):
            found = found[step]


def test_missing_values_are_named_together(helm: Helm) -> None:
    """Without any values, one message names the missing sections and the missing secret."""
    error = helm.template().error
    for expected in ("'service'", "'monitors'", "'kafka'", "'redis'", "at '/secrets/personKey/existingSecret'"):
        assert expected in error


def test_chart_accepts_example_configurations(helm: Helm, root: Path) -> None:
    """The chart accepts the configurations of config/ and deploy/, without the keys that it sets."""
    files = [*sorted((root / "config").glob("*.yaml")), root / "deploy/config.yaml"]
    assert len(files) >= 4
    for file in files:
        tree = yaml.safe_load(file.read_text(encoding="utf-8"))
        tree["clock"]["origin"] = str(tree["clock"]["origin"]).replace(" ", "T")  # YAML 1.1 reads a time
        for section in tree.values():
            for key in [key for key in section if isinstance(section, dict) and key.endswith(("file", "background"))]:
                del section[key]
        answer = helm.template(value_set("minimal"), set_json=[f"config={json.dumps(tree)}"])
        assert answer.error == "", file


@pytest.mark.parametrize("name", ["minimal", "full", "secure"])
def test_rendered_configuration_is_valid(helm: Helm, name: str, tmp_path: Path) -> None:
    """The service accepts the configuration in the ConfigMap. Its files are those that the pod mounts."""
    answer = helm.template(value_set(name))
    config_map = answer.of_kind("ConfigMap")[0]
    for file, content in config_map["data"].items():
        (tmp_path / file).write_text(content, encoding="utf-8")
    config = load_config(tmp_path / "config.yaml", {})
    tree = yaml.safe_load(config_map["data"]["config.yaml"])
    paths = {str(path) for path in _list_files(tree)}
    assert paths <= {
        *_list_mounted(answer.of_kind("Deployment")[0]),
        "locations.csv",
        "/var/lib/location-monitor/locations.csv",
    }
    given = yaml.safe_load(value_set(name).read_text(encoding="utf-8"))["config"]
    assert config.service.name == given["service"]["name"]
    assert _remove_files(tree) == given


@pytest.mark.parametrize("name", ["minimal", "full", "secure"])
def test_check_accepts_each_set_of_values(helm: Helm, name: str, tmp_path: Path) -> None:
    """`check`, which the preflight job runs, accepts the configuration of each set of values."""
    content = helm.template(value_set(name)).of_kind("ConfigMap")[0]["data"]
    tree = yaml.safe_load(content["config.yaml"])
    watched = {place for monitor in tree["monitors"] for place in monitor.get("locations", ())}
    registry = content.get("locations.csv", "\n".join(["location_id", *sorted(watched or {"station"})]))
    (tmp_path / "locations.csv").write_text(registry, encoding="utf-8")
    tree["locations"]["file"] = "locations.csv"
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    result = CliRunner().invoke(main, ["check", "--config", str(tmp_path / "config.yaml")])
    assert result.exit_code == 0, result.output


def _list_files(tree: Any) -> list[str]:
    found = [section for section in tree.values() if isinstance(section, dict)]
    return [value for section in found for key, value in section.items() if key == "file" or key.endswith("_file")]


def _remove_files(tree: Any) -> Any:
    """Return a configuration without the keys that the chart has set."""
    kept = {
        name: {key: value for key, value in section.items() if key != "file" and not key.endswith("_file")}
        if isinstance(section, dict)
        else section
        for name, section in tree.items()
    }
    return {name: section for name, section in kept.items() if section}


def _list_mounted(deployment: dict[str, Any]) -> list[str]:
    """Return the paths of all mounted items."""
    pod = deployment["spec"]["template"]["spec"]
    places = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    return [
        f"{places[volume['name']]}/{item['path']}"
        for volume in pod["volumes"]
        for source in volume.get("projected", {}).get("sources", ())
        for item in next(iter(source.values())).get("items", ())
    ]


def test_schema_describes_every_default_value() -> None:
    """Each value with a default has a schema, and each schema a default, in all groups except the configuration."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    given = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    del schema["properties"]["global"], schema["properties"]["config"], given["config"]

    def compare(described: dict[str, Any], values: dict[str, Any]) -> None:
        assert described["properties"].keys() == values.keys()
        for name, value in values.items():
            if "properties" in described["properties"][name]:
                compare(described["properties"][name], value)

    compare(schema, given)


@pytest.mark.parametrize("original", ["prometheus/service.yml", "nginx.conf"])
def test_files_are_copies(root: Path, original: str) -> None:
    """The chart's copies of other files are equal. A symbolic link would break on Windows and in a ZIP archive."""
    copy = CHART / "files" / Path(original).name
    assert copy.read_bytes() == (root / "deploy" / original).read_bytes()
    assert not any(path.is_symlink() for path in CHART.rglob("*"))
