"""The records of the output topic that are no answers: owner and start records, and checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Final, Literal

from msgspec import Struct

from monitor.audit.kinds.all_kinds import KINDS
from monitor.audit.kinds.base.designated_times import TimeCharges
from monitor.audit.kinds.base.places import LocationCharges
from monitor.audit.record_fields import Digest, Instant, People, Positive, Whole

CHARGED: Final = {charged for kind in KINDS.values() for charged in kind.charged}
"""The kinds of charges per designated time."""


class Charges(Struct, frozen=True):
    """The charges of a configuration."""

    digest: Digest
    max_lead: People
    """F."""
    places: list[LocationCharges] | None
    """None if they were too long."""
    times: list[TimeCharges] | None
    """None if they were too long."""

    def __post_init__(self) -> None:
        """Check the kinds of charges."""
        if not {charged.kind for charged in self.times or ()} <= CHARGED:
            raise ValueError

    @property
    def are_stated(self) -> bool:
        """Whether the owner did not leave any out."""
        return self.places is not None and self.times is not None

    def list_charges(self) -> Counter[Hashable]:
        """Return what is charged, as monitors list it (`Monitor.list_charges`)."""
        stated = [*(self.places or ()), *(self.times or ())]
        return Counter(charge for charges in stated for charge in charges.list_charges())


class Owner(Struct, frozen=True):
    """The owner record of an output partition."""

    service: str
    fingerprint: str
    input_topic_id: str
    partitions: Positive
    lost_at: Instant | None
    input_since: Whole | None
    input_partitions: People
    charges: Charges | None = None
    tick: Whole | None = None
    """A tick that had nothing to answer."""
    incomplete: Whole | None = None
    """A tick whose missing answers are lost."""


class Start(Struct, frozen=True):
    """The first record of an output partition."""

    ledger: Literal[1]
    service: str
    partitions: Positive
    lost_at: Instant | None
    input_topic_id: str


class Checkpoint(Struct, frozen=True):
    """The signed end of a tick, which `signatures.py` verifies."""

    kind: Literal["checkpoint"]
    tick: Whole
    as_of: Instant
    note: str
    hashes: list[str]
