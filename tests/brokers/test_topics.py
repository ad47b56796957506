"""What the topics must be like, and what is said of those that are not; looked up on a real Kafka."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.topics import (
    TopicDescription,
    TopicNeeds,
    check_topics,
    create_topics,
    describe_topics,
    list_risks,
    list_topic_needs,
)
from monitor.config.servers import KafkaSettings
from monitor.contracts.alerts import at_times_record, hot_spots_record
from monitor.errors import TopicError
from monitor.public.instants import DAY, HOUR, MILLISECOND
from monitor.public.parameters import HotSpots, Parameters, Registry
from monitor.public.schedule import Schedule


def created(wanted: TopicNeeds) -> dict[str, str]:
    return {setting.key: setting.create for setting in wanted.settings}


class TestNeeds:
    def test_the_input_is_stamped_by_brokers_and_kept_by_time_alone(
        self, parameters: Parameters, kafka_settings: KafkaSettings
    ) -> None:
        """A visit's fate depends on the broker's stamp; windows and horizons are read again from it."""
        visits, _, _ = list_topic_needs(parameters, kafka_settings, simulated=False)
        assert visits.topic == kafka_settings.topics.visits
        assert visits.partitions == 3
        assert (
            created(visits).items()
            >= {
                "message.timestamp.type": "LogAppendTime",
                "cleanup.policy": "delete",
                "retention.bytes": "-1",
                "unclean.leader.election.enable": "false",
            }.items()
        )
        assert int(created(visits)["retention.ms"]) >= (24 + 1) * HOUR / MILLISECOND

    def test_the_ledger_is_kept_by_time_for_as_long_as_anything_runs(
        self, parameters: Parameters, kafka_settings: KafkaSettings
    ) -> None:
        """Not compacted (that would drop aborted records, hence marks); a period, W + F, the horizon, and a margin."""
        _, alerts, _ = list_topic_needs(parameters, kafka_settings, simulated=False)
        assert alerts.partitions == 2
        assert (
            created(alerts).items()
            >= {
                "cleanup.policy": "delete",
                "retention.bytes": "-1",
                "unclean.leader.election.enable": "false",
            }.items()
        )
        assert (
            int(created(alerts)["retention.ms"]) > (parameters.mark_lifetime * HOUR + parameters.period) / MILLISECOND
        )

    def test_a_horizon_longer_than_the_windows_lengthens_both(
        self, parameters: Parameters, kafka_settings: KafkaSettings
    ) -> None:
        """A designated time is asked about, and its answers hold, until its horizon has gone by."""
        patient = replace(parameters, at_times=(replace(parameters.at_times[0], horizon=30 * DAY),))
        for wanted in list_topic_needs(patient, kafka_settings, simulated=False)[:2]:
            assert int(created(wanted)["retention.ms"]) > 30 * DAY / MILLISECOND

    def test_simulated_time_is_kept_for_ever_and_taken_as_it_comes(
        self, parameters: Parameters, kafka_settings: KafkaSettings
    ) -> None:
        """Else 2013 is deleted, and a simulated future refused."""
        for wanted in list_topic_needs(parameters, kafka_settings, simulated=True)[:2]:
            assert (
                created(wanted).items()
                >= {
                    "message.timestamp.type": "CreateTime",
                    "retention.ms": "-1",
                    "message.timestamp.before.max.ms": str(2**63 - 1),
                    "message.timestamp.after.max.ms": str(2**63 - 1),
                }.items()
            )

    @pytest.mark.parametrize("letter", ["x", '"', "駅"])
    def test_the_largest_answer_fits_a_record(
        self, letter: str, parameters: Parameters, kafka_settings: KafkaSettings
    ) -> None:
        """Every location of a shard noisy, or all of them among the hot spots, whatever their ids are made of."""
        ids = tuple(f"{number:05}{letter * 80}" for number in range(9_000))
        spots = HotSpots("spots", Schedule.of(("12:00",), "UTC"), Fraction(1), 9_000, 6 * HOUR)
        wide = replace(parameters, registry=Registry(ids, 3), hot_spots=(spots,))
        _, alerts, _ = list_topic_needs(wide, kafka_settings, simulated=False)
        limit = int(created(alerts)["max.message.bytes"])
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
            noisy = {ids[row]: (10_000_000, 1_000_000) for row in rows}
            kept: dict[str, Any] = {"locations": len(rows), "threshold": 3, "noisy_counts": noisy}
            record = at_times_record(**common, **kept, shard=shard, shards=3, complete=True, final=True)
            assert _size(record) < limit
        hot = [(location, 1_000_000) for location in ids]
        assert _size(hot_spots_record(**common, locations=9_000, top=9_000, hot_spots=hot)) < limit

    def test_a_shard_too_large_for_the_topic_is_told_with_the_number_that_would_do(
        self, parameters: Parameters, kafka_settings: KafkaSettings
    ) -> None:
        """100,000 locations with ids of 6 to 11 bytes in one shard: about 7 MB, so 8 shards."""
        wide = replace(parameters, registry=Registry(tuple(f"place-{n}" for n in range(100_000)), 1))
        _, alerts, _ = list_topic_needs(wide, kafka_settings, simulated=False)
        size = next(setting for setting in alerts.settings if setting.key == "max.message.bytes")
        assert not size.suffices("1048588")
        assert size.suffices(size.create)
        assert "would fit 1 MB with 8 shards" in size.why


def _size(record: Any) -> int:
    return len(record.key) + len(record.value) + sum(len(name) + len(value) for name, value in record.headers)


class TestCreate:
    def test_made_topics_are_as_needed_and_making_them_again_changes_nothing(
        self, connections: KafkaConnections, parameters: Parameters, kafka_settings: KafkaSettings
    ) -> None:
        """All three at once; the second time there is nothing to make."""
        wanted = list_topic_needs(parameters, kafka_settings, simulated=False)
        names = kafka_settings.topics
        assert create_topics(connections, wanted, 1) == [names.visits, names.alerts, names.dead_letters]
        found = check_topics(connections, wanted)
        assert {name: topic.partitions for name, topic in found.items()} == {
            names.visits: 3,
            names.alerts: 2,
            names.dead_letters: 2,
        }
        assert create_topics(connections, wanted, 1) == []
        assert check_topics(connections, wanted) == found

    def test_only_what_is_missing_is_made(
        self, connections: KafkaConnections, parameters: Parameters, kafka_settings: KafkaSettings, admin: Any
    ) -> None:
        """The brokers' default number of replicas, if none is given."""
        names = kafka_settings.topics
        made = {names.dead_letters: {"num_partitions": 1, "replication_factor": 1}}
        admin.create_topics(made, wait_for_metadata=True)
        wanted = list_topic_needs(parameters, kafka_settings, simulated=False)
        assert create_topics(connections, wanted, None) == [names.visits, names.alerts]
        assert check_topics(connections, wanted)[names.dead_letters].partitions == 1

    def test_simulated_topics_are_made_and_checked_too(
        self, connections: KafkaConnections, parameters: Parameters, kafka_settings: KafkaSettings
    ) -> None:
        """And they are none that the service itself would use."""
        wanted = list_topic_needs(parameters, kafka_settings, simulated=True)
        create_topics(connections, wanted, 1)
        check_topics(connections, wanted)
        with pytest.raises(TopicError, match="LogAppendTime"):
            check_topics(connections, list_topic_needs(parameters, kafka_settings, simulated=False))


class TestChecked:
    def test_missing_topics_are_named_with_what_makes_them(
        self, connections: KafkaConnections, parameters: Parameters, kafka_settings: KafkaSettings
    ) -> None:
        """All three at once, by their keys in the configuration."""
        with pytest.raises(TopicError) as raised:
            check_topics(connections, list_topic_needs(parameters, kafka_settings, simulated=False))
        lines = str(raised.value).splitlines()
        for line, (key, name) in zip(lines, kafka_settings.topics, strict=True):
            assert line == (
                f"kafka.topics.{key} is {name!r}: there is no such topic; create it with "
                "`location-monitor topics --create`"
            )

    def test_each_wrong_setting_is_named_with_the_command_that_mends_it_all_at_once(
        self,
        connections: KafkaConnections,
        parameters: Parameters,
        kafka_settings: KafkaSettings,
        altered: Callable[..., None],
    ) -> None:
        """Compacted, kept by size, stamped by producers, kept too short, records too small: five lines."""
        wanted = list_topic_needs(parameters, kafka_settings, simulated=False)
        create_topics(connections, wanted, 1)
        names = kafka_settings.topics
        altered(names.visits, message_timestamp_type="CreateTime", retention_ms="60000")
        altered(names.alerts, cleanup_policy="compact", retention_bytes="1000000", max_message_bytes="9000")
        with pytest.raises(TopicError) as raised:
            check_topics(connections, wanted)
        lines = str(raised.value).splitlines()
        told = {
            (names.visits, "message.timestamp.type"): "CreateTime",
            (names.visits, "retention.ms"): "60000",
            (names.alerts, "cleanup.policy"): "compact",
            (names.alerts, "retention.bytes"): "1000000",
            (names.alerts, "max.message.bytes"): "9000",
        }
        assert len(lines) == len(told)
        for (name, setting), value in told.items():
            (line,) = (line for line in lines if f"{name!r}, whose {setting} is {value}: expected" in line)
            assert f"`kafka-configs.sh --alter --topic {name} --add-config {setting}=" in line

    def test_the_commands_that_are_told_mend_it(
        self,
        connections: KafkaConnections,
        parameters: Parameters,
        kafka_settings: KafkaSettings,
        altered: Callable[..., None],
    ) -> None:
        """Each setting of a message, applied as it says."""
        wanted = list_topic_needs(parameters, kafka_settings, simulated=False)
        create_topics(connections, wanted, 1)
        altered(kafka_settings.topics.alerts, cleanup_policy="compact", retention_ms="1000")
        with pytest.raises(TopicError) as raised:
            check_topics(connections, wanted)
        for line in str(raised.value).splitlines():
            name, _, setting = line.split("--topic ")[1].rstrip("`").partition(" --add-config ")
            altered(name, **dict([setting.split("=")]))
        check_topics(connections, wanted)

    @pytest.mark.parametrize(("kept", "suffices"), [(-1, True), (0, True), (1, False)])
    def test_a_retention_shorter_than_what_may_be_asked_is_refused(
        self,
        kept: int,
        suffices: bool,
        connections: KafkaConnections,
        parameters: Parameters,
        kafka_settings: KafkaSettings,
        altered: Callable[..., None],
    ) -> None:
        """A millisecond too short is; exactly as long, and for ever, are not."""
        wanted = list_topic_needs(parameters, kafka_settings, simulated=False)
        create_topics(connections, wanted, 1)
        least = (parameters.mark_lifetime + 2 + parameters.period_slots) * HOUR // MILLISECOND
        altered(kafka_settings.topics.alerts, retention_ms="-1" if kept < 0 else str(least - kept))
        if suffices:
            check_topics(connections, wanted)
        else:
            with pytest.raises(TopicError, match=rf"retention\.ms is {least - 1}: expected at least {least} \(4d4h\)"):
                check_topics(connections, wanted)


def test_a_description_has_the_topics_that_exist_with_all_their_settings(
    connections: KafkaConnections, parameters: Parameters, kafka_settings: KafkaSettings, admin: Any
) -> None:
    """Also those that nobody set, such as the dead letters' limit."""
    create_topics(connections, list_topic_needs(parameters, kafka_settings, simulated=False), 1)
    names = kafka_settings.topics
    found = describe_topics(admin, [names.dead_letters, "nowhere"])
    assert list(found) == [names.dead_letters]
    assert found[names.dead_letters].settings["max.message.bytes"] == "1048588"
    assert describe_topics(admin, ["nowhere"]) == {}


@pytest.mark.parametrize("topic_id", [None, "", UUID(int=0)])
def test_a_topic_without_an_id_is_refused(topic_id: object) -> None:
    """Brokers before Kafka 2.8 tell none: all topics of one name would be taken for the same one."""

    class Old:
        def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
            return [{"name": name, "error_code": 0, "topic_id": topic_id, "partitions": []} for name in names]

        def describe_configs(self, resources: list[Any], **_: str) -> dict[str, Any]:
            return {"topic": {resource.name: {"retention.ms": {"value": "-1"}} for resource in resources}}

    with pytest.raises(TopicError, match=r"topic visits: Kafka returned no topic ID.*expected Kafka 3 or later"):
        describe_topics(Old(), ["visits"])


class TestRisks:
    """What was acknowledged should lie on two disks; where it need not, the operator is told, and how to mend it."""

    @pytest.mark.parametrize(
        ("replicas", "in_sync", "told"),
        [
            (1, "1", "partitions have one replica.*kafka.replication_factor 3"),
            (1, "2", "partitions have one replica"),
            (2, "1", "min.insync.replicas is 1 with 2 replicas"),
            (3, "1", "min.insync.replicas is 1 with 3 replicas.*`kafka-configs.sh --alter --topic {} --add-config"),
            (2, "2", None),
            (3, "2", None),
        ],
    )
    def test_input_and_ledger_are_told_of_the_dead_letters_are_not(
        self, replicas: int, in_sync: str, told: str | None, parameters: Parameters, kafka_settings: KafkaSettings
    ) -> None:
        wanted = list_topic_needs(parameters, kafka_settings, simulated=False)
        found = {need.topic: TopicDescription("id", 1, replicas, {"min.insync.replicas": in_sync}) for need in wanted}
        warnings = list_risks(wanted, found)
        names = kafka_settings.topics
        assert len(warnings) == (0 if told is None else 2)
        for name, warning in zip((names.visits, names.alerts), warnings, strict=False):
            assert re.search((told or "").format(name), warning), warning
        assert list_risks(list_topic_needs(parameters, kafka_settings, simulated=True), found) == []

    def test_the_real_servers_copies_are_counted(
        self, connections: KafkaConnections, parameters: Parameters, kafka_settings: KafkaSettings
    ) -> None:
        """One broker, so one copy."""
        wanted = list_topic_needs(parameters, kafka_settings, simulated=False)
        create_topics(connections, wanted, 1)
        assert len(list_risks(wanted, check_topics(connections, wanted))) == 2

    @pytest.mark.parametrize(("factor", "in_sync"), [(None, None), (1, None), (2, None), (3, "2"), (5, "2")])
    def test_topics_are_made_so_that_one_broker_may_be_away_and_two_disks_hold_everything(
        self, factor: int | None, in_sync: str | None, parameters: Parameters, kafka_settings: KafkaSettings
    ) -> None:
        made: dict[str, Any] = {}

        class Admin:
            def describe_topics(self, _: list[str]) -> list[dict[str, Any]]:
                return []

            def create_topics(self, topics: dict[str, Any], **_: bool) -> None:
                made.update(topics)

            def close(self) -> None:
                pass

        class Connections(KafkaConnections):
            def admin(self) -> Admin:
                return Admin()

        create_topics(
            Connections(("nowhere:9092",)), list_topic_needs(parameters, kafka_settings, simulated=False), factor
        )
        names = kafka_settings.topics
        for name, expected in ((names.visits, in_sync), (names.alerts, in_sync), (names.dead_letters, None)):
            assert made[name]["configs"].get("min.insync.replicas") == expected
