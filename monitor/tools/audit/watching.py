"""The reports of an audit: findings, records, ticks, and since when everything was proven."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from monitor.tools.audit.findings import FATES, ORACLES

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


class Watcher:
    """Receives the reports of an audit as they come. A subclass turns those that it needs into something else."""

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

    def report_unjudged(self, partition: int, position: str, *, begins: bool) -> None:
        """Report that a stretch that no given configuration explains begins or ends at a record."""


class Completeness:
    """Whether the ticks of the last turn were judged completely, and since when every answer was proven.

    `sound`: the last turn that judged any ticks judged all by a configuration, and with all input that they count.
    `proven_since`: the first tick of the current stretch in which all answers were compared with the input; None if
    there is no such stretch.
    """

    def __init__(self) -> None:
        self.sound = True
        self.proven_since: int | None = None
        self._first_of_turn = True

    def begin_turn(self) -> None:
        """Note that another turn begins. Its first judged tick replaces the result of earlier turns."""
        self._first_of_turn = True

    def judge(self, tick: int, outcome: Outcome, *, muted: bool) -> None:
        """Note the outcome of a tick. `muted`: its findings are not reported, so it does not count as proven."""
        sound = outcome in (Outcome.PROVEN, Outcome.OUTPUT_ONLY)
        self.sound = sound and (self.sound or self._first_of_turn)
        self._first_of_turn = False
        if outcome is not Outcome.PROVEN or muted:
            self.proven_since = None
        elif self.proven_since is None:
            self.proven_since = tick

    def give_up(self) -> None:
        """Note that answers will never be compared with the input."""
        self.sound = self._first_of_turn = False
        self.proven_since = None
