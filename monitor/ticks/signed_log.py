"""Sign the ticks of a ledger partition, so that nobody can alter its answers unseen (docs/guarantees.md).

The owner signs the ticks that it decides. The tree goes on from the last tick in the ledger that this key has signed.
A tick also repeats earlier noisy counts, as the takeover has read them from the ledger, signed or not. Whoever else can
write to the ledger before a takeover gets false ones signed: access rights must prevent that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from monitor.contracts.checkpoints import (
    CHECKPOINT,
    Checkpoint,
    hash_answer,
    make_checkpoint_record,
    name_log,
    read_checkpoint,
)
from monitor.contracts.merkle import Tree
from monitor.contracts.output_records import OutputRecord
from monitor.contracts.signed_notes import Signer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _SignedTick:
    """A signed tick in the ledger, and its records with the checkpoint."""

    checkpoint: Checkpoint
    records: tuple[OutputRecord, ...]


class SignedLog:
    """The signed log of a ledger partition, as its owner continues it.

    Args:
        signer: the key of the service.
        source: the name of the service.
        topic_id: the id of the ledger's topic.
        partition: the number of the partition.
    """

    def __init__(self, signer: Signer, source: str, topic_id: str, partition: int) -> None:
        self._signer, self._source, self._partition = signer, source, partition
        self._log = name_log(signer.verifier.name, topic_id, partition)
        self._last: _SignedTick | None = None
        self._origin = ""
        self._tree = Tree()

    def read(self, record: OutputRecord, last_tick: int | None, answers: Iterable[OutputRecord]) -> None:
        """Read a ledger record of another kind than answers. `answers` are those of the last tick before it.

        A checkpoint that this key has not signed is ignored, and so is one that is repeated.
        """
        if dict(record.headers).get("ce_type") != CHECKPOINT.encode():
            return
        checkpoint = read_checkpoint(record.value, self._signer.verifier, self._log)
        if checkpoint is None or (self._last is not None and checkpoint.tick <= self._last.checkpoint.tick):
            return
        self._last = _SignedTick(checkpoint, (*answers, record) if checkpoint.tick == last_tick else (record,))

    def choose_repeated(self, last_tick: int | None, answers: Sequence[OutputRecord]) -> Sequence[OutputRecord]:
        """Return the records that a takeover appends again: the last tick with its checkpoint, and continue from it.

        Records after the last checkpoint are not repeated, because anybody may have written them. They count as spent,
        and later ticks repeat their noisy counts. If an owner was stopped within its transaction, this transaction was
        aborted, and all earlier ones are complete.
        """
        last = self._last
        if last is None:
            return answers
        self._origin, self._tree = last.checkpoint.origin, last.checkpoint.tree
        if last.checkpoint.tick == last_tick:
            return last.records
        log.warning(
            "ledger partition %d: tick %s has no checkpoint of this service, so it is not published again",
            self._partition,
            last_tick,
        )
        return ()

    def sign(self, tick: int, as_of: int, answers: Iterable[OutputRecord]) -> OutputRecord:
        """Return the checkpoint record of the next tick."""
        if not self._origin:
            self._origin = f"{self._log}{tick}"
            log.warning("ledger partition %d: a new signed log begins: %s", self._partition, self._origin)
        self._tree = self._tree.extend(hash_answer(dict(answer.headers), answer.value) for answer in answers)
        return make_checkpoint_record(
            self._source, self._signer, self._origin, self._partition, tick, as_of, self._tree
        )
