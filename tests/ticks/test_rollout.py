"""Versions of configurations, and when an instance joins the release group, whose members read nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import pytest

from monitor.errors import FailedError
from monitor.ingest.startup_readiness import Readiness
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.groups import list_groups, list_member_ids, name_release_group
from monitor.kafka.membership import Membership
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.hot_spots.keys_and_parameters import HotSpots
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.kinds.parameters import Parameters
from monitor.privacy.over_time import OverTimeRule
from monitor.ticks.rollout import (
    Candidate,
    DelayedMembership,
    JoinPolicy,
    compute_version,
    make_member_client_id,
    read_member_versions,
)
from monitor.time.instants import HOUR, SECOND
from monitor.time.schedule import Schedule
from tests.builders import build_parameters, replace_monitors, watch
from tests.conftest import Eventually
from tests.kit.topics import create_topic
from tests.shared_kafka import SharedKafka

OLD, NEW = "0123456789abcdef", "fedcba9876543210"
PATIENCE = 10.0
PLANTED = "planted-person-4711"

Observations = Sequence[tuple[float, list[str] | None, bool]]


def list_half_slot(between: list[str] | None) -> Observations:
    """Return observations of an instance that is not ready, of a group that is empty but for second 6."""
    return [(0, [], False), (6, between, False), (8, [], False), (17.9, [], False), (18, [], False)]


@pytest.mark.promise(39)
@pytest.mark.parametrize(
    ("observations", "joins"),
    [
        # ready: at once if the group is empty or all members have its version
        ([(0, [], True)], 0),
        ([(0, [NEW], True)], 0),
        ([(0, [NEW, NEW], True)], 0),
        ([(0, [], False), (1, [], True)], 1),
        # ready: not before the members with another version, or with none, have left
        ([(0, [OLD], True), (1000, [OLD], True), (1001, [NEW], True)], 1001),
        ([(0, [NEW, OLD], True), (1000, [NEW, OLD], True), (1001, [NEW], True)], 1001),
        ([(0, [""], True), (1000, [""], True), (1001, [NEW], True)], 1001),
        # not ready: after half a slot without members, because "unknown" is better than no answer
        ([(0, [], False), (9.9, [], False), (10, [], False)], 10),
        (list_half_slot([OLD]), 18),
        (list_half_slot([NEW]), 18),
        (list_half_slot(None), 18),
        # not ready: never while the group may have members
        ([(0, [NEW], False), (1000, [NEW], False)], None),
        ([(0, [OLD], False), (1000, [OLD], False)], None),
        ([(0, None, False), (1000, None, False)], None),
        # never while the members are not known
        ([(0, None, True), (1000, None, True)], None),
    ],
)
def test_when_an_instance_joins(observations: Observations, joins: float | None) -> None:
    """An instance joins at the first observation (seconds, versions of the members, ready) that permits it."""
    policy = JoinPolicy(NEW, PATIENCE)
    permitted = (now for now, members, ready in observations if policy.may_join(members, ready=ready, now=now))
    assert next(permitted, None) == joins


@dataclass
class FixedReadiness:
    """A readiness that the test sets."""

    ready: bool

    def look(self) -> None:
        """Do nothing."""


@pytest.fixture
def connections(kafka: SharedKafka) -> KafkaConnections:
    return KafkaConnections((kafka.bootstrap_servers,), client_id="location-monitor-town", session_timeout_ms=2_000)


@pytest.fixture
def alerts(connections: KafkaConnections, topic: Callable[[str], str]) -> str:
    """An output topic of two partitions."""
    name = topic("alerts")
    create_topic(connections, name, 2)
    return name


Join = Callable[..., DelayedMembership]


@pytest.fixture
def group(topic: Callable[[str], str]) -> str:
    """The group of all instances."""
    return name_release_group(topic("town"))


@pytest.fixture
def join(connections: KafkaConnections, alerts: str, group: str) -> Iterator[Join]:
    """A function that makes candidates for one group: `join(version, FixedReadiness(True), slot_seconds=2)`."""
    members: list[DelayedMembership] = []

    def joining(version: str, readiness: FixedReadiness, slot_seconds: float = 2.0) -> DelayedMembership:
        candidate = Candidate(group, version, slot_seconds)
        members.append(
            DelayedMembership(connections, alerts, candidate, cast("Readiness", readiness), threading.Event())
        )
        return members[-1]

    yield joining
    for member in members:
        member.close()


@pytest.mark.promise(39)
def test_rolling_update_hands_over(join: Join, eventually: Eventually) -> None:
    """In a rolling update the old instances answer until all have left; then the new one owns all partitions."""
    #   old 1   ├ 0 1 ──────┤ 0 ┤
    #   new        ├ waits ─────────────┤ 0 1 ─
    #   old 2               ├ 1 ─ 0 1 ┤
    first = join(OLD, FixedReadiness(ready=True))
    eventually(lambda: first.owned == {0, 1}, 30)
    new = join(NEW, FixedReadiness(ready=True), slot_seconds=0.2)
    second = join(OLD, FixedReadiness(ready=True))
    eventually(lambda: len(first.owned) == len(second.owned) == 1, 30)
    first.close()
    eventually(lambda: second.owned == {0, 1}, 30)
    assert new.owned == frozenset()
    second.close()
    eventually(lambda: new.owned == {0, 1}, 30)


def test_unready_joins_real_group_late(join: Join, eventually: Eventually) -> None:
    """An unready instance joins an empty group after half a slot, or as soon as it becomes ready."""
    readiness = FixedReadiness(ready=False)
    patient = join(NEW, readiness, slot_seconds=7200)
    quick = join(NEW, FixedReadiness(ready=False), slot_seconds=1)
    eventually(lambda: quick.owned == {0, 1}, 30)
    assert patient.owned == frozenset()
    readiness.ready = True
    eventually(lambda: len(patient.owned) == len(quick.owned) == 1, 30)


def test_foreign_member_is_ignored(
    connections: KafkaConnections, alerts: str, group: str, join: Join, eventually: Eventually
) -> None:
    """A member that is no instance of this service has no version and keeps no instance from joining."""
    first = join(OLD, FixedReadiness(ready=True))
    eventually(lambda: first.owned == {0, 1}, 30)
    stranger = KafkaConnections(connections.bootstrap_servers, client_id="somebody", session_timeout_ms=2_000)
    with closing(Membership(stranger, alerts, group, threading.Event())) as other:
        eventually(lambda: len(first.owned) == len(other.owned) == 1, 30)
        first.close()
        new = join(NEW, FixedReadiness(ready=True))
        eventually(lambda: len(new.owned) == 1, 30)


def test_member_publishes_version_and_offset(
    connections: KafkaConnections, alerts: str, group: str, join: Join, eventually: Eventually
) -> None:
    """A member's client id contains its version, and its committed offset keeps the group.

    Brokers forget groups without committed offsets soon after the last member has left.
    """
    member = join(NEW, FixedReadiness(ready=True))
    eventually(lambda: member.owned == {0, 1}, 30)
    with closing(connections.create_admin()) as admin:
        assert list_member_ids(admin, group) == [f"location-monitor-town-{NEW}"]
        eventually(lambda: admin.list_group_offsets({group: None})[group], 30)
        member.close()
        committed = admin.list_group_offsets({group: None})[group]
    assert {(place.topic, found.offset) for place, found in committed.items()} == {(alerts, 0)}
    assert list_groups(connections, group.removesuffix("-release")) == [group]


def test_owned_raises_bugs_of_waiting(join: Join, eventually: Eventually, caplog: pytest.LogCaptureFixture) -> None:
    """A bug in the waiting thread is raised by `owned`, without the text of its error."""

    class Broken(FixedReadiness):
        def look(self) -> None:
            raise ZeroDivisionError(PLANTED)

    broken = join(NEW, Broken(ready=False))

    def find_failure() -> str:
        try:
            _ = broken.owned
        except FailedError as error:
            return str(error)
        return ""

    failure = eventually(find_failure, 30)
    assert "ZeroDivisionError" in failure
    assert PLANTED not in f"{failure}{caplog.text}"


class Member:
    """A fake consumer whose poll fails."""

    def subscribe(self, topics: list[str], listener: Any) -> None: ...

    def poll(self, timeout_ms: int) -> None:
        raise TypeError(f"a fault, after {timeout_ms} ms")

    def close(self, **_: Any) -> None: ...


def test_dead_member_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """A member whose thread has died raises the class of its error from `owned`, and wakes the service."""
    connections = type(
        "Connections", (), {"create_member": lambda *_, **__: Member(), "translate_errors": lambda _: nullcontext()}
    )()
    wake = threading.Event()
    member = Membership(cast("Any", connections), "alerts", "town-release", wake)
    try:
        assert wake.wait(20)
        with pytest.raises(FailedError, match=r"polls the release group has ended \(TypeError\)") as raised:
            _ = member.owned
        assert "after 250 ms" not in f"{raised.value}{caplog.text}"
    finally:
        member.close()


RULE = OverTimeRule(Fraction(1, 2), 1, 3, 24, 1)
NOON = Schedule.of(("12:00",), "UTC")
TIMED = AtTimes("noon", NOON, Fraction(1), 3, 6 * HOUR)
RANKED = HotSpots("top", NOON, Fraction(1), 3, 6 * HOUR)
SCHEME = build_parameters(
    ("inn", "mill"),
    shards=2,
    max_lead=1,
    over_time=[watch("stations", (0, 1), RULE)],
    at_times=[TIMED],
    hot_spots=[RANKED],
)
FACTS = "0123456789abcdef"


def over_time(**changes: Any) -> Parameters:
    """Return parameters whose second place has another rule."""
    return replace_monitors(SCHEME, over_time=(OverTime("stations", (0, 1), (RULE, replace(RULE, **changes))),))


@pytest.mark.promise(39)
@pytest.mark.parametrize(
    "changed",
    [
        over_time(epsilon=Fraction(1, 3)),
        over_time(answers=2),
        over_time(threshold=4),
        over_time(window=25),
        over_time(max_lead=2),
        replace_monitors(SCHEME, over_time=(OverTime("platforms", (0, 1), (RULE, RULE)),)),
        replace_monitors(SCHEME, over_time=(OverTime("stations", (0,), (RULE,)),)),
        replace_monitors(SCHEME, at_times=(replace(TIMED, epsilon=Fraction(2)),)),
        replace_monitors(SCHEME, at_times=(replace(TIMED, threshold=4),)),
        replace_monitors(SCHEME, at_times=(replace(TIMED, at_least=Fraction(1)),)),
        replace_monitors(SCHEME, at_times=(replace(TIMED, horizon=7 * HOUR),)),
        replace_monitors(SCHEME, at_times=(replace(TIMED, times=Schedule.of(("13:00",), "UTC")),)),
        replace_monitors(SCHEME, at_times=(replace(TIMED, name="midday"),)),
        replace_monitors(SCHEME, hot_spots=(replace(RANKED, top=4),)),
        replace_monitors(SCHEME, at_times=(), hot_spots=(RANKED, replace(RANKED, name="noon"))),
    ],
)
def test_deciding_parameters_change_the_version(changed: Parameters) -> None:
    """The version changes with every parameter that decides answers."""
    assert compute_version(changed, FACTS) != compute_version(SCHEME, FACTS)


def test_facts_change_the_version() -> None:
    """The version changes with the fingerprint of the facts, and not with parameters that decide no answer."""
    assert compute_version(SCHEME, "fedcba9876543210") != compute_version(SCHEME, FACTS)
    assert compute_version(replace(SCHEME, release_delay=SECOND), FACTS) == compute_version(SCHEME, FACTS)


def test_versions_come_from_client_ids() -> None:
    """Versions are read from client ids; foreign clients are left out."""
    version = compute_version(SCHEME, FACTS)
    ids = [
        make_member_client_id("location-monitor-a.b", version),
        "location-monitor-a.b",
        "somebody",
        "location-monitor-a.b-c",
    ]
    assert read_member_versions("location-monitor-a.b", ids) == [version]
    assert read_member_versions("location-monitor-a?b", ids) == []
