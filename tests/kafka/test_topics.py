"""The required settings of topics, their creation and their checks, on a real Kafka."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest

from monitor.config.kafka_and_redis import KafkaSettings
from monitor.errors import TopicError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import (
    TopicDescription,
    TopicNeeds,
    check_topics,
    create_topics,
    describe_topics,
    format_tool_options,
    list_risks,
    list_topic_needs,
)
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.at_times.record import NoisyCount, make_at_times_record
from monitor.kinds.hot_spots.keys_and_parameters import HotSpots
from monitor.kinds.hot_spots.record import make_hot_spots_record
from monitor.kinds.locations import Registry
from monitor.kinds.parameters import Parameters
from monitor.operate.replay.driver import adapt_topic_needs
from monitor.time.instants import DAY, HOUR, MILLISECOND
from monitor.time.schedule import Schedule
from tests.builders import replace_monitors, select
from tests.topic_fixtures import TopicSet


def read_settings(wanted: TopicNeeds) -> dict[str, str]:
    return {setting.key: setting.create for setting in wanted.settings}


Needs = tuple[TopicNeeds, ...]


@pytest.fixture
def needs(parameters: Parameters, kafka_settings: KafkaSettings) -> Needs:
    """What each topic needs."""
    return list_topic_needs(parameters, kafka_settings)


class TestNeeds:
    def test_input_topic_settings(self, needs: Needs, kafka_settings: KafkaSettings) -> None:
        """The brokers stamp the input, and retention is by time: windows and horizons are read again from it."""
        visits, _, _ = needs
        assert visits.topic == kafka_settings.topics.visits
        assert visits.partitions == 3
        assert (
            read_settings(visits).items()
            >= {
                "message.timestamp.type": "LogAppendTime",
                "cleanup.policy": "delete",
                "retention.bytes": "-1",
                "unclean.leader.election.enable": "false",
            }.items()
        )
        assert int(read_settings(visits)["retention.ms"]) >= (24 + 1) * HOUR / MILLISECOND

    def test_ledger_topic_settings(self, parameters: Parameters, needs: Needs) -> None:
        """The ledger is retained for a period, W + F and a horizon; compaction would drop aborted records."""
        _, alerts, _ = needs
        assert alerts.partitions == 2
        assert (
            read_settings(alerts).items()
            >= {
                "cleanup.policy": "delete",
                "retention.bytes": "-1",
                "unclean.leader.election.enable": "false",
            }.items()
        )
        assert (
            int(read_settings(alerts)["retention.ms"])
            > (parameters.mark_lifetime * HOUR + parameters.period) / MILLISECOND
        )

    def test_long_horizon_lengthens_retention(self, parameters: Parameters, kafka_settings: KafkaSettings) -> None:
        """A horizon longer than the windows lengthens the retention of input and ledger."""
        patient = replace_monitors(parameters, at_times=(replace(select(parameters, AtTimes)[0], horizon=30 * DAY),))
        for wanted in list_topic_needs(patient, kafka_settings)[:2]:
            assert int(read_settings(wanted)["retention.ms"]) > 30 * DAY / MILLISECOND

    def test_replay_topics_keep_any_timestamp(self, needs: Needs) -> None:
        """The topics of a replay accept any timestamp and retain records for ever."""
        for wanted in adapt_topic_needs(needs)[:2]:
            assert (
                read_settings(wanted).items()
                >= {
                    "message.timestamp.type": "CreateTime",
                    "retention.ms": "-1",
                    "message.timestamp.before.max.ms": str(2**63 - 1),
                    "message.timestamp.after.max.ms": str(2**63 - 1),
                }.items()
            )

    @pytest.mark.parametrize("letter", ["x", '"', "駅"])
    def test_largest_answer_fits_a_record(
        self, letter: str, parameters: Parameters, kafka_settings: KafkaSettings
    ) -> None:
        """The largest snapshot and the largest hot spots fit into a record, for any ids."""
        ids = tuple(f"{number:05}{letter * 80}" for number in range(9_000))
        spots = HotSpots("spots", Schedule.of(("12:00",), "UTC"), Fraction(1), 9_000, 6 * HOUR)
        wide = replace_monitors(parameters, registry=Registry(ids, 3), hot_spots=(spots,))
        _, alerts, _ = list_topic_needs(wide, kafka_settings)
        limit = int(read_settings(alerts)["max.message.bytes"])
        common: dict[str, Any] = {
            "source": "town",
            "monitor": "noon",
            "time": 0,
            "tick": 10_000_000,
            "as_of": 0,
            "registry": "0" * 64,
            "epsilon": Fraction(1),
        }
        for shard, rows in enumerate(wide.registry.by_shard):
            noisy = {ids[row]: NoisyCount(10_000_000, 1_000_000) for row in rows}
            kept: dict[str, Any] = {"locations": len(rows), "threshold": 3, "noisy_counts": noisy}
            record = make_at_times_record(**common, **kept, shard=shard, shards=3, complete=True, final=True)
            assert _measure(record) < limit
        hot = [(location, 1_000_000) for location in ids]
        assert _measure(make_hot_spots_record(**common, locations=9_000, top=9_000, hot_spots=hot)) < limit

    @pytest.mark.promise(36)
    def test_large_shard_needs_larger_records(self, parameters: Parameters, kafka_settings: KafkaSettings) -> None:
        """100,000 locations in one shard need records of about 7 MB; the reason names 8 shards."""
        wide = replace(parameters, registry=Registry(tuple(f"place-{n}" for n in range(100_000)), 1))
        _, alerts, _ = list_topic_needs(wide, kafka_settings)
        size = next(setting for setting in alerts.settings if setting.key == "max.message.bytes")
        assert not size.suffices("1048588")
        assert size.suffices(size.create)
        assert "with 8 shards it would fit in 1 MB" in size.why


def _measure(record: Any) -> int:
    return len(record.key) + len(record.value) + sum(len(name) + len(value) for name, value in record.headers)


class TestCreate:
    def test_created_topics_pass_the_check(self, topic_set: TopicSet) -> None:
        """Created topics pass the check, and creating them again changes nothing."""
        names = topic_set.names
        assert topic_set.create_topics() == [names.visits, names.alerts, names.dead_letters]
        topics = topic_set.check()
        assert {name: topic.partitions for name, topic in topics.items()} == {
            names.visits: 3,
            names.alerts: 2,
            names.dead_letters: 2,
        }
        assert topic_set.create_topics() == []
        assert topic_set.check() == topics

    def test_only_missing_topics_are_created(self, topic_set: TopicSet) -> None:
        """Only missing topics are created, with the brokers' default number of replicas."""
        names = topic_set.names
        existing = {names.dead_letters: {"num_partitions": 1, "replication_factor": 1}}
        topic_set.admin.create_topics(existing, wait_for_metadata=True)
        assert create_topics(topic_set.connections, topic_set.needs, None) == [names.visits, names.alerts]
        assert topic_set.check()[names.dead_letters].partitions == 1

    def test_replay_topics_are_created(self, topic_set: TopicSet) -> None:
        """The topics of a replay pass their own check, but not that of the service."""
        wanted = adapt_topic_needs(topic_set.needs)
        create_topics(topic_set.connections, wanted, 1)
        check_topics(topic_set.connections, wanted)
        with pytest.raises(TopicError, match="LogAppendTime"):
            topic_set.check()


class TestCheckTopics:
    def test_missing_topics_are_reported(self, topic_set: TopicSet) -> None:
        """All missing topics are reported with their keys and the command that creates them."""
        with pytest.raises(TopicError) as raised:
            topic_set.check()
        lines = str(raised.value).splitlines()
        for line, (key, name) in zip(lines, topic_set.names, strict=True):
            assert line == (
                f"kafka.topics.{key} is {name!r}: there is no such topic; create it with "
                "`location-monitor topics --create`"
            )

    @pytest.mark.promise(36)
    def test_wrong_settings_are_reported(self, topic_set: TopicSet) -> None:
        """All wrong settings are reported with commands, and the commands correct them."""
        topic_set.create_topics()
        names = topic_set.names
        topic_set.alter(names.visits, message_timestamp_type="CreateTime", retention_ms="60000")
        topic_set.alter(names.alerts, cleanup_policy="compact", retention_bytes="1000000", max_message_bytes="9000")
        with pytest.raises(TopicError) as raised:
            topic_set.check()
        lines = str(raised.value).splitlines()
        expected = {
            (names.visits, "message.timestamp.type"): "CreateTime",
            (names.visits, "retention.ms"): "60000",
            (names.alerts, "cleanup.policy"): "compact",
            (names.alerts, "retention.bytes"): "1000000",
            (names.alerts, "max.message.bytes"): "9000",
        }
        assert len(lines) == len(expected)
        for (name, setting), value in expected.items():
            (line,) = (line for line in lines if f"{name!r}, whose {setting} is {value}: expected" in line)
            tool = f"`kafka-configs.sh --bootstrap-server localhost:9092 --alter --topic {name} --add-config "
            _, _, command = line.partition(tool)
            assert command.startswith(f"{setting}=")
            topic_set.alter(name, **dict([command.rstrip("`").split("=")]))
        topic_set.check()

    @pytest.mark.promise(36)
    @pytest.mark.parametrize(("kept", "suffices"), [(-1, True), (0, True), (1, False)])
    def test_short_retention_is_refused(
        self, kept: int, suffices: bool, parameters: Parameters, topic_set: TopicSet
    ) -> None:
        """A retention one millisecond too short is refused; the exact one and an unlimited one are accepted."""
        topic_set.create_topics()
        least = (parameters.mark_lifetime + 2 + parameters.period_slots) * HOUR // MILLISECOND
        topic_set.alter(topic_set.names.alerts, retention_ms="-1" if kept < 0 else str(least - kept))
        if suffices:
            topic_set.check()
        else:
            with pytest.raises(TopicError, match=rf"retention\.ms is {least - 1}: expected at least {least} \(4d4h\)"):
                topic_set.check()


def test_description_has_all_settings(topic_set: TopicSet) -> None:
    """A description has the existing topics with all settings, including defaults."""
    topic_set.create_topics()
    names = topic_set.names
    topics = topic_set.describe(names.dead_letters, "nowhere")
    assert list(topics) == [names.dead_letters]
    assert topics[names.dead_letters].settings["max.message.bytes"] == "1048588"
    assert topic_set.describe("nowhere") == {}


@pytest.mark.parametrize("topic_id", [None, "", UUID(int=0)])
def test_topic_without_id_is_refused(topic_id: object) -> None:
    """A topic without an ID (Kafka before 2.8) is refused, because a recreated topic could not be detected."""

    class OldAdmin:
        def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
            return [{"name": name, "error_code": 0, "topic_id": topic_id, "partitions": []} for name in names]

        def describe_configs(self, resources: list[Any], **_: str) -> dict[str, Any]:
            return {"topic": {resource.name: {"retention.ms": {"value": "-1"}} for resource in resources}}

    with pytest.raises(TopicError, match=r"topic visits: Kafka returned no topic ID.*expected Kafka 3 or later"):
        describe_topics(OldAdmin(), ["visits"])


class TestRisks:
    """Warnings, with a remedy, for topics whose acknowledged records may be on a single disk."""

    @pytest.mark.parametrize(
        ("replicas", "in_sync", "warning"),
        [
            (1, "1", "partitions have one replica.*kafka.replication_factor 3"),
            (1, "2", "partitions have one replica"),
            (2, "1", "min.insync.replicas is 1 with 2 replicas"),
            (
                3,
                "1",
                "min.insync.replicas is 1 with 3 replicas.*`kafka-configs.sh --bootstrap-server .* --alter --topic {} ",
            ),
            (2, "2", None),
            (3, "2", None),
        ],
    )
    def test_few_replicas_are_reported(
        self, replicas: int, in_sync: str, warning: str | None, needs: Needs, kafka_settings: KafkaSettings
    ) -> None:
        """Few replicas of the input or the ledger are reported, those of dead letters are not."""
        topics = {need.topic: TopicDescription("id", 1, replicas, {"min.insync.replicas": in_sync}) for need in needs}
        warnings = list_risks(needs, topics)
        names = kafka_settings.topics
        assert len(warnings) == (0 if warning is None else 2)
        for name, text in zip((names.visits, names.alerts), warnings, strict=False):
            assert re.search((warning or "").format(name), text), text
        assert list_risks(adapt_topic_needs(needs), topics) == []

    def test_replicas_of_real_topics_are_counted(self, topic_set: TopicSet) -> None:
        """The single replica on one broker is reported."""
        topic_set.create_topics()
        assert len(list_risks(topic_set.needs, topic_set.check())) == 2

    @pytest.mark.parametrize(("factor", "in_sync"), [(None, None), (1, None), (2, None), (3, "2"), (5, "2")])
    def test_created_topics_tolerate_one_broker_down(
        self, factor: int | None, in_sync: str | None, needs: Needs, kafka_settings: KafkaSettings
    ) -> None:
        """With three or more replicas min.insync.replicas is 2, so one broker may be down."""
        created: dict[str, Any] = {}

        class Admin:
            def describe_topics(self, _: list[str]) -> list[dict[str, Any]]:
                return []

            def create_topics(self, topics: dict[str, Any], **_: bool) -> None:
                created.update(topics)

            def close(self) -> None:
                pass

        class Connections(KafkaConnections):
            def create_admin(self) -> Admin:
                return Admin()

        create_topics(Connections(("nowhere:9092",)), needs, factor)
        names = kafka_settings.topics
        for name, expected in ((names.visits, in_sync), (names.alerts, in_sync), (names.dead_letters, None)):
            assert created[name]["configs"].get("min.insync.replicas") == expected


def test_tool_options_reach_the_brokers() -> None:
    """The commands in messages name the brokers, and a file for settings that are secret."""
    servers = ("kafka-1:9092", "kafka-2:9092")
    assert format_tool_options(servers) == " --bootstrap-server kafka-1:9092,kafka-2:9092"
    assert (
        format_tool_options(servers, "SASL_SSL") == f"{format_tool_options(servers)} --command-config client.properties"
    )
