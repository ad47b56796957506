"""The causes of unknown ticks, which metrics count and logs explain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

INPUT_BEHIND: Final = "input_behind"
KAFKA_UNREACHABLE: Final = "kafka_unreachable"
STORE_UNREACHABLE: Final = "store_unreachable"
LATE: Final = "late"
FACTS_MISSING: Final = "facts_missing"
LEDGER_LOST: Final = "ledger_lost"
NOT_SIGNED: Final = "not_signed"
CAUSES: Final = (INPUT_BEHIND, KAFKA_UNREACHABLE, STORE_UNREACHABLE, LATE, FACTS_MISSING, LEDGER_LOST, NOT_SIGNED)

_EXPLANATIONS: Final = {
    KAFKA_UNREACHABLE: "Kafka did not return the ends of the input partitions",
    STORE_UNREACHABLE: "Redis did not answer",
    LATE: "the facts were complete only after the release time",
    FACTS_MISSING: "the facts of earlier slots are incomplete: they are being read again, or they have been evicted",
    LEDGER_LOST: "earlier answers about a designated time were lost with the ledger, or expired",
    NOT_SIGNED: "the ledger has noisy counts about a designated time that the service has not signed",
}


def count_causes(missing: Iterable[str], unknown: Iterable[tuple[int, str]]) -> Counter[str]:
    """Return the number of unknown shards by cause; empty if every answer is known.

    `missing`: the causes of the shards without a reading. `unknown`: the shards with a reading that have an unknown
    answer, each with the cause.
    """
    return Counter([*missing, *(cause for _, cause in unknown)])


def explain(
    causes: Mapping[str, int], behind: Mapping[int, tuple[int, int]], stable: Mapping[int, int] | None = None
) -> str:
    """Return the reasons for an unknown tick. Operators may see offsets of the input.

    `behind`: as in `Evidence`. `stable`: as in `explain_hidden`.
    """
    reasons = [_EXPLANATIONS[cause] for cause in causes if cause in _EXPLANATIONS]
    if INPUT_BEHIND in causes:
        reasons += [
            f"the windows contain input partition {partition} up to offset {reached} of {end}"
            for partition, (reached, end) in sorted(behind.items())
            if reached < end
        ]
    return "; ".join([*reasons, *explain_hidden(behind, stable or {})])


def explain_hidden(behind: Mapping[int, tuple[int, int]], stable: Mapping[int, int]) -> list[str]:
    """Return a sentence for each input partition that nobody can read to the end that a tick has to reach.

    `stable`: the last stable offset by partition, as far as it is known.
    """
    return [
        f"input partition {partition} cannot be read beyond offset {stable[partition]}: a producer has an open "
        "transaction there, or followers have not copied the last records"
        for partition, (_, end) in sorted(behind.items())
        if stable.get(partition, end) < end
    ]
