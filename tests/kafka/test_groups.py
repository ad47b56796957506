"""The service's consumer groups, on a real Kafka."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from kafka import OffsetAndMetadata, TopicPartition

from monitor.kafka.connections import KafkaConnections
from monitor.kafka.groups import (
    CommittedOffsets,
    is_of_service,
    list_groups,
    list_member_ids,
    name_input_group,
    name_release_group,
    read_committed_offsets,
)
from tests.kit.topics import create_topic
from tests.shared_kafka import SharedKafka

OLD, NEW = "0123456789abcdef", "fedcba9876543210"


@pytest.fixture
def connections(kafka: SharedKafka) -> KafkaConnections:
    return KafkaConnections((kafka.bootstrap_servers,))


@pytest.fixture
def commit(connections: KafkaConnections) -> Callable[..., None]:
    """A function that commits an offset of a topic's partition in a group, with metadata."""

    def committing(group: str, topic: str, partition: int, offset: int, metadata: str) -> None:
        place = TopicPartition(topic, partition)
        with closing(connections.create_consumer(group_id=group)) as consumer:
            consumer.assign([place])
            consumer.commit({place: OffsetAndMetadata(offset, metadata, -1)})

    return committing


@pytest.mark.parametrize(
    ("group", "own"),
    [
        ("city", False),
        (name_release_group("city"), True),
        (name_input_group("city", OLD), True),
        ("city-0123456789abcde", False),
        ("city-0123456789abcdeF", False),
        ("city-release-2", False),
        ("city2", False),
        ("my-city", False),
        ("cit", False),
        ("city\n", False),
    ],
)
def test_groups_of_a_service(group: str, own: bool) -> None:  # parametrized
    """The service's groups are recognized by name: the service's name, alone or with -release or a fingerprint."""
    assert is_of_service("city", group) is own
    assert not is_of_service("c.ty", group)


def test_committed_offsets_by_partition(
    connections: KafkaConnections, topic: Callable[[str], str], commit: Callable[..., None]
) -> None:
    """The lowest and highest commit of each partition ignore other services and other topics."""
    name, visits, other = topic("town"), topic("visits"), topic("other")
    for created in (visits, other):
        create_topic(connections, created, 3)
    assert list_groups(connections, name) == []
    assert read_committed_offsets(connections, name, visits, "id") == {}
    commit(name_input_group(name, OLD), visits, 0, 7, "id")
    commit(name_input_group(name, NEW), visits, 0, 3, "id")
    commit(name_input_group(name, NEW), visits, 1, 5, "id")
    commit(name_release_group(name), other, 2, 1, "id")
    commit(f"{name}-2", visits, 1, 99, "id")
    assert list_groups(connections, name) == sorted(
        [name_input_group(name, OLD), name_input_group(name, NEW), f"{name}-release"]
    )
    assert read_committed_offsets(connections, name, visits, "id") == {
        0: CommittedOffsets(3, 7),
        1: CommittedOffsets(5, 5),
    }


def test_commits_of_a_deleted_topic(
    connections: KafkaConnections, topic: Callable[[str], str], commit: Callable[..., None]
) -> None:
    """A commit for a deleted topic of the same name does not count: its metadata contain another topic id."""
    name, visits = topic("town"), topic("visits")
    create_topic(connections, visits)
    commit(name_input_group(name, OLD), visits, 0, 7, "id of the deleted one")
    commit(name, visits, 0, 9, "")
    assert read_committed_offsets(connections, name, visits, "id") == {}


def test_member_ids(
    connections: KafkaConnections, topic: Callable[[str], str], eventually: Callable[..., object]
) -> None:
    """The members of a group are listed by client id; an unknown group and an abandoned group have none."""
    group, visits = topic("town-release"), topic("visits")
    create_topic(connections, visits)
    with closing(connections.create_admin()) as admin:
        assert list_member_ids(admin, group) == []
        member = connections.create_member(group, client_id="an-instance", auto_offset_reset="earliest")
        try:
            member.subscribe([visits])
            eventually(lambda: (member.poll(timeout_ms=100), list_member_ids(admin, group) == ["an-instance"])[1], 20)
        finally:
            member.close(autocommit=False)
        assert list_member_ids(admin, group) == []
