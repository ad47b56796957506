"""Sign the ticks of a ledger partition, so that nobody can alter its answers unseen (docs/guarantees.md).

The owner signs the ticks that it decides. The tree goes on from the last tick in the ledger that this key has signed.
A tick also repeats earlier noisy counts. It repeats only those that the key has signed: another writer may have forged
the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from monitor.records.checkpoints import (
    CHECKPOINT,
    Checkpoint,
    Tree,
    hash_answers,
    make_checkpoint_record,
    name_log,
    read_checkpoint,
)
from monitor.records.output_records import OutputRecord
from monitor.records.signed_notes import Signer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _SignedTick:
    """A signed tick in the ledger, and its records with the checkpoint; none if the ledger has other answers."""

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
        self._foreign: tuple[int | None, tuple[OutputRecord, ...]] = (None, ())
        self._origin = ""
        self._tree = Tree()

    def read(self, record: OutputRecord, last_tick: int | None, answers: Sequence[OutputRecord]) -> bool:
        """Read a ledger record of another kind than answers. `answers` are those of the last tick before it.

        Return whether it signs them. A checkpoint that this key has not signed is ignored, and so is one that is
        repeated.
        """
        if dict(record.headers).get("ce_type") != CHECKPOINT.encode():
            return False
        checkpoint = read_checkpoint(record.value, self._signer.verifier, self._log)
        if checkpoint is None:
            self._foreign = last_tick, (*answers, record)
        if checkpoint is None or (self._last is not None and checkpoint.tick <= self._last.checkpoint.tick):
            return False
        is_signed = checkpoint.tick == last_tick and checkpoint.has_signed(answers)
        self._last = _SignedTick(checkpoint, (*answers, record) if is_signed else ())
        self._origin, self._tree = checkpoint.origin, checkpoint.tree
        return is_signed

    def has_ended(self, tick: int | None) -> bool:
        """Return whether the ledger has this tick with a checkpoint of this key that signs its answers."""
        return self._last is not None and self._last.checkpoint.tick == tick and bool(self._last.records)

    def list_unsigned(self, answers: Mapping[str, OutputRecord]) -> list[str]:
        """Return the ce_ids of the answers that the last checkpoint does not sign."""
        signed = set[OutputRecord]() if self._last is None else set(self._last.records)
        return [ce_id for ce_id, record in answers.items() if record not in signed]

    @property
    def has_begun(self) -> bool:
        """Whether the ledger has a checkpoint of this key."""
        return self._last is not None

    def choose_repeated(self, last_tick: int | None, answers: Sequence[OutputRecord]) -> Sequence[OutputRecord]:
        """Return the records that a takeover appends again: the last tick with its checkpoint.

        If this key has signed nothing, another key may have signed the last tick; its subscribers need the checkpoint.
        Records after the last checkpoint are not repeated, because anybody may have written them. They count as spent.
        If an owner was stopped within its transaction, this transaction was aborted, and all earlier ones are complete.
        """
        last, (foreign_tick, foreign) = self._last, self._foreign
        if last is None:
            return foreign if foreign and foreign_tick == last_tick else answers
        if self.has_ended(last_tick):
            return last.records
        log.warning(
            "ledger partition %d: the answers of tick %s are not signed, so they are not published again",
            self._partition,
            last_tick,
        )
        return ()

    def sign(self, tick: int, as_of: int, answers: Iterable[OutputRecord]) -> OutputRecord:
        """Return the checkpoint record of the next tick."""
        if not self._origin:
            self._origin = f"{self._log}{tick}"
            log.warning("ledger partition %d: a new signed log begins: %s", self._partition, self._origin)
        leaf = hash_answers(answers)
        self._tree = self._tree.append(leaf)
        return make_checkpoint_record(
            self._source, self._signer, self._origin, self._partition, tick, as_of, leaf, self._tree
        )
