"""The evidence of a tick: the counts that its answers are computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from monitor.kinds.facts_and_questions import Reading


@dataclass(frozen=True, slots=True)
class Evidence:
    """The complete readings of a tick, by shard. A shard without a reading is unknown.

    A reading is complete if it contains all records stamped before as_of.
    """

    readings: Mapping[int, Reading]
    causes: Mapping[int, str] = field(default_factory=dict)
    """Why each shard without a reading is unknown (`monitor.records.unknown_causes`)."""
    behind: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """For each input partition, the offset that the facts had reached, and the end that they had to reach; empty if
    this is not known.
    """

    def find_complete_from(self, shard: int) -> int | None:
        """Return the first slot from which the shard's windows are complete; None if the shard has no reading."""
        reading = self.readings.get(shard)
        if reading is None:
            return None
        return max(reading.complete_from, reading.evicted_before)
