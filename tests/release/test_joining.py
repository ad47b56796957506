"""When an instance joins the release group: the decision alone, and on a real Kafka."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import pytest

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.groups import list_groups, list_member_ids
from monitor.brokers.membership import Membership
from monitor.errors import FailedError
from monitor.ingest.readiness import Readiness
from monitor.release.joining import Candidate, DelayedMembership, JoinPolicy
from monitor.tools.embedded import EmbeddedKafka

OLD, NEW = "0123456789abcdef", "fedcba9876543210"
PATIENCE = 10.0

Looks = Sequence[tuple[float, list[str] | None, bool]]


def joined_at(looks: Looks) -> float | None:
    """When it joins, by what it sees over time: (seconds, versions of the members, ready)."""
    turn = JoinPolicy(NEW, PATIENCE)
    return next((now for now, members, ready in looks if turn.come(members, ready=ready, now=now)), None)


class TestTurn:
    @pytest.mark.parametrize("members", [[], [NEW], [NEW, NEW]])
    def test_a_ready_instance_joins_at_once_where_nobody_has_another_configuration(self, members: list[str]) -> None:
        """Nobody, or its like alone."""
        assert joined_at([(0, members, True)]) == 0

    @pytest.mark.parametrize("members", [[OLD], [NEW, OLD], [""]])
    def test_a_ready_instance_waits_until_all_with_another_configuration_have_left(self, members: list[str]) -> None:
        """Also for one of an earlier build, which tells no version."""
        assert joined_at([(0, members, True), (1000, members, True)]) is None
        assert joined_at([(0, members, True), (1, [NEW], True)]) == 1

    def test_an_instance_that_is_not_ready_joins_when_nobody_has_answered_for_half_a_slot(self) -> None:
        """Then "unknown" is better than silence."""
        assert joined_at([(0, [], False), (9.9, [], False)]) is None
        assert joined_at([(0, [], False), (9.9, [], False), (10, [], False)]) == 10

    @pytest.mark.parametrize("between", [[OLD], [NEW], None])
    def test_half_a_slot_begins_again_when_somebody_was_there_or_nobody_knows(self, between: list[str] | None) -> None:
        looks: Looks = [(0, [], False), (6, between, False), (8, [], False), (17.9, [], False), (18, [], False)]
        assert joined_at(looks) == 18

    @pytest.mark.parametrize("members", [[NEW], [OLD], None])
    def test_an_instance_that_is_not_ready_never_joins_others(self, members: list[str] | None) -> None:
        assert joined_at([(0, members, False), (1000, members, False)]) is None

    def test_nothing_is_joined_while_the_members_are_not_known(self) -> None:
        assert joined_at([(0, None, True), (1000, None, True)]) is None

    def test_an_instance_that_becomes_ready_joins_an_empty_group_at_once(self) -> None:
        assert joined_at([(0, [], False), (1, [], True)]) == 1


@dataclass
class Told:
    """A readiness that the test tells."""

    ready: bool

    def look(self) -> None:
        """Nothing to see."""


@pytest.fixture
def connections(kafka: EmbeddedKafka) -> KafkaConnections:
    return KafkaConnections((kafka.bootstrap_servers,), client_id="location-monitor-town", session_timeout_ms=2_000)


@pytest.fixture
def alerts(connections: KafkaConnections, topic: Callable[[str], str]) -> str:
    """An output topic of two partitions."""
    name = topic("alerts")
    with closing(connections.admin()) as admin:
        admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}}, wait_for_metadata=True)
    return name


Join = Callable[..., DelayedMembership]


@pytest.fixture
def join(connections: KafkaConnections, alerts: str, topic: Callable[[str], str]) -> Iterator[Join]:
    """Makes candidates for one group: `join(version, Told(True), slot_seconds=2)`."""
    group = f"{topic('town')}-release"
    made: list[DelayedMembership] = []

    def joining(version: str, told: Told, slot_seconds: float = 2.0) -> DelayedMembership:
        candidate = Candidate(group, version, slot_seconds)
        made.append(DelayedMembership(connections, alerts, candidate, cast("Readiness", told), threading.Event()))
        return made[-1]

    yield joining
    for one in made:
        one.close()


Eventually = Callable[..., Any]


def test_the_old_go_on_until_they_leave_and_the_new_take_all_over_then(join: Join, eventually: Eventually) -> None:
    """The rolling update of the release group."""
    #   old 1   ├ 0 1 ─┤ 0 ┤
    #   old 2          ├ 1 ─ 0 1 ┤
    #   new                ├ waits ┤ 0 1 ─
    first = join(OLD, Told(ready=True))
    eventually(lambda: first.owned == {0, 1}, 30)
    second = join(OLD, Told(ready=True))
    eventually(lambda: len(first.owned) == len(second.owned) == 1, 30)
    new = join(NEW, Told(ready=True))
    first.close()
    eventually(lambda: second.owned == {0, 1}, 30)
    assert new.owned == frozenset()
    second.close()
    eventually(lambda: new.owned == {0, 1}, 30)


def test_one_that_has_joined_stays_when_others_come(join: Join, eventually: Eventually) -> None:
    """Whose version is another: it waits."""
    first = join(OLD, Told(ready=True))
    eventually(lambda: first.owned == {0, 1}, 30)
    second = join(NEW, Told(ready=True), slot_seconds=0.2)
    third = join(OLD, Told(ready=True))
    eventually(lambda: len(first.owned) == len(third.owned) == 1, 30)
    assert second.owned == frozenset()


def test_one_that_is_not_ready_joins_an_empty_group_after_half_a_slot(join: Join, eventually: Eventually) -> None:
    """And one whose half a slot is long does not; until it becomes ready."""
    told = Told(ready=False)
    patient = join(NEW, told, slot_seconds=7200)
    quick = join(NEW, Told(ready=False), slot_seconds=1)
    eventually(lambda: quick.owned == {0, 1}, 30)
    assert patient.owned == frozenset()
    told.ready = True
    eventually(lambda: len(patient.owned) == len(quick.owned) == 1, 30)


def test_a_stranger_in_the_group_keeps_nobody_out(
    connections: KafkaConnections, alerts: str, join: Join, eventually: Eventually
) -> None:
    """A member that is no instance of this service has no version; whoever it is, it answers nothing."""
    first = join(OLD, Told(ready=True))
    eventually(lambda: first.owned == {0, 1}, 30)
    stranger = KafkaConnections(connections.bootstrap_servers, client_id="somebody", session_timeout_ms=2_000)
    group = first._candidate.group
    with closing(Membership(stranger, alerts, group, threading.Event())) as other:
        eventually(lambda: len(first.owned) == len(other.owned) == 1, 30)
        first.close()
        new = join(NEW, Told(ready=True))
        eventually(lambda: len(new.owned) == 1, 30)


def test_members_tell_their_version_and_leave_an_offset_that_keeps_the_group(
    connections: KafkaConnections, alerts: str, join: Join, eventually: Eventually
) -> None:
    """Brokers forget a group without committed offsets soon after its last member has left."""
    one = join(NEW, Told(ready=True))
    eventually(lambda: one.owned == {0, 1}, 30)
    group = one._candidate.group
    with closing(connections.admin()) as admin:
        assert list_member_ids(admin, group) == [f"location-monitor-town-{NEW}"]
        eventually(lambda: admin.list_group_offsets({group: None})[group], 30)
        one.close()
        committed = admin.list_group_offsets({group: None})[group]
    assert {(place.topic, found.offset) for place, found in committed.items()} == {(alerts, 0)}
    assert list_groups(connections, group.removesuffix("-release")) == [group]


def test_a_fault_of_a_program_while_waiting_is_told_where_ownership_is_asked_for(
    join: Join, eventually: Eventually
) -> None:
    class Broken(Told):
        def look(self) -> None:
            raise ZeroDivisionError

    broken = join(NEW, Broken(ready=False))
    eventually(lambda: broken._failure, 30)
    with pytest.raises(FailedError, match="ZeroDivisionError"):
        _ = broken.owned
