"""The ledger records that subscribers skip: the owner of a partition, and the first record of a partition."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from monitor.contracts.alerts import Contract, Name, Time
from monitor.contracts.charges import ChargesRecord
from monitor.contracts.visits import remove_default


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


class LedgerRecord(Contract):
    """The first record of each output partition: it names the ledger's service. Subscribers skip it. Key: ledger."""

    ledger: Literal[1] = Field(description="Version of the format.")
    service: Name
    partitions: int = Field(ge=1, description="The number of output partitions that the shards use (Q).")
    lost_at: Time | None = Field(description="When an earlier ledger was lost; all budget counted as spent then.")
    input_topic_id: str = Field(description="ID of the input topic when the ledger began.")
