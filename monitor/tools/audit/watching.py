"""The reports of a follower: findings, records and ticks. The caller turns them into metrics and log lines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final, Protocol

from monitor.tools.audit.findings import FATES, LISTED, ORACLES, Findings

FINDING_KINDS: Final = tuple(kind for kind in ORACLES if kind != FATES)


class Outcome(StrEnum):
    """What is known about a tick.

    PROVEN: every answer was compared with the whole input that it counts. PARTIAL: some of this input has expired, so a
    false "safe" may not be found. OUTPUT_ONLY: nothing was compared with input. UNPROVEN: the comparison was given up,
    because the input could not be read and too many answers waited for it; or some answer could not be compared,
    because it has another form. UNJUDGED: no given configuration was in force.
    """

    PROVEN = "proven"
    PARTIAL = "partial"
    OUTPUT_ONLY = "output_only"
    UNPROVEN = "unproven"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True)
class ProvenStretch:
    """A stretch of time in which every published answer was compared with the whole input.

    `since`, `up_to`: the first and the last `as_of`, in microseconds. `false`: how many statements were false.
    `epsilon`: the most that one person may have paid within a period, from the output alone.
    """

    since: int
    up_to: int
    false: int
    epsilon: Fraction


class Watcher(Protocol):
    """Receives the reports of a follower."""

    def report_finding(self, kind: str, text: str | None) -> None:
        """Report a finding. The text is None after the first 20 findings of a kind."""

    def report_record(self, kind: str) -> None:
        """Report that a record was read."""

    def report_tick(self, partition: int, tick: int, as_of: int) -> None:
        """Report the latest tick of an output partition."""

    def report_outcome(self, outcome: Outcome) -> None:
        """Report what is known about a tick."""

    def report_missing(self, partition: int, first: int, last: int) -> None:
        """Report ticks that nobody decided."""

    def report_unjudged(self, partition: int | None, place: str, *, begins: bool) -> None:
        """Report that a stretch that no given configuration explains begins or ends at a record."""


class ReportedFindings(Findings):
    """Findings that are reported at once, and not kept."""

    def __init__(self, watcher: Watcher) -> None:
        super().__init__()
        self._watcher = watcher

    def _show(self, oracle: str, text: str) -> None:
        self._watcher.report_finding(oracle, text if self.totals[oracle] <= LISTED else None)
