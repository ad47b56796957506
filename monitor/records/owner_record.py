"""The ledger records that subscribers skip: the owner of a partition, and the first record of a partition."""

from __future__ import annotations

import hashlib
from typing import Annotated, Final

from msgspec import Meta, field

from monitor.errors import LedgerError
from monitor.records.charges_record import Charges
from monitor.records.fields import Name, Positive, Time, Value, Whole, check_name, check_time, encode, format_time
from monitor.records.output_records import LEDGER, OWNER, OutputRecord, make_record

LEDGER_VERSION: Final = 1
"""The version of the ledger format that this build writes and reads, so that a later build can change the format."""


_Partitions = Annotated[Positive, Meta(description="The number of output partitions that the shards use (Q).")]
_LostAt = Annotated[Time | None, Meta(description="When an earlier ledger was lost; all budget counted as spent then.")]


class OwnerRecord(Value, frozen=True):
    """The writer of a ledger partition from this record on. Subscribers skip it. Key: owner."""

    service: Name
    fingerprint: Annotated[str, Meta(description="Digest of all settings that decide facts, except the person key.")]
    input_topic_id: str
    partitions: _Partitions
    lost_at: _LostAt
    input_since: Annotated[
        int | None, Meta(description="The slot from which the input is complete, if some of it was lost.")
    ]
    input_partitions: Annotated[Whole, Meta(description="The highest number of input partitions seen.")]
    # null is written too: msgspec does not compare a value with what a `default_factory` returns.
    charges: Annotated[Charges | None, Meta(description="What the configuration may charge one person.")] = field(
        default_factory=lambda: None
    )
    tick: Annotated[int | None, Meta(description="Present only for a tick that had nothing to answer.")] = None
    incomplete: Annotated[
        int | None,
        Meta(description="Present only after a tick of which not all answers were published. The others are lost."),
    ] = None

    def __post_init__(self) -> None:
        """Raise ValueError if the name or the time has another form."""
        check_name(self.service)
        if self.lost_at is not None:
            check_time(self.lost_at)


class LedgerRecord(Value, frozen=True):
    """The first record of each output partition: it names the ledger's service. Subscribers skip it. Key: ledger."""

    ledger: Annotated[int, Meta(description="Version of the format.", extra_json_schema={"const": LEDGER_VERSION})]
    service: Name
    partitions: _Partitions
    lost_at: _LostAt
    input_topic_id: Annotated[str, Meta(description="ID of the input topic when the ledger began.")]

    def __post_init__(self) -> None:
        """Raise ValueError if the name or the time has another form, LedgerError for another version of the ledger."""
        check_name(self.service)
        if self.lost_at is not None:
            check_time(self.lost_at)
        if self.ledger != LEDGER_VERSION:
            raise LedgerError(
                f"the ledger has format {self.ledger}: expected {LEDGER_VERSION}; run a version of location-monitor "
                f"that writes format {self.ledger}"
            )


def make_owner_record(  # noqa: PLR0913  # keyword arguments: the fields of the record
    *,
    source: str,
    service: str,
    fingerprint: str,
    input_topic_id: str,
    partitions: int,
    lost_at: int | None,
    input_since: int | None,
    partition: int,
    at: int,
    input_partitions: int = 0,
    charges: Charges | None = None,
    tick: int | None = None,
    incomplete: int | None = None,
) -> OutputRecord:
    """Return the record of the owner of a ledger partition. `at` and `lost_at` are instants, `input_since` is a slot.

    `tick` is set if a tick was decided but had nothing to answer. This distinguishes the tick from a lost tick.
    `incomplete` is a tick whose other answers are lost.
    """
    value = OwnerRecord(
        service=service,
        fingerprint=fingerprint,
        input_topic_id=input_topic_id,
        partitions=partitions,
        lost_at=None if lost_at is None else format_time(lost_at),
        input_since=input_since,
        input_partitions=input_partitions,
        charges=charges,
        tick=tick,
        incomplete=incomplete,
    )
    return _make_tickless_record(source, OWNER, "owner", partition, at, encode(value))


def make_ledger_record(
    *,
    source: str,
    service: str,
    partitions: int,
    lost_at: int | None,
    partition: int,
    at: int,
    input_topic_id: str = "",
) -> OutputRecord:
    """Return the first record of an output partition. `at` and `lost_at` are instants."""
    lost = None if lost_at is None else format_time(lost_at)
    value = LedgerRecord(LEDGER_VERSION, service, partitions, lost, input_topic_id)
    return _make_tickless_record(source, LEDGER, "ledger", partition, at, encode(value))


def _make_tickless_record(source: str, ce_type: str, key: str, partition: int, at: int, value: bytes) -> OutputRecord:
    """Return a record whose ce_id contains no tick. A digest in the ce_id distinguishes records of the same instant."""
    digest = hashlib.sha256(value).hexdigest()[:16]
    return make_record(source, ce_type, f"{key}/{partition}/{format_time(at)}/{digest}", at, key, value)
