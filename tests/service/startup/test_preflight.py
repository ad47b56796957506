"""The preflight checks of topics, ledger and Redis, on real servers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import pytest

from monitor.config.kafka_and_redis import PartitionCounts
from monitor.errors import LedgerError, TopicError
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.at_times.record import LaterCount, NoisyCount, make_at_times_record
from monitor.kinds.locations import Registry
from monitor.kinds.over_time.keys_and_parameters import OverTime, measure_place
from monitor.kinds.parameters import Parameters
from monitor.ledger.append_to_ledger import Writer
from monitor.ledger.ledger_state import LedgerState, OwnerTerms
from monitor.privacy.over_time import Mark
from monitor.records.owner_record import make_ledger_record
from monitor.service.create_topics import Beginning
from monitor.service.preflight import require_room
from tests.builders import replace_monitors, select
from tests.service.startup.ledger_states import noon, states_with_marks
from tests.topic_fixtures import TopicSet

HALF = Fraction(1, 2)


class TestRunPreflight:
    def test_preflight_returns_topics_and_states(self, topic_set: TopicSet) -> None:
        """The result has the topics with ids, the terms, and a state per ledger partition."""
        topic_set.create()
        checked = topic_set.preflight()
        terms = OwnerTerms("town", 2, input_topic_id=checked.topics[topic_set.names.visits].topic_id)
        assert checked.terms == terms
        assert [state.terms for state in checked.states] == [terms] * 2
        assert set(checked.topics) == {name for _, name in topic_set.names}
        assert len({topic.topic_id for topic in checked.topics.values()}) == 3

    def test_other_number_of_output_partitions_is_named(
        self, topic_set: TopicSet, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A `kafka.partitions.alerts` that is not that of the ledger is named, also if the topic has got partitions."""
        topic_set.create()
        partitions = PartitionCounts(visits=3, alerts=4)
        changed = replace(topic_set, settings=topic_set.settings.model_copy(update={"partitions": partitions}))
        message = f"kafka.partitions.alerts is 4, and the ledger in {topic_set.names.alerts} has 2: expected 2"
        changed.preflight()
        topic_set.admin.create_partitions({topic_set.names.alerts: 4})
        topic_set.eventually(lambda: topic_set.describe(topic_set.names.alerts)[topic_set.names.alerts].partitions == 4)
        changed.preflight()
        assert caplog.text.count(message) == 2
        caplog.clear()
        topic_set.preflight()
        assert "kafka.partitions.alerts" not in caplog.text

    def test_missing_first_record_is_refused(self, topic_set: TopicSet) -> None:
        """Topics created by hand are not an initialised ledger."""
        topic_set.create_topics()
        with pytest.raises(LedgerError, match=r"has no first record.*`location-monitor topics --create`"):
            topic_set.preflight()

    @pytest.mark.parametrize(
        ("partition", "message"), [(0, r"begins above offset 0.*--ledger-lost"), (1, "partition 1 of")]
    )
    def test_expired_ledger_is_refused(self, partition: int, message: str, topic_set: TopicSet) -> None:
        """An empty partition that does not begin at offset 0, whichever it is, is an expired ledger."""
        topic_set.create()
        topic_set.empty(partition)
        with pytest.raises(LedgerError, match=message):
            topic_set.preflight()

    @pytest.mark.promise(35)
    def test_another_services_ledger_is_refused(self, parameters: Parameters, topic_set: TopicSet) -> None:
        """The ledger of another service is refused with both names."""
        topic_set.create()
        with pytest.raises(LedgerError, match=r"service\.name is 'osaka'.*belongs to 'town'"):
            topic_set.preflight(replace(parameters, name="osaka"))

    @pytest.mark.promise(33)
    def test_other_slot_grid_is_refused(
        self, parameters: Parameters, published: Callable[..., None], topic_set: TopicSet
    ) -> None:
        """Another slot grid is refused if a tick has been decided."""
        published(10)
        topic_set.preflight()
        halves = replace(parameters, grid=replace(parameters.grid, length=parameters.grid.length // 2))
        with pytest.raises(LedgerError, match=r"clock\.slot and clock\.origin put tick 10 at"):
            topic_set.preflight(halves)

    @pytest.mark.promise(33)
    def test_other_number_of_shards_is_refused(self, parameters: Parameters, topic_set: TopicSet) -> None:
        """Another number of shards is refused if it moves locations to other ledger partitions.

        With two ledger partitions, four shards leave each location where it was with two; three do not. The check
        applies even before anything is published, because another instance may publish at any time.
        """
        topic_set.create()
        topic_set.preflight(replace(parameters, registry=Registry(parameters.registry.ids, 4)))
        moved = Registry(parameters.registry.ids, 3)
        assert any(moved.shard % 2 != parameters.registry.shard % 2)
        with pytest.raises(LedgerError, match=r"service\.shards is 3.*expected a multiple of 2, such as 2 or 4"):
            topic_set.preflight(replace(parameters, registry=moved))
        with pytest.raises(LedgerError, match=r"service\.shards is 1.*expected a multiple of 2, such as 2$"):
            topic_set.preflight(replace(parameters, registry=Registry(parameters.registry.ids, 1)))

    @pytest.mark.parametrize(("first", "other"), [(2, 3), (1, 2)])
    def test_contradictory_first_records_are_refused(self, first: int, other: int, topic_set: TopicSet) -> None:
        """First records with different numbers of ledger partitions are refused."""
        topic_set.create()
        ledger = topic_set.names.alerts
        topic_id = topic_set.describe(ledger)[ledger].topic_id

        for partition, ledger_partitions in enumerate((first, other)):
            topic_set.empty(partition)
            record = make_ledger_record(
                source="town", service="town", partitions=ledger_partitions, lost_at=None, partition=partition, at=0
            )
            with closing(Writer(topic_set.connections, ledger, topic_id, partition)) as writer:
                writer.append([record])
        with pytest.raises(LedgerError, match=rf"differ in the number of ledger partitions \({first}, {other}\)"):
            topic_set.preflight()

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
    def test_ledger_with_compression_is_read(
        self, codec: str, published: Callable[..., None], topic_set: TopicSet
    ) -> None:
        """The ledger can be read with each compression.type, in which the broker rewrites batches."""
        topic_set.create()
        topic_set.alter(topic_set.names.alerts, compression_type=codec)
        published(10)
        marked = {key for state in topic_set.preflight().states for key in state.marks}
        assert marked == {("stations", "place-0"), ("stations", "place-1")}

    def test_one_ledger_partition_allows_any_shards(
        self, parameters: Parameters, published: Callable[..., None], topic_set: TopicSet
    ) -> None:
        """With one ledger partition any number of shards is valid."""
        single = {"num_partitions": 1, "replication_factor": 1}
        settings = topic_set.needs[1].settings
        configs = {setting.key: setting.create for setting in settings}
        topic_set.admin.create_topics({topic_set.names.alerts: {**single, "configs": configs}}, wait_for_metadata=True)
        published(10, ledger_partitions=1)
        for shards in (1, 3, 7):
            assert (
                len(topic_set.preflight(replace(parameters, registry=Registry(parameters.registry.ids, shards))).states)
                == 1
            )


class TestRoom:
    """The record of a location must fit into the topic, including answers of earlier configurations."""

    def test_present_answers_fit(self, parameters: Parameters) -> None:
        """The answers of the present configuration fit into the size that `check` accepts."""
        rule = replace(select(parameters, OverTime)[0].rules[0], answers=20)
        many = replace_monitors(parameters, over_time=(OverTime("stations", (0, 1), (rule, rule)),))
        marks = tuple(Mark(tick, 5, rule.answer_epsilon, tick + rule.mark_lifetime - 1) for tick in range(20))
        state = states_with_marks({("stations", "place-0"): marks})
        require_room(many, state, "alerts", {"max.message.bytes": str(measure_place(rule))})

    def test_too_many_earlier_answers_are_refused(self, parameters: Parameters) -> None:
        """Too many answers of earlier configurations are refused with the required size."""
        marks = tuple(Mark(tick, 5, Fraction(1, 8_000), tick + 8_000) for tick in range(4_000))
        state = states_with_marks({("stations", "place-0"): marks, ("gone", "place-1"): marks * 2})
        with pytest.raises(TopicError, match=r"max\.message\.bytes is 262144: expected at least \d+") as raised:
            require_room(parameters, state, "alerts", {"max.message.bytes": "262144"})
        required = str(raised.value).rpartition("=")[2].rstrip("`")
        require_room(parameters, state, "alerts", {"max.message.bytes": required})

    def test_numbers_of_a_larger_k_are_counted(self, parameters: Parameters) -> None:
        """A snapshot repeats the noisy counts of an earlier, larger k, and the required size contains them."""
        monitor, registry = select(parameters, AtTimes)[0], parameters.registry
        state, time, epsilon = LedgerState(), noon(parameters, 0), monitor.epsilon / 5
        later = tuple(LaterCount(tick, 10**9, epsilon) for tick in (13, 14, 15, 16))
        record = make_at_times_record(
            source="town",
            monitor=monitor.name,
            time=time,
            tick=16,
            as_of=parameters.grid.as_of(16),
            registry=registry.digest,
            locations=len(registry.by_shard[0]),
            shard=0,
            shards=2,
            complete=True,
            final=False,
            threshold=monitor.threshold,
            epsilon=monitor.epsilon,
            answers_per_time=5,
            noisy_counts={registry.ids[row]: NoisyCount(12, 10**9, epsilon, later) for row in registry.by_shard[0]},
        )
        state.fold(record, parameters.grid)
        assert monitor.measure_largest(registry) < len(record.value)
        with pytest.raises(TopicError, match=r"max\.message\.bytes is 999: expected at least \d+") as raised:
            require_room(parameters, [state], "alerts", {"max.message.bytes": "999"})
        required = str(raised.value).rpartition("=")[2].rstrip("`")
        assert len(record.value) <= int(required) <= 3 * len(record.value)  # ticks and counts may be longer
        require_room(parameters, [state], "alerts", {"max.message.bytes": required})
        state.last_tick = 18  # the horizon is over, and nothing repeats them
        require_room(parameters, [state], "alerts", {"max.message.bytes": "999"})


def test_lost_ledger_passes_preflight(parameters: Parameters, topic_set: TopicSet) -> None:
    """A ledger initialised after a loss passes the checks, and its terms contain the time of the loss."""
    now = parameters.grid.start(30)
    topic_set.create(Beginning.LEDGER_LOST, now)
    terms = topic_set.preflight().terms
    assert (terms.service, terms.partitions, terms.lost_at) == ("town", 2, now)
