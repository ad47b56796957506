"""The service's consumer groups: their names, committed offsets and members.

Each configuration reads the input in a separate group, `<name>-<fingerprint>`, so that each reads all partitions. All
configurations share the output partitions in one group, `<name>-release`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.errors import GroupIdNotFoundError, for_code

from monitor.kafka.connections import KafkaConnections


def name_input_group(name: str, fingerprint: str) -> str:
    """Return the name of the group in which a configuration reads the input."""
    return f"{name}-{fingerprint}"


def name_release_group(name: str) -> str:
    """Return the name of the group in which all configurations share the output partitions."""
    return f"{name}-release"


def is_of_service(name: str, group: str) -> bool:
    """Return whether a group belongs to the service, in any configuration."""
    return re.fullmatch(rf"{re.escape(name)}(-release|-[0-9a-f]{{16}})", group) is not None


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """The lowest and the highest offset that the service's groups have committed for an input partition."""

    lowest: int
    highest: int


def list_groups(connections: KafkaConnections, name: str) -> list[str]:
    """Return the service's groups that exist, sorted.

    Raises:
        UnreachableError: Kafka does not answer.
    """
    with connections.open_admin() as admin:
        return _find_groups(admin, name)


def _find_groups(admin: Any, name: str) -> list[str]:
    return sorted({group for listed in admin.list_groups() if is_of_service(name, group := str(listed["group_id"]))})


def read_committed_offsets(
    connections: KafkaConnections, name: str, topic: str, topic_id: str
) -> Mapping[int, CommittedOffsets]:
    """Return, by partition of the input topic, the offsets that the service's groups have committed.

    Only offsets whose metadata contain this topic's id count: an offset in a deleted topic of the same name has no
    meaning in this one.

    Raises:
        UnreachableError: Kafka does not answer.
    """
    with connections.open_admin() as admin:
        groups = _find_groups(admin, name)
        commits = admin.list_group_offsets(dict.fromkeys(groups)) if groups else {}
    offsets: dict[int, list[int]] = {}
    for group_commits in commits.values():
        for topic_partition, commit in group_commits.items():
            if topic_partition.topic == topic and commit.metadata == topic_id and commit.offset >= 0:
                offsets.setdefault(topic_partition.partition, []).append(int(commit.offset))
    return {partition: CommittedOffsets(min(of_groups), max(of_groups)) for partition, of_groups in offsets.items()}


def list_member_ids(admin: Any, group: str) -> list[str]:
    """Return the client ids of a group's members; an empty list if the group does not exist.

    Raises:
        KafkaError: Kafka cannot describe the group now.
    """
    description = admin.describe_groups([group])[group]
    code = re.match(r"\[Error (-?\d+)\]", description["error"] or "")  # kafka-python has the code only in this text
    if code is not None and int(code[1]) != GroupIdNotFoundError.errno:
        raise for_code(int(code[1]))(f"group {group}")
    return [str(member["client_id"]) for member in description["members"]]
