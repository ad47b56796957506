"""The ledger records that subscribers skip: the owner of a partition, and the first record of a partition."""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal

from pydantic import Field

from monitor.records.charges_record import Charges, ChargesRecord
from monitor.records.output_records import (
    LEDGER,
    OWNER,
    Contract,
    Name,
    OutputRecord,
    Time,
    encode,
    format_time,
    make_record,
)
from monitor.records.visits import remove_default

LEDGER_VERSION: Final = 1
"""The version of the ledger format that this build writes and reads, so that a later build can change the format."""


class OwnerRecord(Contract):
    """The writer of a ledger partition from this record on. Subscribers skip it. Key: owner."""

    service: Name
    fingerprint: str = Field(description="Digest of all settings that decide facts, except the person key.")
    input_topic_id: str
    partitions: int = Field(ge=1, description="The number of output partitions that the shards use (Q).")
    lost_at: Time | None = Field(description="When an earlier ledger was lost; all budget counted as spent then.")
    input_since: int | None = Field(description="The slot from which the input is complete, if some of it was lost.")
    input_partitions: int = Field(ge=0, description="The highest number of input partitions seen.")
    charges: ChargesRecord | None = Field(
        default=None, json_schema_extra=remove_default, description="What the configuration may charge one person."
    )
    tick: int | None = Field(
        default=None,
        json_schema_extra=remove_default,
        description="Present only for a tick that had nothing to answer.",
    )
    incomplete: int | None = Field(
        default=None,
        json_schema_extra=remove_default,
        description="Present only after a tick of which not all answers were published. The others are lost.",
    )


class LedgerRecord(Contract):
    """The first record of each output partition: it names the ledger's service. Subscribers skip it. Key: ledger."""

    ledger: Literal[1] = Field(description="Version of the format.")
    service: Name
    partitions: int = Field(ge=1, description="The number of output partitions that the shards use (Q).")
    lost_at: Time | None = Field(description="When an earlier ledger was lost; all budget counted as spent then.")
    input_topic_id: str = Field(description="ID of the input topic when the ledger began.")


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
    value: dict[str, Any] = {
        "service": service,
        "fingerprint": fingerprint,
        "input_topic_id": input_topic_id,
        "partitions": partitions,
        "lost_at": None if lost_at is None else format_time(lost_at),
        "input_since": input_since,
        "input_partitions": input_partitions,
        "charges": charges,
    }
    if tick is not None:
        value["tick"] = tick
    if incomplete is not None:
        value["incomplete"] = incomplete
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
    value = {
        "ledger": LEDGER_VERSION,
        "service": service,
        "partitions": partitions,
        "lost_at": None if lost_at is None else format_time(lost_at),
        "input_topic_id": input_topic_id,
    }
    return _make_tickless_record(source, LEDGER, "ledger", partition, at, encode(value))


def _make_tickless_record(source: str, ce_type: str, key: str, partition: int, at: int, value: bytes) -> OutputRecord:
    """Return a record whose ce_id contains no tick. A digest in the ce_id distinguishes records of the same instant."""
    digest = hashlib.sha256(value).hexdigest()[:16]
    return make_record(source, ce_type, f"{key}/{partition}/{format_time(at)}/{digest}", at, key, value)
