"""The readings that decide a tick, and the slots for which they are complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from monitor.store.facts import Reading
from monitor.ticks.state import LedgerState


@dataclass(frozen=True, slots=True)
class Evidence:
    """The complete readings of a tick, by shard. A shard without a reading is unknown.

    A reading is complete if it contains all records stamped before as_of.

    `causes`: why each shard without a reading is unknown (`monitor.contracts.unknown`). `behind`: for each input
    partition, the offset that the facts had reached, and the end that they had to reach; empty if this is not known.
    """

    readings: Mapping[int, Reading]
    causes: Mapping[int, str] = field(default_factory=dict)
    behind: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def find_complete_from(self, shard: int) -> int | None:
        """Return the first slot from which the shard's windows are complete; None if the shard has no reading."""
        reading = self.readings.get(shard)
        if reading is None:
            return None
        return max(reading.complete_from, reading.evicted_before)


def find_input_since(state: LedgerState) -> int:
    """Return the slot from which facts are complete if an earlier input topic was lost, else one before all others."""
    complete_from = None if state.terms is None else state.terms.input_since
    return -(2**62) if complete_from is None else complete_from
