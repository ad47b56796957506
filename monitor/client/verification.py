"""Verify signed answers: let only those through that a checkpoint signs, in order and without a gap.

docs/subscribers.md has the rules, and docs/vectors/signed.json the test vectors. It needs the records that a consumer
with the isolation level read_committed receives.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from monitor.client.state_from_records import read_snapshot_subject
from monitor.client.topic_consumer import Published
from monitor.errors import TimeError, UsageError
from monitor.kinds.at_times.record import AT_TIMES
from monitor.records.checkpoints import (
    CHECKPOINT,
    NOT_IN_THE_TREE,
    Checkpoint,
    Tree,
    name_log,
    read_checkpoint,
)
from monitor.records.fields import UNREADABLE, encode
from monitor.records.signed_notes import Verifier, read_public_key
from monitor.time.instants import format_instant, parse_instant, parse_since

log = logging.getLogger(__name__)

FEWEST_WAITING: Final = 100_000
"""How many records of a partition may wait for a checkpoint, if there are no places: snapshots of designated times."""

_WAITING_PER_PLACE: Final = 16
_BYTES_PER_RECORD: Final = 1_024
_LONGEST_NAME: Final = 100


class Trust(NamedTuple):
    """The public key of the answers that a subscriber believes, and the instant after which it begins (`since`)."""

    verifier: Verifier
    since: int | None = None


def read_trust(key: str | None, since: str | None) -> Trust | None:
    """Read a public key, and `--since`; None if there is no key.

    Raises:
        UsageError: `since` is not a time, or there is no key.
        ValueError: the key is not a public key.
    """
    if key is not None:
        return Trust(read_public_key(key), parse_since(since))
    if since is not None:
        raise UsageError(
            f"--since {since}: expected a configuration with signing.public_key, because without it no answer is "
            "verified, and every answer is shown. Leave out --since, or set the key"
        )
    return None


@dataclass(slots=True)
class _Partition:
    """What is verified of one partition. `head` is its last checkpoint, `pending` are the answers since then."""

    number: int
    head: Checkpoint | None = None
    pending: list[Published] = field(default_factory=list)
    size: int = 0
    """That of the pending answers."""
    skipped: bool = False
    """Whether answers before the first checkpoint were not shown."""

    def add(self, record: Published) -> None:
        """Let an answer wait for its checkpoint."""
        self.pending.append(record)
        headers = sum(len(name) + len(value or b"") for name, value in record.headers)
        self.size += len(record.key or b"") + len(record.value or b"") + headers

    def take(self) -> list[Published]:
        """Return the pending answers, and forget them."""
        answers, self.pending, self.size = self.pending, [], 0
        return answers


class Verification:
    """The verification of a topic's records, in the order of their offsets. Not thread-safe.

    `problem` says what is wrong; empty if all is well. It stays: nothing later can show what was published instead, so
    from then on no record is let through. Begin again with another object.

    With `since`, a partition begins after this instant, at the first tick whose answers are those signed. Nothing
    before is a problem, and nothing before is believed. The last snapshot of a designated time counts for a day, and is
    not repeated. So what a snapshot before the beginning is about is let through, without what it says: its places are
    unknown, and a "safe" of another monitor hides no alarm.

    Args:
        verifier: the public key of the service.
        topic_id: Kafka's id of the topic.
        places: the number of places of the registry. The largest tick grows with it.
        since: the instant after which the verification begins; None: with the first checkpoint.
    """

    def __init__(self, verifier: Verifier, topic_id: str, places: int = 0, since: int | None = None) -> None:
        self._verifier, self._topic_id, self._since = verifier, topic_id, since
        self._most_records = FEWEST_WAITING + _WAITING_PER_PLACE * places
        self._partitions: dict[int, _Partition] = {}
        self._subjects: set[tuple[str, str, int, int]] = set()
        self._shards: dict[tuple[str, str], int] = {}
        self.problem = ""

    @property
    def checkpoints(self) -> dict[int, str]:
        """The text of the last checkpoint of each partition.

        Two subscribers that have different texts for one origin and tick have found a fork.
        """
        heads = {number: partition.head for number, partition in self._partitions.items()}
        return {number: head.text for number, head in heads.items() if head is not None}

    @property
    def waiting(self) -> dict[int, int]:
        """The offset of the first answer that waits for its checkpoint, of each partition that has one."""
        partitions = () if self.problem else self._partitions.values()
        return {one.number: one.pending[0].offset for one in partitions if one.pending}

    @property
    def unverified(self) -> str:
        """Why answers are not shown: the problem, or a partition that has not begun. Empty if all are shown."""
        for partition in self._partitions.values():
            if partition.skipped and partition.head is None and not self.problem:
                after = "" if self._since is None else f" after {format_instant(self._since)}"
                return f"output partition {partition.number}: no tick{after} is signed by {self._verifier.name}"
        return self.problem

    def check(self, records: Iterable[Published]) -> list[Published]:
        """Return the records that are now known to be signed. Those since the last checkpoint wait for the next one."""
        signed: list[Published] = []
        for record in records:
            found = [] if self.problem else self._add(record)
            signed += [] if self.problem else found
        return signed

    def _add(self, record: Published) -> list[Published]:
        partition = self._partitions.setdefault(record.partition, _Partition(record.partition))
        headers = dict(record.headers)
        kind = headers.get("ce_type") or b""
        if kind == CHECKPOINT.encode():
            return self._end_tick(partition, record.value)
        return [] if kind in NOT_IN_THE_TREE else self._wait(partition, record, headers)

    def _wait(self, partition: _Partition, record: Published, headers: dict[str, bytes | None]) -> list[Published]:
        """Keep an answer until the checkpoint of its tick. The answers of one tick have the same `ce_time`."""
        dropped: list[Published] = []
        first = dict(partition.pending[0].headers) if partition.pending else headers
        if first.get("ce_time") != headers.get("ce_time"):
            time = (first.get("ce_time") or b"").decode(errors="replace")
            dropped += self._drop(partition, f"the answers of {time} have no checkpoint")
        partition.add(record)
        most = self._most_records
        if len(partition.pending) > most or partition.size > most * _BYTES_PER_RECORD:
            limit = f"{most:,} records, {most * _BYTES_PER_RECORD:,} bytes"
            dropped += self._drop(partition, f"too many answers without a checkpoint (the limit is {limit})")
        return dropped

    def _drop(self, partition: _Partition, what: str) -> list[Published]:
        """Drop the pending answers. Before the first checkpoint answers need not be signed; later it is a problem."""
        answers = partition.take()
        if partition.head is None:
            return self._skip(partition, answers)
        self._report(partition, what)
        return []

    def _end_tick(self, partition: _Partition, value: bytes | None) -> list[Published]:
        """Verify a checkpoint, and return the answers of its tick."""
        answers = partition.take()
        log_name = name_log(self._verifier.name, self._topic_id, partition.number)
        found, head = read_checkpoint(value, self._verifier, log_name), partition.head
        if head is None:
            return self._begin(partition, found, answers)
        if found is None:
            self._report(partition, f"a checkpoint is not signed by {self._verifier.name} for this partition")
        elif not found.has_signed(answers):
            self._report(partition, f"the answers of tick {found.tick} are not those that were signed")
        elif found.text != head.text:  # a takeover repeats the last tick
            self._continue(partition, head, found)
            return answers
        return []

    def _begin(self, partition: _Partition, found: Checkpoint | None, answers: list[Published]) -> list[Published]:
        """Begin with the first checkpoint that the key has signed: earlier ones may have an earlier key.

        If it signs other answers, those of its tick were read only from the middle. With `since`, begin only with
        answers that are signed: their `ce_time` is signed too, and so shows that they are later.
        """
        signed = found is not None and found.has_signed(answers)
        if signed and not answers:
            partition.skipped = False  # a partition without places: nothing of it waits to be shown
        if self._since is not None and not (signed and self._is_later(answers)):
            return self._skip(partition, answers)
        if found is None:
            return self._skip(partition, answers)
        partition.head = found
        if partition.skipped:
            log.warning("output partition %d: answers are shown from tick %d on", partition.number, found.tick)
        return answers if signed else []

    def _is_later(self, answers: list[Published]) -> bool:
        """Return whether signed answers, which have the same time, are later than `since`."""
        try:
            times = [parse_instant((dict(one.headers).get("ce_time") or b"").decode()) for one in answers[:1]]
        except (TimeError, UnicodeDecodeError):
            return False
        return all(time > (self._since or 0) for time in times) and bool(times)

    def _skip(self, partition: _Partition, answers: list[Published]) -> list[Published]:
        """Skip answers before the first checkpoint. With `since`, return what the snapshots among them are about."""
        if answers and not partition.skipped:
            partition.skipped = True
            log.warning("%s: no answer of it is shown until one is", self.unverified)
        if self._since is None:
            return []
        withheld = [one for answer in answers for one in self._withhold(answer, self._since)]
        if len(self._subjects) > self._most_records:
            self._report(partition, f"more than {self._most_records:,} snapshots before the first signed tick")
        return withheld

    def _withhold(self, record: Published, since: int) -> list[Published]:
        """Return what a snapshot is about, as published at `since`, if it is new. Other answers are repeated.

        Anybody may have written the record, so its own as_of does not count: it may be in the future. If records divide
        the locations of a time into different numbers of shards, one of them covers all locations.
        """
        if dict(record.headers).get("ce_type") != AT_TIMES.encode():
            return []
        try:
            about = read_snapshot_subject(record.value or b"")
            time = format_instant(parse_instant(about.time))
        except UNREADABLE:
            return []
        if len(about.monitor) > _LONGEST_NAME:
            return []
        known, subject = len(self._subjects), (about.monitor, time, about.shard, about.shards)
        self._subjects.add(subject)
        if len(self._subjects) == known:
            return []
        shard, shards, as_of = about.shard, about.shards, since
        if self._shards.setdefault((about.monitor, time), shards) != shards:
            shard, shards, as_of = 0, 1, since + 1
        value = {"monitor": about.monitor, "time": time, "shard": shard, "shards": shards}
        encoded = encode({**value, "as_of": format_instant(as_of)})
        return [Published((("ce_type", AT_TIMES.encode()),), encoded, record.partition, record.offset)]

    def _continue(self, partition: _Partition, head: Checkpoint, found: Checkpoint) -> None:
        """Compare a checkpoint with the one before it."""
        if found.tick <= head.tick or (found.origin != head.origin and not found.begins):
            self._report(partition, f"tick {found.tick} is signed after tick {head.tick}")
        elif not found.follows(Tree() if found.begins else head.tree):
            self._report(partition, f"a tick between {head.tick} and {found.tick} is missing")
        elif found.origin != head.origin:
            log.warning("output partition %d: a new signed log begins: %s", partition.number, found.origin)
        partition.head = found

    def _report(self, partition: _Partition, what: str) -> None:
        """Note a problem. Nothing that waits is shown any more, so it is not kept."""
        if not self.problem:
            self.problem = f"output partition {partition.number}: {what}"
            log.error("%s: no answer is shown any more", self.problem)
        for one in self._partitions.values():
            one.take()
