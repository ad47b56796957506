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
    counting: int = Field(
        default=1,
        ge=1,
        json_schema_extra=remove_default,
        description="Version of counting. 2: visits reported before as_of; 1 or absent: also some reported later.",
    )
    fence: int = Field(
        default=1,
        ge=1,
        json_schema_extra=remove_default,
        description="Version of the transactional id. 2: with the prefix location-monitor; 1 or absent: without.",
    )
    input_partitions: int = Field(
        default=0, ge=0, json_schema_extra=remove_default, description="The highest number of input partitions seen."
    )
    charges: ChargesRecord | None = Field(
        default=None, json_schema_extra=remove_default, description="What the configuration may charge one person."
    )
    fenced_to: int | None = Field(
        default=None,
        ge=0,
        json_schema_extra=remove_default,
        description="The offset below which all owners with an earlier version of the transactional id are fenced.",
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
    input_topic_id: str = Field(
        default="",
        json_schema_extra=remove_default,
        description="ID of the input topic when the ledger began, if recorded.",
    )
