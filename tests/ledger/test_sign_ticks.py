"""The signed log of a ledger partition: every order of crashes and takeovers, and forgeries, without Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from monitor.client.topic_consumer import Published
from monitor.client.verification import Verification
from monitor.ledger.sign_ticks import SignedLog
from monitor.records.checkpoints import CHECKPOINT, Checkpoint, name_log, read_checkpoint
from monitor.records.output_records import OutputRecord
from monitor.records.signed_notes import Signer
from tests.kit.signed import SIGNER, TOPIC_ID, make_answers, open_log, publish, sign

OUTCOMES: Final = ("acknowledged", "committed", "aborted", "cut at 2", "cut at 1", "cut at 0")
"""What becomes of a transaction with two answers and a checkpoint. After all but the first, the owner is replaced."""
STEPS: Final = 4


def read_tick(record: OutputRecord) -> int:
    return int(record.value.split()[0])


def is_checkpoint(record: OutputRecord) -> bool:
    return dict(record.headers)["ce_type"] == CHECKPOINT.encode()


@dataclass
class Ledger:
    """The records of a partition, each with whether its transaction was committed."""

    records: list[tuple[bool, OutputRecord]] = field(default_factory=list)

    def append(self, records: Sequence[OutputRecord], outcome: str = "acknowledged") -> bool:
        """Append records in a transaction with an outcome. Return whether the owner learns that it was committed."""
        arrived = records[: int(outcome[-1])] if outcome.startswith("cut") else records
        self.records += [(outcome in {"acknowledged", "committed"}, record) for record in arrived]
        return outcome == "acknowledged"

    def take_over(self) -> tuple[SignedLog, int | None, Sequence[OutputRecord]]:
        """Read the ledger as an owner does. Return the log, the last tick, and the records to repeat."""
        log = open_log()
        last: int | None = None
        answers: dict[object, OutputRecord] = {}
        for _, record in self.records:
            if is_checkpoint(record):
                log.read(record, last, list(answers.values()))
                continue
            if last is None or read_tick(record) > last:
                last = read_tick(record)
                answers.clear()
            if read_tick(record) == last:
                answers[dict(record.headers)["ce_id"]] = record
        return log, last, log.choose_repeated(last, list(answers.values()))

    def subscribe(self) -> list[Published]:
        """Return what a subscriber receives with read_committed."""
        return publish(record for committed, record in self.records if committed)

    def list_checkpoints(self) -> Iterator[Checkpoint]:
        for _, record in self.records:
            if is_checkpoint(record):
                found = read_checkpoint(record.value, SIGNER.verifier, name_log("example.org/town", TOPIC_ID, 0))
                assert found is not None
                yield found


def live(outcomes: Sequence[str]) -> Ledger:
    """Run a service whose transactions have these outcomes, and then two ticks without a fault."""
    ledger, owner, tick = Ledger(), None, 0
    for draw, outcome in enumerate([*outcomes, *["acknowledged"] * 3]):
        if owner is None:
            owner, last, repeated = ledger.take_over()
            tick = 0 if last is None else last + 1
            if not ledger.append(repeated, outcome):
                owner = None
        elif ledger.append(sign(owner, tick, draw), outcome):
            tick += 1
        else:
            owner = None
    return ledger


def test_every_order_of_crashes_verifies() -> None:
    """
    After any four transactions that succeed, are aborted or cut off, a subscriber verifies all that is committed.

        tick 0 … aborted, takeover … cut at 1, takeover, tick 1 …

    No tick is signed twice with different answers. Only answers before the first checkpoint are not signed.
    """
    for outcomes in product(OUTCOMES, repeat=STEPS):
        ledger = live(outcomes)
        verification = Verification(SIGNER.verifier, TOPIC_ID)
        received = ledger.subscribe()
        signed = {record.value for record in verification.check(received)}
        assert not verification.problem, (outcomes, verification.problem)
        texts: dict[tuple[str, int], set[str]] = {}
        for checkpoint in ledger.list_checkpoints():
            texts.setdefault((checkpoint.origin, checkpoint.tick), set()).add(checkpoint.text)
        assert all(len(each) == 1 for each in texts.values()), outcomes
        assert len({origin for origin, _ in texts}) == 1, outcomes
        began = min(tick for _, tick in texts)
        answers = {record.value for record in received if record.key != b"checkpoint"}
        assert signed == {value for value in answers if value is not None and int(value.split()[0]) >= began}, outcomes


def test_forged_tick_is_not_signed() -> None:
    """Answers that somebody else wrote while no owner ran are neither repeated nor signed."""
    ledger = Ledger()
    owner, _, _ = ledger.take_over()
    ledger.append(sign(owner, 0))
    ledger.append(make_answers(1, draw=99))
    owner, last, repeated = ledger.take_over()
    assert (last, repeated) == (1, ())
    ledger.append(signed := sign(owner, 2))
    verification = Verification(SIGNER.verifier, TOPIC_ID)
    verification.check(publish([*sign(open_log(), 0), *signed]))
    assert not verification.problem


def test_tick_of_another_key_is_repeated() -> None:
    """If the key is changed, the last tick is repeated with its checkpoint, which subscribers of the old key need."""
    ledger = Ledger()
    ledger.append(last := sign(open_log(Signer("example.org/old", bytes(range(1, 33)))), 0))
    assert list(ledger.take_over()[2]) == last


def test_forged_answer_is_not_repeated() -> None:
    """An answer that somebody else added to the last tick is not repeated with it."""
    ledger = Ledger()
    owner, _, _ = ledger.take_over()
    ledger.append(first := sign(owner, 0))
    ledger.append(make_answers(0, draw=99)[:1])
    assert list(ledger.take_over()[2]) == first
