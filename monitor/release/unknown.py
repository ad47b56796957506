"""The causes of unknown ticks, which metrics count and logs explain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from monitor.release.decide import Decision, Evidence

INPUT_BEHIND: Final = "input_behind"
KAFKA_UNREACHABLE: Final = "kafka_unreachable"
STORE_UNREACHABLE: Final = "store_unreachable"
LATE: Final = "late"
FACTS_MISSING: Final = "facts_missing"
CAUSES: Final = (INPUT_BEHIND, KAFKA_UNREACHABLE, STORE_UNREACHABLE, LATE, FACTS_MISSING)

_EXPLANATIONS: Final = {
    KAFKA_UNREACHABLE: "Kafka did not return the ends of the input partitions",
    STORE_UNREACHABLE: "Redis did not answer",
    LATE: "the facts were complete only after the release time",
    FACTS_MISSING: "the facts of earlier slots are incomplete: they are being read again, or they have been evicted",
}


def count_causes(evidence: Evidence, decision: Decision) -> Counter[str]:
    """Return the number of unknown shards by cause; empty if every answer is known.

    If all shards were read and an answer is still unknown, facts of earlier slots are missing. This counts as 1.
    """
    causes = Counter(evidence.causes.values())
    if not causes and any(status == "unknown" for _, status in decision.answers):
        causes[FACTS_MISSING] = 1
    return causes


def explain(causes: Mapping[str, int], behind: Mapping[int, tuple[int, int]]) -> str:
    """Return the reasons for an unknown tick. Operators may see offsets of the input."""
    reasons = [_EXPLANATIONS[cause] for cause in causes if cause in _EXPLANATIONS]
    if INPUT_BEHIND in causes:
        reasons += [
            f"the windows contain input partition {partition} up to offset {reached} of {end}"
            for partition, (reached, end) in sorted(behind.items())
            if reached < end
        ]
    return "; ".join(reasons)
