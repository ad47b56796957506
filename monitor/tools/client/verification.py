"""Verify signed answers: let only those through that a checkpoint signs, in order and without a gap.

docs/subscribers.md has the rules, and docs/vectors/signed.json the test vectors. It needs the records that a consumer
with the isolation level read_committed receives.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from monitor.contracts.checkpoints import (
    CHECKPOINT,
    NOT_IN_THE_TREE,
    Checkpoint,
    name_log,
    read_checkpoint,
)
from monitor.contracts.merkle import Tree
from monitor.contracts.signed_notes import Verifier
from monitor.tools.client.subscriber import Published

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Partition:
    """What is verified of one partition. `head` is its last checkpoint, `pending` are the answers since then.

    `skipped`: whether the key has not signed a checkpoint before the first one.
    """

    number: int
    head: Checkpoint | None = None
    pending: list[Published] = field(default_factory=list)
    skipped: bool = False


class Verification:
    """The verification of a topic's records, in the order of their offsets. Not thread-safe.

    `problem` says what is wrong; empty if all is well. It stays: nothing later can show what was published instead, so
    from then on no record is let through. Begin again with another object.

    Args:
        verifier: the public key of the service.
        topic_id: Kafka's id of the topic.
    """

    def __init__(self, verifier: Verifier, topic_id: str) -> None:
        self._verifier, self._topic_id = verifier, topic_id
        self._partitions: dict[int, _Partition] = {}
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
        if kind not in NOT_IN_THE_TREE:
            self._wait(partition, record, headers)
        return []

    def _wait(self, partition: _Partition, record: Published, headers: dict[str, bytes | None]) -> None:
        """Keep an answer until the checkpoint of its tick. The answers of one tick have the same `ce_time`."""
        first = dict(partition.pending[0].headers) if partition.pending else headers
        if first.get("ce_time") != headers.get("ce_time"):
            if partition.head is not None:
                time = (first.get("ce_time") or b"").decode(errors="replace")
                self._report(partition, f"the answers of {time} have no checkpoint")
            partition.pending.clear()  # before the first checkpoint, answers need not be signed
        partition.pending.append(record)

    def _end_tick(self, partition: _Partition, value: bytes | None) -> list[Published]:
        """Verify a checkpoint, and return the answers of its tick."""
        answers, partition.pending = partition.pending, []
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

        If it signs other answers, those of its tick were read only from the middle.
        """
        partition.head = found
        if found is None and not partition.skipped:
            text = "output partition %d: a checkpoint is not signed by %s: no answer is shown until one is"
            log.warning(text, partition.number, self._verifier.name)
            partition.skipped = True
        return answers if found is not None and found.has_signed(answers) else []

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
        if not self.problem:
            self.problem = f"output partition {partition.number}: {what}"
            log.error("%s: no answer is shown any more", self.problem)
