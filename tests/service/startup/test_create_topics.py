"""`topics --create` on a real Kafka: new, lost and interrupted ledgers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from unittest.mock import ANY

import pytest
from kafka import OffsetAndMetadata, TopicPartition

from monitor.errors import LedgerError, TopicError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.locations import Registry
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import OwnerTerms
from monitor.operate.servers import EmbeddedValkey
from monitor.service.create_topics import Beginning, SetupResult, date_ledger_loss, read_redis_time
from monitor.service.preflight import read_ledger
from monitor.store.redis_client import RedisAddress, create_client
from monitor.store.redis_store import RedisStore
from monitor.ticks.owner import LedgerTopic
from monitor.time.clock import SteppedClock, SystemClock
from monitor.time.instants import HOUR, SECOND, format_instant
from tests.kit.topics import create_topic
from tests.ticks.deciding import own, publish
from tests.topic_fixtures import TopicSet


@pytest.fixture
def parameters(parameters: Parameters, topic: Callable[[str], str]) -> Parameters:
    """The parameters with a name of its own, because tests here commit offsets in groups of the service."""
    return replace(parameters, name=topic(parameters.name))


@pytest.fixture(params=["-release", "-0123456789abcdef"])
def ran_before(
    request: pytest.FixtureRequest, connections: KafkaConnections, parameters: Parameters, topic: Callable[[str], str]
) -> Iterator[str]:
    """The name of a group of the service that has committed offsets of an existing topic."""
    name, group = topic("visits-before"), f"{parameters.name}{request.param}"
    create_topic(connections, name)
    with closing(connections.create_admin()) as admin:
        place = TopicPartition(name, 0)
        with closing(connections.create_consumer(group_id=group)) as consumer:
            consumer.assign([place])
            consumer.commit({place: OffsetAndMetadata(0, "", -1)})
        yield group
        admin.delete_groups([group])


def read_terms(topic_set: TopicSet, partition: int = 0) -> OwnerTerms | None:
    """Return the terms of the ledger's first record, without the id of the input topic."""
    ledger = read_ledger(topic_set.connections, topic_set.parameters, topic_set.names.alerts, partition + 1)
    first = ledger.states[partition].terms
    return None if first is None else replace(first, input_topic_id="")


def test_first_start_initialises_all_partitions(parameters: Parameters, topic_set: TopicSet) -> None:
    """A first start initialises all ledger partitions; repeated calls change nothing."""
    names = topic_set.names
    result = topic_set.create()
    assert result == SetupResult((names.visits, names.alerts, names.dead_letters), (0, 1), None, ANY)
    assert str(result).endswith("initialised ledger partitions 0, 1")
    for partition in (0, 1):
        assert read_terms(topic_set, partition) == OwnerTerms(parameters.name, 2)
    for beginning in Beginning:
        again = topic_set.create(beginning)
        assert again == SetupResult((), (), None, ANY)
        assert str(again) == "all topics existed; the ledger was initialised before"
    assert read_ledger(topic_set.connections, parameters, names.alerts, 1).states[0].records == 1


@pytest.mark.promise(32, 39)
def test_empty_ledger_needs_an_explanation(parameters: Parameters, ran_before: str, topic_set: TopicSet) -> None:
    """If the service ran before, the operator must say what an empty ledger means. The message has the consequences."""
    with pytest.raises(LedgerError, match=f"{ran_before} ran before.*--first-start.*--ledger-lost") as refused:
        topic_set.create()
    pause = (
        "places of over_time monitors for the window plus visits.accept_ahead plus visits.default_stay, each in whole"
    )
    assert pause in str(refused.value)
    assert read_terms(topic_set) is None
    with pytest.raises(LedgerError):
        topic_set.create()


@pytest.mark.usefixtures("ran_before")
def test_first_start_pauses_nothing(parameters: Parameters, topic_set: TopicSet) -> None:
    """--first-start pauses no location."""
    assert topic_set.create(Beginning.FIRST_START).lost_at is None
    assert read_terms(topic_set) == OwnerTerms(parameters.name, 2)


@pytest.mark.promise(32)
@pytest.mark.usefixtures("ran_before")
def test_ledger_lost_pauses_all_locations(parameters: Parameters, topic_set: TopicSet) -> None:
    """
    --ledger-lost pauses all locations of over_time monitors for W + F ticks.

    The ledger was lost in slot 10, so everything counts as spent for W + F = 25 ticks.

        tick      10 …  34  35
                  p  p  p   s
    """
    now = parameters.grid.start(10) + 1
    result = topic_set.create(Beginning.LEDGER_LOST, now)
    assert result.lost_at == now
    assert "all ε counts as spent at 2026-01-01T10:00:00.000001Z" in str(result)
    ledger = topic_set.names.alerts
    assert [read_terms(topic_set, partition) for partition in (0, 1)] == [OwnerTerms(parameters.name, 2, now)] * 2
    topic_id = topic_set.describe(ledger)[ledger].topic_id
    clock = SteppedClock(now)
    statuses: dict[int, set[str]] = {}
    for partition in (0, 1):
        place = LedgerTopic(ledger, topic_id, "input", "fingerprint", now)
        with closing(own(topic_set.connections, place, partition, parameters, clock)) as owner:
            for tick in (10, 34, 35):
                answers = publish(owner, tick, {}).answers
                statuses[tick] = statuses.get(tick, set()) | {
                    status for monitor, status in answers if monitor == "stations"
                }
    assert statuses == {10: {"paused"}, 34: {"paused"}, 35: {"unknown"}}


def test_first_record_names_the_input_topic(parameters: Parameters, topic_set: TopicSet) -> None:
    """The first record contains the input topic's id, so a recreated input is noticed."""
    topic_set.create()
    ledger, visits = topic_set.names.alerts, topic_set.names.visits
    topics = topic_set.describe(ledger, visits)
    first = read_ledger(topic_set.connections, parameters, ledger, 1).states[0].terms
    assert first is not None
    assert first.input_topic_id == topics[visits].topic_id
    clock = SteppedClock(parameters.grid.start(10))
    seen = parameters.grid.start(30)
    for input_id, complete_from in ((topics[visits].topic_id, None), ("another", 32)):
        place = LedgerTopic(ledger, topics[ledger].topic_id, input_id, "fingerprint", seen)
        with closing(own(topic_set.connections, place, 0 if complete_from is None else 1, parameters, clock)) as owner:
            assert owner.state.terms is not None
            assert owner.state.terms.input_since == complete_from


def test_partly_lost_ledger_is_refused(parameters: Parameters, topic_set: TopicSet) -> None:
    """If one partition lost its first record, the operator must say what that means."""
    topic_set.create()
    topic_set.empty(1)
    with pytest.raises(LedgerError, match="only some partitions are initialised"):
        topic_set.create()
    now = parameters.grid.start(12)
    assert topic_set.create(Beginning.LEDGER_LOST, now) == SetupResult((), (1,), now, ANY)
    assert read_terms(topic_set, 0) == OwnerTerms(parameters.name, 2)
    assert read_terms(topic_set, 1) == OwnerTerms(parameters.name, 2, now)


def test_added_partitions_stay_outside_the_ledger(parameters: Parameters, topic_set: TopicSet) -> None:
    """Partitions added later do not become ledger partitions, because the first record states Q."""
    topic_set.create()
    ledger = topic_set.names.alerts
    topic_set.admin.create_partitions({ledger: 4})
    topic_set.eventually(lambda: len(topic_set.admin.describe_topics([ledger])[0]["partitions"]) == 4)
    assert topic_set.create().partitions == ()
    assert read_terms(topic_set, 3) is None


def test_q_comes_from_any_remaining_record(parameters: Parameters, topic_set: TopicSet) -> None:
    """
    The number of ledger partitions comes from any first record that is left.

    Partition 0 lost its records after two partitions were added outside the ledger.

        partition   0      1      2     3
                    lost   Q = 2  (added)
        created     Q = 2
    """
    topic_set.create()
    ledger = topic_set.names.alerts
    topic_set.admin.create_partitions({ledger: 4})
    topic_set.eventually(lambda: len(topic_set.admin.describe_topics([ledger])[0]["partitions"]) == 4)
    topic_set.empty(0)
    now = parameters.grid.start(12)
    assert topic_set.create(Beginning.LEDGER_LOST, now) == SetupResult((), (0,), now, ANY)
    assert read_terms(topic_set, 0) == OwnerTerms(parameters.name, 2, now)


def test_wrong_number_of_shards_creates_nothing(parameters: Parameters, topic_set: TopicSet) -> None:
    """A number of shards that does not fit the partitions is refused before any topic is created."""
    with pytest.raises(LedgerError, match=r"service\.shards is 3.*expected a multiple of 2, such as 2 or 4"):
        topic_set.create(parameters=replace(parameters, registry=Registry(parameters.registry.ids, 3)))
    assert topic_set.describe(*(name for _, name in topic_set.names)) == {}


def test_shards_must_fit_an_existing_topic(parameters: Parameters, topic_set: TopicSet) -> None:
    """The shards must fit the partitions of an existing output topic, here three."""
    ledger = topic_set.names.alerts
    _, alerts, _ = topic_set.needs
    configs = {setting.key: setting.create for setting in alerts.settings}
    three_partitions = {"num_partitions": 3, "replication_factor": 1, "configs": configs}
    topic_set.admin.create_topics({ledger: three_partitions}, wait_for_metadata=True)
    with pytest.raises(LedgerError, match=r"service\.shards is 2.*expected a multiple of 3, such as 3"):
        topic_set.create()
    assert set(topic_set.describe(*(name for _, name in topic_set.names))) == {ledger}
    assert topic_set.create(
        parameters=replace(parameters, registry=Registry(parameters.registry.ids, 3))
    ).partitions == (0, 1, 2)


class TestDateLedgerLoss:
    """The date of a ledger loss, by the later of two clocks: by a slow one, the pause would end before lost marks."""

    TOLERANCE = SECOND

    @pytest.mark.parametrize("redis_is_ahead", [-HOUR, 0, HOUR])
    def test_loss_is_dated_by_later_clock(self, parameters: Parameters, redis_is_ahead: int) -> None:
        """A loss is dated by the later clock, plus the tolerance."""
        here = parameters.grid.start(10)
        lost_by, explanation = date_ledger_loss(SteppedClock(here), self.TOLERANCE, lambda: here + redis_is_ahead)
        assert lost_by == here + max(0, redis_is_ahead) + self.TOLERANCE
        assert explanation.startswith(f"{format_instant(lost_by)}: this machine's clock shows {format_instant(here)}, ")
        assert f"Redis's clock {format_instant(here + redis_is_ahead)}; " in explanation

    def test_loss_without_redis_uses_local_clock(self, parameters: Parameters) -> None:
        """If Redis does not answer, a loss is dated by this machine's clock, and the explanation states it."""

        def unreachable() -> int:
            raise UnreachableError("Redis at nowhere does not answer")

        here = parameters.grid.start(10)
        lost_by, explanation = date_ledger_loss(SteppedClock(here), self.TOLERANCE, unreachable)
        assert lost_by == here + self.TOLERANCE
        assert "by this machine's clock alone: check that it is right (Redis at nowhere does not answer)" in explanation

    def test_redis_time_writes_nothing(self, valkey: EmbeddedValkey, parameters: Parameters) -> None:
        """Redis's time is read without writing a key."""
        address = RedisAddress(valkey.url)
        before = SystemClock().now()
        assert before - SECOND <= read_redis_time(address) <= SystemClock().now() + SECOND
        with closing(RedisStore(parameters, "clock", create_client(address))) as windows:
            assert windows.is_empty()

    @pytest.mark.usefixtures("ran_before")
    def test_first_record_contains_the_loss(self, parameters: Parameters, topic_set: TopicSet) -> None:
        """The ledger's first record contains the time of the loss."""
        now = parameters.grid.start(10)
        result = topic_set.create(Beginning.LEDGER_LOST, now, lost_by=now + HOUR)
        assert result.lost_at == now + HOUR


@pytest.mark.parametrize("lost", [False, True])
def test_ledger_of_another_service_is_refused(lost: bool, parameters: Parameters, topic_set: TopicSet) -> None:
    """Another service's ledger is refused, whether complete or partly lost."""
    topic_set.create()
    if lost:
        topic_set.empty(1)
    with pytest.raises(LedgerError, match=rf"service\.name is 'osaka'.*belongs to '{parameters.name}'"):
        topic_set.create(Beginning.FIRST_START, parameters=replace(parameters, name="osaka"))


def test_topic_with_wrong_settings_is_refused(parameters: Parameters, topic_set: TopicSet) -> None:
    """An existing topic with wrong settings is refused, and no other topic is created."""
    ledger = topic_set.names.alerts
    compacted = {"num_partitions": 1, "replication_factor": 1, "configs": {"cleanup.policy": "compact"}}
    topic_set.admin.create_topics({ledger: compacted}, wait_for_metadata=True)
    with pytest.raises(TopicError, match=r"cleanup\.policy is compact: expected delete"):
        topic_set.create()
    assert read_terms(topic_set) is None
    assert set(topic_set.describe(*(name for _, name in topic_set.names))) == {ledger}
