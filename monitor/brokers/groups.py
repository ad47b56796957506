"""The service's consumer groups: their names, and what the brokers know of them.

Each configuration reads the input in a group of its own, `<name>-<fingerprint>`, so that an old and a new one share no
partitions. All share out the output's partitions in one group, `<name>-release`. An earlier build read in `<name>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.errors import GroupIdNotFoundError, for_code

from monitor.brokers.connections import KafkaConnections


def input_group(name: str, fingerprint: str) -> str:
    """The group in which a configuration reads the input."""
    return f"{name}-{fingerprint}"


def release_group(name: str) -> str:
    """The group that shares out the output partitions, of all configurations."""
    return f"{name}-release"


def is_of_service(name: str, group: str) -> bool:
    """Whether a group is one of the service's, of any configuration and any build."""
    return re.fullmatch(rf"{re.escape(name)}(-release|-[0-9a-f]{{16}})?", group) is not None


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """What the groups that read an input partition have committed: the lowest and the highest of their offsets."""

    lowest: int
    highest: int


def list_groups(connections: KafkaConnections, name: str) -> list[str]:
    """The service's groups that the brokers know, sorted.

    Raises:
        UnreachableError: the brokers can't tell.
    """
    with connections.translate_errors():
        admin = connections.admin()
        try:
            return _known(admin, name)
        finally:
            admin.close()


def _known(admin: Any, name: str) -> list[str]:
    return sorted({group for told in admin.list_groups() if is_of_service(name, group := str(told["group_id"]))})


def read_committed_offsets(
    connections: KafkaConnections, name: str, topic: str, topic_id: str
) -> Mapping[int, CommittedOffsets]:
    """By partition of the input topic, what the service's groups have committed.

    An offset counts if its metadata name this topic's id: one of a topic of the same name that was deleted says nothing
    about the records of this one.

    Raises:
        UnreachableError: the brokers can't tell.
    """
    with connections.translate_errors():
        admin = connections.admin()
        try:
            groups = _known(admin, name)
            told = admin.list_group_offsets(dict.fromkeys(groups)) if groups else {}
        finally:
            admin.close()
    offsets: dict[int, list[int]] = {}
    for places in told.values():
        for place, found in places.items():
            if place.topic == topic and found.metadata == topic_id and found.offset >= 0:
                offsets.setdefault(place.partition, []).append(int(found.offset))
    return {partition: CommittedOffsets(min(some), max(some)) for partition, some in offsets.items()}


def list_member_ids(admin: Any, group: str) -> list[str]:
    """The client ids of a group's members; none if there is no such group.

    Raises:
        KafkaError: the brokers can't tell now.
    """
    told = admin.describe_groups([group])[group]
    code = re.match(r"\[Error (-?\d+)\]", told["error"] or "")  # kafka-python tells it in words alone
    if code is not None and int(code[1]) != GroupIdNotFoundError.errno:
        raise for_code(int(code[1]))(f"group {group}")
    return [str(member["client_id"]) for member in told["members"]]
