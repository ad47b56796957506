"""The chart's topics and rights are those that the service demands: computed, compared, and tried on a real Kafka."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import pytest
import yaml

from monitor.config.derive_parameters import derive_parameters
from monitor.config.whole_config import Config
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import MESSAGE_BYTES, TopicNeeds, check_topics, list_topic_needs
from tests.deploy.chart.helm import Helm, value_set
from tests.security.rights import ALL_KAFKA_RIGHTS, AUDITOR_RIGHTS
from tests.shared_kafka import SharedKafka

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.long,
]  # the first test on a machine compiles Helm, which a busy machine delays
KAFKA = ("component=kafka", "strimzi.cluster=events")
PURPOSES = ("visits", "alerts", "dead_letters")


def list_needs(tree: Mapping[str, Any]) -> tuple[TopicNeeds, ...]:
    """Return what the service demands of the topics of a configuration."""
    secret = {"password": "planted"} if "sasl_mechanism" in tree["kafka"] else {}
    redis = {"password": "planted"} if "username" in tree["redis"] else {}
    sections = {"kafka": {**tree["kafka"], **secret}, "redis": {**tree["redis"], **redis}}
    config = Config.model_validate({**tree, **sections, "locations": {"file": "locations.csv"}})
    watched = {place for monitor in tree["monitors"] for place in monitor.get("locations", ())}
    return list_topic_needs(derive_parameters(config, sorted(watched | {"x"})), config.kafka)


def render_topics(helm: Helm, tree: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the specification of the chart's topics, by purpose."""
    answer = helm.template(value_set("minimal"), set=KAFKA, set_json=[f"config={json.dumps(tree)}"])
    assert answer.error == ""
    found = answer.of_kind("KafkaTopic")
    assert all(topic["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"} for topic in found)
    assert all(topic["apiVersion"] == "kafka.strimzi.io/v1" for topic in found)
    return dict(zip(PURPOSES, (topic["spec"] for topic in found), strict=True))


def configuration(name: str) -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load(value_set(name).read_text(encoding="utf-8"))["config"]
    return tree


def draw_configurations(number: int) -> list[dict[str, Any]]:
    """Return configurations with random slots, windows, horizons and periods, and durations of several units."""
    chosen = random.Random(20)
    made = []
    for _ in range(number):
        slot = chosen.choice([(30, "30s"), (60, "1m"), (900, "15m"), (3600, "1h"), (5400, "1h30m"), (86400, "1d")])
        tree = configuration("full")
        tree["clock"] |= {"slot": slot[1], "release_delay": "5s", "tolerance": "500ms"}
        tree["visits"]["accept_ahead"] = f"{chosen.randrange(3) * slot[0]}s"
        tree["privacy"] |= {"epsilon": "1000", "period": f"{chosen.randrange(1, 30)}d{chosen.randrange(60)}m"}
        tree["monitors"][0]["window"] = f"{chosen.randrange(1, 400) * slot[0]}s"
        for monitor in tree["monitors"][1:]:
            monitor["reporting_horizon"] = f"{chosen.randrange(1, 20)}d{chosen.randrange(24)}h{chosen.randrange(60)}m1s"
        tree["monitors"] = chosen.sample(tree["monitors"], chosen.randrange(1, 5))
        made.append(tree)
    return made


def assert_settings(topics: Mapping[str, dict[str, Any]], needs: tuple[TopicNeeds, ...]) -> None:
    """Check that the chart's settings are those with which `topics --create` creates the topics."""
    for purpose, need in zip(PURPOSES, needs, strict=True):
        topic = topics[purpose]
        settings = dict(topic.get("config", {}))
        in_sync = settings.pop("min.insync.replicas", None)
        assert (in_sync == "2") is (need.durable and topic.get("replicas", 1) >= 3)
        assert settings == {setting.key: setting.create for setting in need.settings}
        assert all(setting.suffices(settings[setting.key]) for setting in need.settings)
        assert (topic["topicName"], topic["partitions"]) == (need.topic, need.partitions)


@pytest.mark.parametrize("name", ["minimal", "full", "secure"])
def test_topics_have_the_demanded_settings(helm: Helm, name: str) -> None:
    """The KafkaTopics have the names, partitions and settings that `topics` demands and creates."""
    tree = configuration(name)
    assert_settings(render_topics(helm, tree), list_needs(tree))


def test_retention_follows_every_configuration(helm: Helm) -> None:
    """For 10 random configurations, the retention that the chart computes is the one that `topics` creates."""
    seen = set()
    for tree in draw_configurations(10):
        topics = render_topics(helm, tree)
        assert_settings(topics, list_needs(tree))
        seen.add((topics["visits"]["config"]["retention.ms"], topics["alerts"]["config"]["retention.ms"]))
    assert len(seen) > 7


def test_user_has_exactly_the_documented_rights(helm: Helm) -> None:
    """The KafkaUser has the rights of docs/operations.md for topics that exist, and no other."""
    answer = helm.template(value_set("full"), set=["component=kafka"])
    (user,) = answer.of_kind("KafkaUser")
    assert user["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    names = configuration("full")["kafka"]["topics"]
    topics = {"input": names["visits"], "output": names["alerts"], "dead letters": names["dead_letters"]}
    expected = set()
    for right in (right for right in ALL_KAFKA_RIGHTS if not right.create):
        kind = {"transactional id": "transactionalId"}.get(right.kind, right.kind)
        name = topics[right.name] if kind == "topic" else right.resource("city")
        expected.add((kind, name, "prefix" if "prefix" in right.name else "literal", right.operation))
    granted = {
        (acl["resource"]["type"], acl["resource"]["name"], acl["resource"]["patternType"], operation)
        for acl in user["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    }
    assert granted == expected


def test_auditor_user_only_reads(helm: Helm) -> None:
    """If the values name a user of the auditor, it is created with the documented rights, and no other."""
    answer = helm.template(value_set("full"), set=["component=kafka", "auditor.kafkaUsername=reader"])
    user = answer.of_kind("KafkaUser")[1]
    assert user["metadata"]["name"] == "reader"
    names = configuration("full")["kafka"]["topics"]
    topics = {"input": names["visits"], "output": names["alerts"]}
    granted = {
        (acl["resource"]["type"], acl["resource"]["name"], acl["resource"]["patternType"], operation)
        for acl in user["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    }
    assert granted == {("topic", topics[right.name], "literal", right.operation) for right in AUDITOR_RIGHTS}


def test_service_accepts_chart_topics(helm: Helm, kafka: SharedKafka, topic: Callable[[str], str]) -> None:
    """On a real Kafka, topics with the chart's settings pass the check of `topics` and `run`."""
    tree = configuration("minimal")
    tree["kafka"]["topics"] = {purpose: topic(purpose.replace("_", "-")) for purpose in PURPOSES}
    wanted = {
        found["topicName"]: {
            "num_partitions": found["partitions"],
            "replication_factor": 1,
            "configs": found.get("config", {}),
        }
        for found in render_topics(helm, tree).values()
    }
    connections = KafkaConnections((kafka.bootstrap_servers,))
    with closing(connections.create_admin()) as admin:
        admin.create_topics(wanted, wait_for_metadata=True)
    assert check_topics(connections, list_needs(tree)).keys() == wanted.keys()


def test_components_do_not_overlap(helm: Helm) -> None:
    """The component `kafka` contains only the topics and the user, and the component `service` none of them."""
    service = helm.template(value_set("full"))
    servers = helm.template(value_set("full"), set=["component=kafka"])
    of_strimzi = {"KafkaTopic", "KafkaUser"}
    assert {found["kind"] for found in servers.manifests} == of_strimzi
    assert not {found["kind"] for found in service.manifests} & of_strimzi


def test_largest_record_can_be_raised(helm: Helm) -> None:
    """`strimzi.maxMessageBytes` sets the size of the output's records, also above a million, and not in exponents."""
    answer = helm.template(value_set("full"), set=["component=kafka", "strimzi.maxMessageBytes=12345678"])
    config = answer.of_kind("KafkaTopic")[1]["spec"]["config"]
    assert config[MESSAGE_BYTES] == "12345678"
