"""Signed ticks of an output partition, as an owner appends them, with small answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from monitor.client.topic_consumer import Published
from monitor.kinds.over_time.record import OVER_TIME
from monitor.ledger.sign_ticks import SignedLog
from monitor.records.output_records import OutputRecord, make_record
from monitor.records.signed_notes import Signer
from monitor.time.instants import HOUR

TOPIC_ID: Final = "topic-1"
SIGNER: Final = Signer("example.org/town", bytes(range(32)))
PLACES: Final = 2


def open_log(signer: Signer = SIGNER, partition: int = 0) -> SignedLog:
    return SignedLog(signer, "town", TOPIC_ID, partition)


def make_answers(tick: int, draw: int = 0) -> list[OutputRecord]:
    """Return the answers of a tick. Another draw has other noise."""
    return [
        make_record("town", OVER_TIME, f"places/{n}/{tick}", tick * HOUR, f"places/{n}", b"%d %d" % (tick, draw))
        for n in range(PLACES)
    ]


def sign(log: SignedLog, tick: int, draw: int = 0) -> list[OutputRecord]:
    """Return the answers of a tick and their checkpoint."""
    answers = make_answers(tick, draw)
    return [*answers, log.sign(tick, tick * HOUR, answers)]


def publish(records: Iterable[OutputRecord], partition: int = 0) -> list[Published]:
    """Return the records as a subscriber receives them."""
    return [Published(record.headers, record.value, partition, n, record.key) for n, record in enumerate(records)]
