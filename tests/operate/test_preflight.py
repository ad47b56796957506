"""The preflight checks of topics, ledger and Redis, on real servers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import redis

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.topics import needs
from monitor.config.servers import KafkaSettings
from monitor.contracts.alerts import ledger_record
from monitor.contracts.record_sizes import place_bytes
from monitor.errors import EvictionError, LedgerError, TopicError
from monitor.operate.preflight import Preflight, require_room
from monitor.operate.setup import Beginning
from monitor.privacy.over_time import Mark
from monitor.public.parameters import OverTime, Parameters, Registry
from monitor.release.ledger import LedgerRecord, Writer
from monitor.release.state import OwnerTerms
from monitor.tools.embedded import EmbeddedValkey
from monitor.windows.redis_client import RedisAddress, redis_client
from monitor.windows.redis_store import RedisWindows
from tests.operate.ledger_states import states_with_marks

HALF = Fraction(1, 2)
Create = Callable[..., Any]


class TestRunPreflight:
    def test_what_is_there_is_found(
        self,
        create: Create,
        preflight: Callable[[Parameters], Preflight],
        parameters: Parameters,
        kafka_settings: KafkaSettings,
    ) -> None:
        """Topics with ids, the terms, and a state for each partition of the ledger."""
        create()
        found = preflight(parameters)
        terms = OwnerTerms("town", 2, input_topic_id=found.topics[kafka_settings.topics.visits].topic_id)
        assert found.terms == terms
        assert [state.terms for state in found.states] == [terms] * 2
        assert set(found.topics) == {name for _, name in kafka_settings.topics}
        assert len({topic.topic_id for topic in found.topics.values()}) == 3

    def test_missing_topics_come_first(
        self, preflight: Callable[[Parameters], Preflight], parameters: Parameters
    ) -> None:
        """Before the ledger is looked for."""
        with pytest.raises(TopicError, match="there is no such topic"):
            preflight(parameters)

    def test_a_ledger_without_its_first_record_is_refused(
        self,
        create: Create,
        preflight: Callable[[Parameters], Preflight],
        parameters: Parameters,
        admin: Any,
    ) -> None:
        """Topics that somebody made by hand are no ledger."""
        admin.create_topics(
            {
                need.topic: {
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "configs": {setting.key: setting.create for setting in need.settings},
                }
                for need in create.wanted  # type: ignore[attr-defined]  # the fixture's own class
            },
            wait_for_metadata=True,
        )
        with pytest.raises(LedgerError, match=r"has no first record.*`location-monitor topics --create`"):
            preflight(parameters)

    def test_a_ledger_that_expired_is_told_from_one_that_never_began(
        self,
        create: Create,
        preflight: Callable[[Parameters], Preflight],
        parameters: Parameters,
        kafka_settings: KafkaSettings,
        emptied: Callable[[str, int], None],
    ) -> None:
        """It is empty, but does not begin at offset 0."""
        create()
        emptied(kafka_settings.topics.alerts, 0)
        with pytest.raises(LedgerError, match=r"begins above offset 0.*--ledger-lost"):
            preflight(parameters)

    def test_a_partition_of_the_ledger_that_was_lost_is_refused(
        self,
        create: Create,
        preflight: Callable[[Parameters], Preflight],
        parameters: Parameters,
        kafka_settings: KafkaSettings,
        emptied: Callable[[str, int], None],
    ) -> None:
        """Not the first one, so the others must be looked at as well."""
        create()
        emptied(kafka_settings.topics.alerts, 1)
        with pytest.raises(LedgerError, match="partition 1 of"):
            preflight(parameters)

    def test_another_services_ledger_is_refused(
        self, create: Create, preflight: Callable[[Parameters], Preflight], parameters: Parameters
    ) -> None:
        """With both names."""
        create()
        with pytest.raises(LedgerError, match=r"service\.name is 'osaka'.*belongs to 'town'"):
            preflight(replace(parameters, name="osaka"))

    def test_another_grid_is_refused_once_anything_was_decided(
        self, preflight: Callable[[Parameters], Preflight], parameters: Parameters, published: Callable[..., None]
    ) -> None:
        """Ticks of half-hours say nothing about hours."""
        published(10)
        preflight(parameters)
        halves = replace(parameters, grid=replace(parameters.grid, length=parameters.grid.length // 2))
        with pytest.raises(LedgerError, match=r"clock\.slot and clock\.origin put tick 10 at"):
            preflight(halves)

    def test_another_number_of_shards_must_not_move_locations_away_from_what_they_spent(
        self, create: Create, preflight: Callable[[Parameters], Preflight], parameters: Parameters
    ) -> None:
        """Of two ledger partitions: four shards leave each location where it was with two, three don't.

        Also before anything was published: another instance may publish as soon as this one has looked.
        """
        create()
        preflight(replace(parameters, registry=Registry(parameters.registry.ids, 4)))
        moved = Registry(parameters.registry.ids, 3)
        assert any(moved.shard % 2 != parameters.registry.shard % 2)
        with pytest.raises(LedgerError, match=r"service\.shards is 3.*expected a multiple of 2, such as 2 or 4"):
            preflight(replace(parameters, registry=moved))
        with pytest.raises(LedgerError, match=r"service\.shards is 1.*expected a multiple of 2, such as 2$"):
            preflight(replace(parameters, registry=Registry(parameters.registry.ids, 1)))

    @pytest.mark.parametrize(("first", "other"), [(2, 3), (1, 2)])
    def test_a_ledger_whose_partitions_differ_in_their_number_is_refused(
        self,
        first: int,
        other: int,
        preflight: Callable[[Parameters], Preflight],
        parameters: Parameters,
        kafka_settings: KafkaSettings,
        connections: KafkaConnections,
        create: Create,
        emptied: Callable[[str, int], None],
    ) -> None:
        """Else shards would be answered from two partitions, or from none; here by an earlier version's mistake."""
        create()
        ledger = kafka_settings.topics.alerts
        with closing(connections.admin()) as admin:
            topic_id = str(admin.describe_topics([ledger])[0]["topic_id"])
        for partition, ledger_partitions in enumerate((first, other)):
            emptied(ledger, partition)
            made = ledger_record(
                source="town", service="town", partitions=ledger_partitions, lost_at=None, partition=partition, at=0
            )
            with closing(Writer(connections, ledger, topic_id, partition)) as writer:
                writer.append([LedgerRecord(made.key, made.value, tuple(made.headers), 0)])
        with pytest.raises(LedgerError, match=rf"differ in how many partitions the ledger has \({first}, {other}\)"):
            preflight(parameters)

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
    def test_a_ledger_is_read_whose_topic_compresses_it(
        self,
        codec: str,
        preflight: Callable[[Parameters], Preflight],
        parameters: Parameters,
        kafka_settings: KafkaSettings,
        published: Callable[..., None],
        altered: Callable[..., None],
        create: Create,
    ) -> None:
        """The broker writes every batch anew in the topic's own compression.type, whatever we sent."""
        create()
        altered(kafka_settings.topics.alerts, compression_type=codec)
        published(10)
        marked = {key for state in preflight(parameters).states for key in state.marks}
        assert marked == {("stations", "place-0"), ("stations", "place-1")}

    def test_one_ledger_partition_takes_any_number_of_shards(
        self,
        preflight: Callable[[Parameters], Preflight],
        parameters: Parameters,
        kafka_settings: KafkaSettings,
        published: Callable[..., None],
        admin: Any,
    ) -> None:
        """All of them lie in it."""
        single = {"num_partitions": 1, "replication_factor": 1}
        needed = needs(parameters, kafka_settings, simulated=False)[1].settings
        configs = {setting.key: setting.create for setting in needed}
        admin.create_topics({kafka_settings.topics.alerts: {**single, "configs": configs}}, wait_for_metadata=True)
        published(10, ledger_partitions=1)
        for shards in (1, 3, 7):
            assert len(preflight(replace(parameters, registry=Registry(parameters.registry.ids, shards))).states) == 1


class TestRoom:
    """What a place's record repeats must fit the topic, also where an earlier configuration gave more answers."""

    def test_the_present_answers_need_no_more_than_they_are_accepted_with(self, parameters: Parameters) -> None:
        """However many of them run."""
        rule = replace(parameters.over_time[0].rules[0], answers=20)
        many = replace(parameters, over_time=(OverTime("stations", (0, 1), (rule, rule)),))
        marks = tuple(Mark(tick, 5, rule.answer_epsilon, tick + rule.mark_lifetime - 1) for tick in range(20))
        state = states_with_marks({("stations", "place-0"): marks})
        require_room(many, state, "alerts", {"max.message.bytes": str(place_bytes(rule))})

    def test_more_answers_of_before_are_refused_with_the_size_that_would_do(self, parameters: Parameters) -> None:
        """Thousands at a small ε run on under one answer a window."""
        marks = tuple(Mark(tick, 5, Fraction(1, 8_000), tick + 8_000) for tick in range(4_000))
        state = states_with_marks({("stations", "place-0"): marks, ("gone", "place-1"): marks * 2})
        with pytest.raises(TopicError, match=r"max\.message\.bytes is 262144: expected at least \d+") as raised:
            require_room(parameters, state, "alerts", {"max.message.bytes": "262144"})
        would_do = str(raised.value).rpartition("=")[2].rstrip("`")
        require_room(parameters, state, "alerts", {"max.message.bytes": would_do})


class TestEviction:
    def test_a_server_that_may_evict_is_refused(self, valkey: EmbeddedValkey, parameters: Parameters) -> None:
        """A fact that is evicted makes a false "safe"."""
        with redis.Redis.from_url(valkey.url) as raw:
            raw.config_set("maxmemory-policy", "allkeys-lru")
            try:
                with (
                    closing(RedisWindows(parameters, "f", redis_client(RedisAddress(valkey.url)))) as windows,
                    pytest.raises(EvictionError, match=r"allkeys-lru: expected noeviction.*CONFIG SET"),
                ):
                    windows.check()
            finally:
                raw.config_set("maxmemory-policy", "noeviction")


def test_a_lost_ledger_is_looked_at_like_any_other(
    create: Create, preflight: Callable[[Parameters], Preflight], parameters: Parameters
) -> None:
    """Its terms say when it was lost."""
    now = parameters.grid.start(30)
    create(Beginning.LEDGER_LOST, now)
    terms = preflight(parameters).terms
    assert (terms.service, terms.partitions, terms.lost_at) == ("town", 2, now)
