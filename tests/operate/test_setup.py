"""`topics --create` on a real Kafka: what a ledger without a first record is taken for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from kafka import OffsetAndMetadata, TopicPartition

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.topics import describe, needs
from monitor.config.servers import KafkaSettings
from monitor.errors import LedgerError, TopicError, UnreachableError
from monitor.operate.preflight import read_ledger_state
from monitor.operate.setup import Beginning, SetupResult, date_ledger_loss, redis_time
from monitor.privacy.noise import OneSidedNoise, SystemEntropy
from monitor.public.clock import SteppedClock, SystemClock
from monitor.public.instants import HOUR, SECOND, format_instant
from monitor.public.parameters import Parameters, Registry
from monitor.release.decide import Evidence
from monitor.release.owner import LedgerPlace, Owner
from monitor.release.state import OwnerTerms
from monitor.tools.embedded import EmbeddedValkey
from monitor.windows.redis_client import RedisAddress, redis_client
from monitor.windows.redis_store import RedisWindows

Create = Callable[..., SetupResult]


@pytest.fixture(params=["town", "town-release", "town-0123456789abcdef"])
def ran_before(
    request: pytest.FixtureRequest, connections: KafkaConnections, topic: Callable[[str], str]
) -> Iterator[str]:
    """One of the service's groups has committed offsets, of a topic that is there: its name."""
    name, group = topic("visits-before"), str(request.param)
    with closing(connections.admin()) as admin:
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        place = TopicPartition(name, 0)
        with closing(connections.consumer(group_id=group)) as consumer:
            consumer.assign([place])
            consumer.commit({place: OffsetAndMetadata(0, "", -1)})
        yield group
        admin.delete_groups([group])


def terms(connections: KafkaConnections, parameters: Parameters, ledger: str, partition: int = 0) -> OwnerTerms | None:
    """What the ledger's first record says, but for the input that there was then."""
    said = read_ledger_state(connections, parameters, ledger, partition).terms
    return None if said is None else replace(said, input_topic_id="")


def test_a_first_start_begins_every_partition_and_saying_it_again_changes_nothing(
    create: Create, connections: KafkaConnections, parameters: Parameters, kafka_settings: KafkaSettings
) -> None:
    """Nothing was there, and the groups never ran: nothing is spent."""
    names = kafka_settings.topics
    made = create()
    assert made == SetupResult((names.visits, names.alerts, names.dead_letters), (0, 1), None)
    assert str(made).endswith("the ledger begins in partitions 0, 1")
    for partition in (0, 1):
        assert terms(connections, parameters, names.alerts, partition) == OwnerTerms("town", 2)
    for beginning in Beginning:
        again = create(beginning)
        assert again == SetupResult((), (), None)
        assert str(again) == "all topics were there; the ledger had begun"
    assert read_ledger_state(connections, parameters, names.alerts, 0).records == 1


def test_an_empty_ledger_of_a_service_that_ran_must_be_explained(
    create: Create,
    connections: KafkaConnections,
    parameters: Parameters,
    kafka_settings: KafkaSettings,
    ran_before: str,
) -> None:
    """Was nothing ever published, or is it lost? Nobody but the operator knows; until then it stays uninitialised."""
    with pytest.raises(LedgerError, match=f"{ran_before} ran before.*--first-start.*--ledger-lost"):
        create()
    assert terms(connections, parameters, kafka_settings.topics.alerts) is None
    with pytest.raises(LedgerError):
        create()


@pytest.mark.usefixtures("ran_before")
def test_first_start_says_that_nothing_was_ever_published(
    create: Create, connections: KafkaConnections, parameters: Parameters, kafka_settings: KafkaSettings
) -> None:
    """So nothing is paused."""
    assert create(Beginning.FIRST_START).lost_at is None
    assert terms(connections, parameters, kafka_settings.topics.alerts) == OwnerTerms("town", 2)


@pytest.mark.usefixtures("ran_before")
def test_ledger_lost_pauses_every_location_from_then_on(
    create: Create, connections: KafkaConnections, parameters: Parameters, kafka_settings: KafkaSettings
) -> None:
    """
    Lost within slot 10; whatever was published before counts as spent for W + F = 25 ticks.

        tick      10 …  34  35
                  p  p  p   s
    """
    now = parameters.grid.start(10) + 1
    made = create(Beginning.LEDGER_LOST, now)
    assert made.lost_at == now
    assert "all counts as spent at 2026-01-01T10:00:00.000001Z" in str(made)
    ledger = kafka_settings.topics.alerts
    assert [terms(connections, parameters, ledger, partition) for partition in (0, 1)] == [
        OwnerTerms("town", 2, now)
    ] * 2
    with closing(connections.admin()) as admin:
        topic_id = str(admin.describe_topics([ledger])[0]["topic_id"])
    clock = SteppedClock(now)
    said: dict[int, set[str]] = {}
    for partition in (0, 1):
        place = LedgerPlace(ledger, topic_id, "input", "fingerprint", now)
        with closing(Owner(connections, place, partition, parameters, OneSidedNoise(SystemEntropy()), clock)) as owner:
            for tick in (10, 34, 35):
                answers = owner.decide(tick, Evidence({}, {})).answers
                said[tick] = said.get(tick, set()) | {status for monitor, status in answers if monitor == "stations"}
    assert said == {10: {"paused"}, 34: {"paused"}, 35: {"unknown"}}


def test_the_first_record_says_which_input_there_was(
    create: Create, connections: KafkaConnections, parameters: Parameters, kafka_settings: KafkaSettings, admin: Any
) -> None:
    """An input that is made anew before there is any owner is noticed: its facts are whole only from then on."""
    create()
    ledger, visits = kafka_settings.topics.alerts, kafka_settings.topics.visits
    found = describe(admin, [ledger, visits])
    said = read_ledger_state(connections, parameters, ledger, 0).terms
    assert said is not None
    assert said.input_topic_id == found[visits].topic_id
    clock, noise = SteppedClock(parameters.grid.start(10)), OneSidedNoise(SystemEntropy())
    seen = parameters.grid.start(30)
    for input_id, complete_from in ((found[visits].topic_id, None), ("another", 32)):
        place = LedgerPlace(ledger, found[ledger].topic_id, input_id, "fingerprint", seen)
        with closing(Owner(connections, place, 0 if complete_from is None else 1, parameters, noise, clock)) as owner:
            assert owner.state.terms is not None
            assert owner.state.terms.input_since == complete_from


def test_a_ledger_that_begun_in_part_must_be_explained(
    create: Create,
    connections: KafkaConnections,
    parameters: Parameters,
    kafka_settings: KafkaSettings,
    emptied: Callable[[str, int], None],
) -> None:
    """One partition has its first record, the other lost it: only the operator knows what was in it."""
    create()
    ledger = kafka_settings.topics.alerts
    emptied(ledger, 1)
    with pytest.raises(LedgerError, match="some of its partitions have begun"):
        create()
    now = parameters.grid.start(12)
    assert create(Beginning.LEDGER_LOST, now) == SetupResult((), (1,), now)
    assert terms(connections, parameters, ledger, 0) == OwnerTerms("town", 2)
    assert terms(connections, parameters, ledger, 1) == OwnerTerms("town", 2, now)


def test_partitions_that_were_added_do_not_become_part_of_the_ledger(
    create: Create,
    connections: KafkaConnections,
    parameters: Parameters,
    kafka_settings: KafkaSettings,
    admin: Any,
    eventually: Callable[..., Any],
) -> None:
    """Q is what the first record says."""
    create()
    ledger = kafka_settings.topics.alerts
    admin.create_partitions({ledger: 4})
    eventually(lambda: len(admin.describe_topics([ledger])[0]["partitions"]) == 4)
    assert create().partitions == ()
    assert terms(connections, parameters, ledger, 3) is None


def test_the_number_of_partitions_is_what_any_that_survived_says(
    create: Create,
    connections: KafkaConnections,
    parameters: Parameters,
    kafka_settings: KafkaSettings,
    admin: Any,
    eventually: Callable[..., Any],
    emptied: Callable[[str, int], None],
) -> None:
    """
    The first one lost its records after two were added, which are no part of the ledger.

        partition   0      1      2     3
                    lost   Q = 2  (added)
        made        Q = 2
    """
    create()
    ledger = kafka_settings.topics.alerts
    admin.create_partitions({ledger: 4})
    eventually(lambda: len(admin.describe_topics([ledger])[0]["partitions"]) == 4)
    emptied(ledger, 0)
    now = parameters.grid.start(12)
    assert create(Beginning.LEDGER_LOST, now) == SetupResult((), (0,), now)
    assert terms(connections, parameters, ledger, 0) == OwnerTerms("town", 2, now)


def test_a_number_of_shards_that_does_not_go_with_the_partitions_makes_nothing(
    create: Create, parameters: Parameters, kafka_settings: KafkaSettings, admin: Any
) -> None:
    """It could never be changed without moving places away from what they have spent; no topic is left half begun."""
    with pytest.raises(LedgerError, match=r"service\.shards is 3.*expected a multiple of 2, such as 2 or 4"):
        create(parameters=replace(parameters, registry=Registry(parameters.registry.ids, 3)))
    assert describe(admin, [name for _, name in kafka_settings.topics]) == {}


def test_the_shards_go_with_the_partitions_that_are_there_not_with_those_that_would_be_made(
    create: Create, parameters: Parameters, kafka_settings: KafkaSettings, admin: Any
) -> None:
    """The output topic was made by hand with three partitions: two shards don't go with them, three do."""
    ledger = kafka_settings.topics.alerts
    _, alerts, _ = needs(parameters, kafka_settings, simulated=False)
    configs = {setting.key: setting.create for setting in alerts.settings}
    made = {"num_partitions": 3, "replication_factor": 1, "configs": configs}
    admin.create_topics({ledger: made}, wait_for_metadata=True)
    with pytest.raises(LedgerError, match=r"service\.shards is 2.*expected a multiple of 3, such as 3"):
        create()
    assert set(describe(admin, [name for _, name in kafka_settings.topics])) == {ledger}
    assert create(parameters=replace(parameters, registry=Registry(parameters.registry.ids, 3))).partitions == (0, 1, 2)


class TestLossDated:
    """By the later of two clocks: a slow one would end the silence before what was lost has run out."""

    TOLERANCE = SECOND

    @pytest.mark.parametrize("redis_is_ahead", [-HOUR, 0, HOUR])
    def test_the_later_clock_counts_and_the_tolerance_comes_on_top(
        self, parameters: Parameters, redis_is_ahead: int
    ) -> None:
        here = parameters.grid.start(10)
        by, how = date_ledger_loss(SteppedClock(here), self.TOLERANCE, lambda: here + redis_is_ahead)
        assert by == here + max(0, redis_is_ahead) + self.TOLERANCE
        assert how.startswith(f"{format_instant(by)}: it is {format_instant(here)} here and ")
        assert f"{format_instant(here + redis_is_ahead)} by Redis" in how

    def test_where_redis_cannot_be_asked_that_is_said(self, parameters: Parameters) -> None:
        def away() -> int:
            raise UnreachableError("Redis at nowhere cannot be reached")

        here = parameters.grid.start(10)
        by, how = date_ledger_loss(SteppedClock(here), self.TOLERANCE, away)
        assert by == here + self.TOLERANCE
        assert "by this machine's clock alone: see that it is right (Redis at nowhere cannot be reached)" in how

    def test_redis_tells_the_time_and_nothing_is_written_there(
        self, valkey: EmbeddedValkey, parameters: Parameters
    ) -> None:
        address = RedisAddress(valkey.url)
        before = SystemClock().now()
        assert before - SECOND <= redis_time(parameters, address) <= SystemClock().now() + SECOND
        with closing(RedisWindows(parameters, "clock", redis_client(address))) as windows:
            assert windows.empty()

    @pytest.mark.usefixtures("ran_before")
    def test_the_ledger_carries_it(self, create: Create, parameters: Parameters) -> None:
        now = parameters.grid.start(10)
        made = create(Beginning.LEDGER_LOST, now, lost_by=now + HOUR)
        assert made.lost_at == now + HOUR


@pytest.mark.parametrize("lost", [False, True])
def test_another_services_ledger_is_not_begun(
    lost: bool,
    create: Create,
    parameters: Parameters,
    kafka_settings: KafkaSettings,
    emptied: Callable[[str, int], None],
) -> None:
    """Neither as a whole nor the rest of it."""
    create()
    if lost:
        emptied(kafka_settings.topics.alerts, 1)
    with pytest.raises(LedgerError, match=r"service\.name is 'osaka'.*belongs to 'town'"):
        create(Beginning.FIRST_START, parameters=replace(parameters, name="osaka"))


def test_a_topic_with_wrong_settings_is_not_begun(
    create: Create, connections: KafkaConnections, parameters: Parameters, kafka_settings: KafkaSettings, admin: Any
) -> None:
    """It was there before; what is wrong is said, the ledger stays uninitialised, and no other topic is made."""
    ledger = kafka_settings.topics.alerts
    compacted = {"num_partitions": 1, "replication_factor": 1, "configs": {"cleanup.policy": "compact"}}
    admin.create_topics({ledger: compacted}, wait_for_metadata=True)
    with pytest.raises(TopicError, match=r"cleanup\.policy is compact: expected delete"):
        create()
    assert terms(connections, parameters, ledger) is None
    assert set(describe(admin, [name for _, name in kafka_settings.topics])) == {ledger}
