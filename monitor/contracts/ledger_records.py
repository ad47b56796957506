"""The ledger's own records, which are not for subscribers: who writes to a partition, and that it is a ledger."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from monitor.contracts.alerts import Contract, Name, Time
from monitor.contracts.charges import ChargesRecord
from monitor.contracts.visits import without_default


class OwnerRecord(Contract):
    """Who writes to a ledger partition from here on; not for subscribers. Key: owner."""

    service: Name
    fingerprint: str = Field(description="Of what decides facts, but for the key of person ids.")
    input_topic_id: str
    partitions: int = Field(ge=1, description="Over how many output partitions the shards are spread (Q).")
    lost_at: Time | None = Field(description="When an earlier ledger was lost: all counted as spent then.")
    input_since: int | None = Field(description="The slot from which the input is whole, if some of it was lost.")
    counting: int = Field(
        default=1,
        ge=1,
        json_schema_extra=without_default,
        description="What the counts of the owner's ticks hold; 1, or absent: also visits reported after as_of.",
    )
    input_partitions: int = Field(
        default=0, ge=0, json_schema_extra=without_default, description="The most partitions the input was seen with."
    )
    charges: ChargesRecord | None = Field(
        default=None, json_schema_extra=without_default, description="What the configuration may charge."
    )
    tick: int | None = Field(
        default=None, json_schema_extra=without_default, description="Only of a tick that had nothing to answer."
    )


class LedgerRecord(Contract):
    """The first record of each output partition: this is a ledger, and whose; not for subscribers. Key: ledger."""

    ledger: Literal[1] = Field(description="Version of the format.")
    service: Name
    partitions: int = Field(ge=1, description="Over how many output partitions the shards are spread (Q).")
    lost_at: Time | None = Field(description="When an earlier ledger was lost: all counted as spent then.")
    input_topic_id: str = Field(
        default="", json_schema_extra=without_default, description="The input topic when the ledger began, if noted."
    )
