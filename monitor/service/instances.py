"""Find instances of this service that have another configuration, another person key, or another Redis.

Each instance announces the version of its configuration and a tag of its person key in the client id of its member of
the input group. Committed offsets reveal another Redis: a reader commits an offset after the facts up to it are in its
Redis. If another instance has committed an offset that the facts in this Redis do not reach for some time, that
instance writes to another Redis. So each instance finds the instances whose facts its own Redis lacks.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, Protocol

from monitor.errors import UnreachableError, WindowsError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.groups import GroupMember, find_groups, list_members, name_release_group
from monitor.ticks.configuration_version import Identity, read_identity

log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 15.0
STORE_SECONDS: Final = 40.0
"""How long progress must stand still behind a committed offset. After a loss of data it advances, by reading again."""

CONFIGURATION: Final = "configuration"
PERSON_KEY: Final = "person_key"
STORE: Final = "store"


class Progress(Protocol):
    """The progress of the windows."""

    def read_progress(self) -> list[dict[int, int]]:
        """Return, by shard, the next offset by input partition."""


class InstanceObserver(Protocol):
    """The metrics of instances."""

    def set_other_instances(self, counts: Mapping[str, int]) -> None:
        """Set the number of other instances by difference."""


@dataclass(frozen=True, slots=True)
class InstancePlace:
    """Where an instance is: its service, its input group, the input topic with its id, and its Redis in words."""

    service: str
    group: str
    topic: str
    topic_id: str
    store: str


@dataclass(frozen=True, slots=True)
class Difference:
    """How another instance differs. `subject`: each is logged once. `text`: both sides, without key or person id."""

    kind: str
    member: str
    subject: str
    text: str


class InstanceWatch:
    """A repeated comparison with the other instances, for one thread.

    Args:
        connections: the connections to Kafka. The members' client ids begin with the client id of these connections.
        place: where this instance is.
        identity: what this instance announces.
        windows: its windows.
        assigned: returns the input partitions that are assigned to this instance.
        observer: receives the numbers.
        monotonic: returns seconds.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        place: InstancePlace,
        identity: Identity,
        windows: Progress,
        assigned: Callable[[], Collection[int]],
        observer: InstanceObserver,
        monotonic: Callable[[], float],
    ) -> None:
        self._connections, self._place, self._identity = connections, place, identity
        self._windows, self._assigned = windows, assigned
        self._observer, self._monotonic = observer, monotonic
        self._looked_at = monotonic()  # at the start, no member has joined yet, and the first ticks need the time
        self._behind: dict[int, tuple[int, float]] = {}
        self._known: frozenset[str] = frozenset()

    def look(self) -> bool:
        """Compare if a comparison is due, log what has changed, and return whether the comparison took place.

        If a server does not answer, the next comparison takes place at the usual time. Other parts report the server.
        """
        now = self._monotonic()
        if now - self._looked_at < EVERY_SECONDS:
            return False
        self._looked_at = now
        try:
            found = list(self._compare(now))
        except (UnreachableError, WindowsError) as error:
            log.debug("the instances cannot be compared now: %s", error)
            return False
        self._report(found)
        return True

    def _report(self, found: Collection[Difference]) -> None:
        """Set the metric, and log each difference when it appears, and when all are gone."""
        counts = Counter(kind for kind, _member in {(difference.kind, difference.member) for difference in found})
        self._observer.set_other_instances(counts)
        subjects = {difference.subject: difference for difference in found}
        for subject in sorted(subjects.keys() - self._known):
            difference = subjects[subject]
            level = logging.INFO if difference.kind == CONFIGURATION else logging.WARNING
            log.log(level, "%s", difference.text)
        if self._known and not subjects:
            log.info("all instances have the same configuration, person key and Redis again")
        self._known = frozenset(subjects)

    def _compare(self, now: float) -> Iterator[Difference]:
        place = self._place
        with self._connections.translate_errors(), closing(self._connections.create_admin()) as admin:
            groups = [
                group for group in find_groups(admin, place.service) if group != name_release_group(place.service)
            ]
            others = list_members(admin, [group for group in groups if group != place.group], place.topic)
            own = list_members(admin, [place.group], place.topic) if place.group in groups else []
            committed = _read_commits(admin, place) if own else {}
        for member in [*own, *others]:
            yield from self._compare_identity(member)
        yield from self._compare_store(own, committed, now)

    def _compare_identity(self, member: GroupMember) -> Iterator[Difference]:
        base, here = self._connections.client_id, self._identity
        there, who = read_identity(base, member.client_id), _name(member)
        if there is None:
            return
        if there.configuration != here.configuration:
            sides = f"({there.configuration}, here {here.configuration})"
            text = f"{who} has another configuration {sides}: expected only during a rolling change"
            yield Difference(CONFIGURATION, member.member_id, f"{who} {sides}", text)
        if there.key != here.key:
            sides = f"(tag {there.key}, here {here.key})"
            text = (
                f"{who} has another person key {sides}, so neither counts the facts of the other: expected only "
                "while the key is replaced. Give all instances the same visits.person_key_file"
            )
            yield Difference(PERSON_KEY, member.member_id, f"{who} {sides}", text)

    def _compare_store(
        self, members: Collection[GroupMember], committed: Mapping[int, int], now: float
    ) -> Iterator[Difference]:
        """Yield the members whose committed facts are not in this Redis, if its progress stands still for a while."""
        mine = self._assigned()
        progress = self._windows.read_progress()
        behind: dict[int, tuple[int, float]] = {}
        for member in members:
            for partition in sorted(member.partitions - frozenset(mine)):
                reached = min(shard.get(partition, 0) for shard in progress)
                offset = committed.get(partition, 0)
                if offset <= reached:
                    continue
                before, since = self._behind.get(partition, (reached, now))
                behind[partition] = (reached, since if before == reached else now)
                if now - behind[partition][1] >= STORE_SECONDS:
                    yield self._describe_store(member, partition, offset, reached)
        self._behind = behind

    def _describe_store(self, member: GroupMember, partition: int, offset: int, reached: int) -> Difference:
        who = _name(member)
        text = (
            f"{who} has written the facts of input partition {partition} up to offset {offset}, and "
            f"{self._place.store} has them up to offset {reached}: expected one Redis for all "
            "instances of the service. Compare redis.url"
        )
        return Difference(STORE, member.member_id, f"{who} {STORE} {partition}", text)


def _name(member: GroupMember) -> str:
    return f"the instance at {member.host.lstrip('/')}"


def _read_commits(admin: Any, place: InstancePlace) -> dict[int, int]:
    """Return the offsets that the group has committed for the input topic, by partition."""
    commits = admin.list_group_offsets({place.group: None}).get(place.group, {})
    return {
        at.partition: int(commit.offset)
        for at, commit in commits.items()
        if at.topic == place.topic and commit.metadata == place.topic_id and commit.offset >= 0
    }
