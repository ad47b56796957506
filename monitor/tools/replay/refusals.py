"""The refused lines of a replay: their number by reason, and the first of them by line number."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from typing import Final

from monitor.contracts.visits import Fault, Reason

SHOWN_LINES: Final = 10

BAD_REPORT_TIME: Final = Fault(Reason.NOT_A_VISIT, "reported_at: expected a time as in arrived_at, or nothing")
UNKNOWN_LOCATION: Final = Fault(Reason.UNKNOWN_LOCATION, "location_id: expected an id of locations.file")
TOO_FAR_AHEAD: Final = Fault(
    Reason.TOO_FAR_AHEAD, "reported_at: expected a time at most visits.accept_ahead before arrived_at"
)


class Refusals:
    """Counts refused lines. Reasons and errors name keys and expected values, never what a line contains."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self.first: list[tuple[int, Fault]] = []

    def add(self, number: int, fault: Fault) -> None:
        """Count a line, and keep it if it is one of the first `SHOWN_LINES` of the file."""
        self.reasons[fault.reason.value] += 1
        if len(self.first) < SHOWN_LINES or number < self.first[-1][0]:
            insort(self.first, (number, fault))
            del self.first[SHOWN_LINES:]

    def describe(self) -> list[str]:
        """Return one text for each of the first lines, and one for the number of the others."""
        texts = [f"line {number}: {fault.reason.value} ({fault.error})" for number, fault in self.first]
        more = self.reasons.total() - len(self.first)
        return [*texts, f"and {more:,} more lines"] if more else texts
