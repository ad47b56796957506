"""The compose file: what it mounts is there, its parts find each other, and real servers take its settings."""

from __future__ import annotations

import fnmatch
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest
import redis
import yaml
from click.testing import CliRunner
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from monitor.cli import main
from monitor.config import load_config
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey

Skip = Callable[[str, str], NoReturn]


@pytest.fixture(scope="module")
def compose(root: Path) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((root / "deploy/compose.yaml").read_text(encoding="utf-8"))
    return read


def _services(compose: dict[str, Any]) -> dict[str, Any]:
    services: dict[str, Any] = compose["services"]
    return services


def test_check_accepts_the_configuration_of_the_compose_file(root: Path) -> None:
    result = CliRunner().invoke(main, ["check", "--config", str(root / "deploy/config.yaml")])
    assert result.exit_code == 0, result.output
    assert "Warnings" not in result.output


def test_every_file_that_is_mounted_is_there_but_the_secret(root: Path, compose: dict[str, Any]) -> None:
    mounts = [mount for service in _services(compose).values() for mount in service.get("volumes", ())]
    files = {mount.split(":")[0] for mount in mounts if mount.startswith(".")}
    assert files
    assert all((root / "deploy" / file).is_file() for file in files)
    assert compose["secrets"]["person_key"]["file"] == "./person.key"
    ignored = (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert any(fnmatch.fnmatch("person.key", rule) for rule in ignored), "the secret must not get into a commit"


def test_every_volume_and_secret_and_dependency_is_defined(compose: dict[str, Any]) -> None:
    services = _services(compose)
    for service in services.values():
        named = {mount.split(":")[0] for mount in service.get("volumes", ()) if not mount.startswith(".")}
        assert named <= compose["volumes"].keys()
        assert set(service.get("secrets", ())) <= compose["secrets"].keys()
        assert service.get("depends_on", {}).keys() <= services.keys()


def test_the_configuration_names_the_services_of_the_compose_file(root: Path, compose: dict[str, Any]) -> None:
    config = load_config(root / "deploy/config.yaml", {})
    services = _services(compose)
    kafka = services["kafka"]["environment"]
    assert f"INSIDE://{config.kafka.bootstrap_servers[0]}" in kafka["KAFKA_ADVERTISED_LISTENERS"]
    assert config.redis.parts.hostname in services
    assert config.visits.person_key_file == Path("/run/secrets/person_key")
    assert f"127.0.0.1:{config.metrics.port}:{config.metrics.port}" in services["monitor"]["ports"]


def test_ports_are_published_on_the_loopback_alone(compose: dict[str, Any]) -> None:
    ports = [port for service in _services(compose).values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_commands_of_the_compose_file_are_commands_of_the_program(compose: dict[str, Any]) -> None:
    for service in _services(compose).values():
        if service["image"].startswith("location-monitor"):
            name, *options = service.get("command", ["run", "--config", "…"])
            known = {option for parameter in main.commands[name].params for option in parameter.opts}
            assert {option for option in options if option.startswith("--")} <= known


def test_the_broker_knows_every_setting(compose: dict[str, Any], kafka: EmbeddedKafka) -> None:
    """A misspelt property would be passed over by the broker in silence."""
    environment = _services(compose)["kafka"]["environment"]
    properties = {name.removeprefix("KAFKA_").lower().replace("_", ".") for name in environment}
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "1")], config_filter="all")
    assert properties <= found["broker"]["1"].keys()


def test_the_store_starts_with_its_settings_and_evicts_nothing(compose: dict[str, Any], valkey: EmbeddedValkey) -> None:
    command = _services(compose)["valkey"]["command"]
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


def test_prometheus_accepts_its_configuration_and_scrapes_the_service(
    root: Path, compose: dict[str, Any], skip_without: Skip
) -> None:
    file = root / "deploy/prometheus.yml"
    port = load_config(root / "deploy/config.yaml", {}).metrics.port
    targets = yaml.safe_load(file.read_text(encoding="utf-8"))["scrape_configs"][0]["static_configs"][0]["targets"]
    assert targets == [f"monitor:{port}"]
    assert "monitor" in _services(compose)
    promtool = shutil.which("promtool")
    if promtool is None:
        skip_without("Prometheus (no promtool on the PATH)", "make test-tools")
    done = subprocess.run([promtool, "check", "config", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
