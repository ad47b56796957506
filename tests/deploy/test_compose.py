"""The compose file: mounted files exist, its services find each other, and real servers accept its settings."""

from __future__ import annotations

import fnmatch
import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import redis
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from monitor.cli import main
from monitor.config.load import load_config
from monitor.operate.servers import EmbeddedValkey
from tests.deploy.compose_file import translate
from tests.needed_programs import run_promtool
from tests.shared_kafka import SharedKafka

pytestmark = pytest.mark.long

SCRAPED: Final = {"monitor", "auditor", "page", "watch"}
"""The services that Prometheus scrapes."""


def _list_services(compose: dict[str, Any]) -> dict[str, Any]:
    services: dict[str, Any] = compose["services"]
    return services


@pytest.fixture(scope="module")
def specification(root: Path) -> Draft202012Validator:
    """The schema of the Compose Specification."""
    schema = json.loads((root / "tests/deploy/compose_spec/compose-spec.json").read_bytes())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_compose_file_follows_the_specification(compose: dict[str, Any], specification: Draft202012Validator) -> None:
    """The compose file is valid under the schema of the Compose Specification."""
    assert [error.message for error in specification.iter_errors(compose)] == []


def test_check_accepts_compose_configuration(root: Path) -> None:
    """`check` accepts the compose file's configuration without warnings."""
    result = CliRunner().invoke(main, ["check", "--config", str(root / "deploy/config.yaml")])
    assert result.exit_code == 0, result.output
    assert "Warnings" not in result.output


def test_mounted_files_exist_except_the_secret(root: Path, compose: dict[str, Any]) -> None:
    """Every mounted file exists, except the secret, which git ignores."""
    mounts = [mount for service in _list_services(compose).values() for mount in service.get("volumes", ())]
    files = {mount.split(":")[0] for mount in mounts if mount.startswith(".")}
    assert files
    assert all((root / "deploy" / file).exists() for file in files)
    assert compose["secrets"]["person_key"]["file"] == "./person.key"
    ignored = (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert any(fnmatch.fnmatch("person.key", rule) for rule in ignored), "the secret must not be committed"


def test_volumes_secrets_and_dependencies_are_defined(compose: dict[str, Any]) -> None:
    """The volumes, secrets and dependencies of each service are defined."""
    services = _list_services(compose)
    for service in services.values():
        named = {mount.split(":")[0] for mount in service.get("volumes", ()) if not mount.startswith(".")}
        assert named <= compose["volumes"].keys()
        assert set(service.get("secrets", ())) <= compose["secrets"].keys()
        assert service.get("depends_on", {}).keys() <= services.keys()


def test_configuration_names_compose_services(root: Path, compose: dict[str, Any]) -> None:
    """The configuration uses the compose file's hosts, secret and ports."""
    config = load_config(root / "deploy/config.yaml", {})
    services = _list_services(compose)
    kafka = services["kafka"]["environment"]
    assert f"INSIDE://{config.kafka.bootstrap_servers[0]}" in kafka["KAFKA_ADVERTISED_LISTENERS"]
    assert config.redis.parts.hostname in services
    assert config.visits.person_key_file == Path("/run/secrets/person_key")
    assert f"127.0.0.1:{config.metrics.port}:{config.metrics.port}" in services["monitor"]["ports"]
    assert services["page"]["command"][-2:] == ["--out", "/srv/page"]
    assert {"page:/srv/page", "page:/srv/page:ro"} <= {*services["page"]["volumes"], *services["web"]["volumes"]}
    served = (root / "deploy/nginx.conf").read_text(encoding="utf-8")
    assert "root /srv/page;" in served
    assert ("listen 8080;" in served, services["web"]["ports"]) == (True, ["127.0.0.1:8080:8080"])


def test_monitoring_names_compose_services(root: Path, compose: dict[str, Any]) -> None:
    """Prometheus scrapes services of the file and loads mounted rules; Grafana has its dashboards."""
    services = _list_services(compose)
    scraping = yaml.safe_load((root / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8"))
    targets = [target for job in scraping["scrape_configs"] for target in job["static_configs"][0]["targets"]]
    assert {target.partition(":")[0] for target in targets} == SCRAPED
    mounted = {mount.split(":")[1] for mount in services["prometheus"]["volumes"]}
    assert {f"/etc/prometheus/{file}" for file in scraping["rule_files"]} <= mounted
    places = dict(mount.split(":")[:2] for mount in services["grafana"]["volumes"])
    provider = yaml.safe_load(
        (root / "deploy/grafana/provisioning/dashboards/location-monitor.yaml").read_text("utf-8")
    )
    assert places["./grafana/dashboards"] == provider["providers"][0]["options"]["path"]
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (root / "deploy/grafana/dashboards" / Path(home).name).is_file()


def test_only_the_service_reaches_the_store(compose: dict[str, Any]) -> None:
    """Valkey shares a network with the service, and with nothing else. Each service names its networks."""
    networks = {name: set(service["networks"]) for name, service in _list_services(compose).items()}
    assert [name for name, joined in networks.items() if joined & networks["valkey"]] == ["valkey", "monitor"]
    assert set().union(*networks.values()) == compose["networks"].keys()


def test_each_service_reaches_what_it_uses(compose: dict[str, Any]) -> None:
    """A service shares a network with each service that it depends on, and Prometheus with each that it scrapes."""
    services = _list_services(compose)
    uses = {name: {*service.get("depends_on", ())} - {"topics"} for name, service in services.items()}
    uses |= {name: {"kafka"} for name in ("auditor", "page", "watch")} | {"prometheus": {*SCRAPED}}
    uses["web"] = set()  # it reads a volume that the page has created
    for name, used in uses.items():
        assert all(set(services[name]["networks"]) & set(services[other]["networks"]) for other in used), name


def test_images_are_pinned_by_digest(root: Path, compose: dict[str, Any]) -> None:
    """Every image that is not built here has a digest, and the chart and the compose file have the same web server."""
    images = [service["image"] for service in _list_services(compose).values() if "build" not in service]
    bases = re.findall(r"^ARG BASE=(\S+)$", (root / "deploy/Containerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(images) == 6
    assert len({*images}) == 5, "kafka and rights have the same image"
    assert len(bases) == 1
    assert [image for image in (*images, *bases) if not re.search(r":[^@/]+@sha256:[0-9a-f]{64}$", image)] == []
    web = yaml.safe_load((root / "deploy/chart/values.yaml").read_text(encoding="utf-8"))["page"]["web"]
    assert re.sub(r":[^:@/]+@", "@", compose["services"]["web"]["image"]) == f"{web['repository']}@{web['digest']}"


def test_ports_are_published_only_on_loopback(compose: dict[str, Any]) -> None:
    """All ports are published only on 127.0.0.1."""
    ports = [port for service in _list_services(compose).values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_compose_commands_exist(compose: dict[str, Any]) -> None:
    """The commands and options of the compose file exist in the program."""
    for service in _list_services(compose).values():
        if service["image"].startswith("location-monitor"):
            name, *options = service.get("command", ["run", "--config", "…"])
            known = {option for parameter in main.commands[name].params for option in parameter.opts}
            assert {option for option in options if option.startswith("--")} <= known


def test_broker_knows_every_setting(compose: dict[str, Any], kafka: SharedKafka) -> None:
    """The broker knows every property of the compose file; it would ignore a misspelt one silently.

    The authorizer's own two are not among those that a broker lists. `test_compose_logins.py` shows their effect.
    """
    properties = {*translate(_list_services(compose)["kafka"]["environment"])}
    listeners = {f"listener.name.{name}.plain.sasl.jaas.config" for name in ("inside", "outside", "controller")}
    authorizer = {"allow.everyone.if.no.acl.found", "super.users"}
    assert listeners | authorizer <= properties
    properties = properties - listeners - authorizer | {"sasl.jaas.config"}
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        known = admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "1")], config_filter="all")
    assert properties <= known["broker"]["1"].keys()


def test_store_accepts_its_settings(compose: dict[str, Any], valkey: EmbeddedValkey) -> None:
    """A real Valkey accepts every setting of the store."""
    command = _list_services(compose)["valkey"]["command"]
    settings = dict(zip((name.removeprefix("--") for name in command[1::2]), command[2::2], strict=True))
    with closing(redis.Redis.from_url(valkey.url, decode_responses=True)) as client:
        before = client.config_get(*settings)
        assert before.keys() == settings.keys()
        try:
            for name, value in settings.items():
                assert client.config_set(name, value)
            assert client.config_get(*settings) == settings
        finally:
            for name, value in before.items():
                client.config_set(str(name), str(value))


def test_prometheus_scrapes_the_service(root: Path, compose: dict[str, Any]) -> None:
    """Prometheus accepts its configuration, which scrapes the service's metrics port."""
    file = root / "deploy/prometheus/prometheus.yml"
    port = load_config(root / "deploy/config.yaml", {}).metrics.port
    targets = yaml.safe_load(file.read_text(encoding="utf-8"))["scrape_configs"][0]["static_configs"][0]["targets"]
    assert targets == [f"monitor:{port}"]
    assert "monitor" in _list_services(compose)
    run_promtool("check", "config", str(file))
