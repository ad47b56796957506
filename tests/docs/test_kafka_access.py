"""The rights that the operations page lists suffice, on a real broker that grants nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

from monitor.clock import SystemClock
from monitor.config import load_config, load_registry
from monitor.connections import KafkaConnections
from monitor.embedded import EmbeddedKafka, EmbeddedValkey, KafkaSettings
from monitor.operate.setup import Beginning, set_up
from monitor.operate.topics import TopicNeeds, needs
from monitor.release.ledger import read_partition
from monitor.run import run
from monitor.service import Settings, settings_of

USER, SECRET = "service", "sesame"
TOPICS = {"input": "visits", "output": "safety-alerts", "dead letters": "dead-letters"}

_SETTINGS: dict[str, Any] = {
    "service": {"name": "town", "shards": 2},
    "clock": {"slot": "2s", "origin": "2026-01-05T00:00:00Z", "release_delay": "500ms", "tolerance": "100ms"},
    "locations": {"file": "locations.csv"},
    "visits": {"default_stay": "1s", "accept_ahead": "2s"},
    "privacy": {"epsilon": "100", "period": "1h"},
    "monitors": [
        {
            "name": "places",
            "kind": "over_time",
            "locations": ["inn"],
            "epsilon": "1/10",
            "threshold": 500,
            "window": "1h",
        },
    ],
    "kafka": {
        "bootstrap_servers": ["localhost:9092"],
        "topics": {"visits": "visits", "alerts": "safety-alerts", "dead_letters": "dead-letters"},
        "partitions": {"visits": 1, "alerts": 1},
    },
    "redis": {"url": "redis://localhost:6379/0"},
    "metrics": {"port": 0},
}


@pytest.fixture(scope="module")
def guarded(kafka: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    """A broker with an authorizer: on its plain listener everyone may do everything, on the secured one nobody may."""
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{SECRET}";'
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": login,
    }
    with EmbeddedKafka(KafkaSettings(properties=properties, secure_protocol="SASL_PLAINTEXT")) as server:
        yield server


@pytest.fixture
def settings(guarded: EmbeddedKafka, valkey: EmbeddedValkey, tmp_path: Path) -> Settings:
    (tmp_path / "locations.csv").write_text("location_id\ninn\nmill\n", encoding="utf-8")
    tree = _SETTINGS | {"redis": {"url": valkey.url}}
    (tmp_path / "town.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    config = load_config(tmp_path / "town.yaml", {})
    plain = settings_of(config, load_registry(config.locations.file), b"0123456789abcdef")
    security = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER,
        "sasl_plain_password": SECRET,
    }
    return replace(plain, kafka=KafkaConnections((guarded.secure_bootstrap_servers,), security))


def _listed(named: dict[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    """Resource type, its name on the page, and operations, but for those of `topics --create`."""
    for resource, operations, purpose in named["docs/operations.md"].rows("Access"):
        if "--create" not in purpose:
            kind, _, name = resource.replace(",", "").partition(" ")
            yield kind, name.strip("`"), operations.split(", ")


def _acl(kind: ResourceType, name: str, operation: str, *, prefix: bool = False) -> ACL:
    pattern = ACLResourcePatternType.PREFIXED if prefix else ACLResourcePatternType.LITERAL
    word = "".join(f"_{letter}" if letter.isupper() else letter for letter in operation).strip("_").upper()
    resource = ResourcePattern(kind, name, pattern)
    return ACL(f"User:{USER}", "*", ACLOperation[word], ACLPermissionType.ALLOW, resource)


def _rights(named: dict[str, Any], ledger_id: str) -> list[ACL]:
    rights = []
    for kind, name, operations in _listed(named):
        for operation in operations:
            if kind == "topic":
                rights.append(_acl(ResourceType.TOPIC, TOPICS[name], operation))
            elif kind == "group":
                rights.append(_acl(ResourceType.GROUP, name.replace("<name>", "town"), operation))
            else:
                rights.append(_acl(ResourceType.TRANSACTIONAL_ID, ledger_id, operation, prefix=True))
    return rights


def _wanted(settings: Settings) -> tuple[TopicNeeds, ...]:
    return needs(settings.scheme, settings.config.kafka, simulated=False)


def _topic_id(admin: KafkaAdminClient) -> str:
    return str(admin.describe_topics([TOPICS["output"]])[0]["topic_id"])


def _answers(guarded: EmbeddedKafka) -> list[str]:
    plain = KafkaConnections((guarded.bootstrap_servers,))
    found = read_partition(plain, TOPICS["output"], 0)
    return [record.key.decode() for _offset, record in found if b'"safe"' in record.value]


def test_a_user_with_the_listed_rights_alone_runs_the_service(
    named: dict[str, Any], guarded: EmbeddedKafka, settings: Settings, eventually: Callable[..., Any]
) -> None:
    """An administrator makes the topics; then the service reads, takes the ledger over, and publishes."""
    by_admin = KafkaConnections((guarded.bootstrap_servers,))
    groups = (settings.input_group, settings.release_group)
    set_up(by_admin, settings.scheme, _wanted(settings), groups, Beginning.UNSAID, SystemClock().now(), 1)
    with closing(KafkaAdminClient(bootstrap_servers=guarded.bootstrap_servers)) as admin:
        rights = _rights(named, _topic_id(admin))
        assert {right.resource_pattern.resource_type for right in rights} == {
            ResourceType.TOPIC,
            ResourceType.GROUP,
            ResourceType.TRANSACTIONAL_ID,
        }
        admin.create_acls(rights)
    producer = by_admin.producer()
    producer.send(TOPICS["input"], value=b"no visit").get(timeout=10)  # so that a dead letter is written too
    producer.close()
    stop = threading.Event()
    service = threading.Thread(target=run, args=(settings, SystemClock(), stop), daemon=True)
    service.start()
    try:
        assert eventually(lambda: _answers(guarded), deadline_seconds=60)
        letters = read_partition(by_admin, TOPICS["dead letters"], 0)
        assert [record.value for _offset, record in letters] == [b"no visit"]
    finally:
        stop.set()
        service.join(30)
    assert not service.is_alive()
