"""The findings of the audit. Violations name locations, monitors and ticks, but no person and no exact count."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Final

log = logging.getLogger(__name__)

BYTES: Final = "bytes"
SAFE: Final = "safe"
NOISY: Final = "noisy_count"
LEAST: Final = "at_least"
BUDGET: Final = "budget"
PAID: Final = "paid"
TICKS: Final = "ticks"
FORM: Final = "form"
SIGNED: Final = "signed"

ANSWER_ORACLES: Final = {
    BYTES: "one set of bytes per ce_id",
    SAFE: 'every "safe" is true',
    NOISY: "every noisy count is an upper bound",
    LEAST: "every lower bound is at most the people who consented",
}
"""What the audit proves of answers, by the name of the finding. A kind may add its own (`Monitor.own_oracles`)."""

RULE_ORACLES: Final = {
    BUDGET: "ε and pauses follow the rules",
    PAID: "the answers cost no person more than stated",
    TICKS: "one answer at every decided tick",
    FORM: "records have the form and the facts of their tick",
    SIGNED: "answers are as they were signed",
}
"""What the audit proves of rules and records."""

LISTED: Final = 20

_NOT_COMPARED: Final = (BYTES, *RULE_ORACLES)
"""The oracles that compare no answer with the people who were there."""


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
    """A stretch of time in which every published answer was compared with the whole input."""

    since: int
    up_to: int
    """`since`, `up_to`: the first and the last `as_of`, in microseconds."""
    false: int
    """How many statements were false."""
    epsilon: Fraction
    """The most that one person may have paid within a period, from the output alone."""


def format_ticks(first: int, last: int) -> str:
    """Return a range of ticks in words."""
    return f"tick {first}" if first == last else f"ticks {first} to {last}"


def count_false(totals: Mapping[str, int]) -> int:
    """Return how many published statements were false, from the number of violations per oracle."""
    return sum(number for oracle, number in totals.items() if oracle not in _NOT_COMPARED)


@dataclass(slots=True)
class Findings:
    """The violations."""

    oracles: Mapping[str, str] = field(default_factory=lambda: ANSWER_ORACLES | RULE_ORACLES)
    """What is proven, by the name of the finding."""
    listed: dict[str, list[str]] = field(init=False)
    """The texts of the first 20 of each oracle, which are logged too."""
    totals: Counter[str] = field(default_factory=Counter)
    """The number by oracle."""
    muted: bool = False
    """Violations are left out."""
    form_faults: int = 0
    """The violations of the form, also of those that were left out."""

    def __post_init__(self) -> None:
        """List no violation of any oracle."""
        self.listed = {oracle: [] for oracle in self.oracles}

    def add(self, oracle: str, text: str) -> None:
        """Add a violation. The text quotes nothing of a record: it may be another program's, about a person."""
        self.form_faults += int(oracle == FORM)
        if self.muted:
            return
        self.totals[oracle] += 1
        if self.totals[oracle] <= LISTED:
            self.listed[oracle].append(text)
            log.error("finding (%s, broken: %s): %s", oracle, self.oracles[oracle], text)
        elif self.totals[oracle] == LISTED + 1:
            log.error("more than %d findings of the kind %s: further ones are only counted", LISTED, oracle)

    @contextmanager
    def catch_errors(self, position: str) -> Iterator[None]:
        """Turn an unexpected error into a violation of the form. It names the class, not the message."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # a record that anybody may have written must not end the audit
            self.add(FORM, f"{position}: cannot be judged: unexpected {type(error).__name__}")


@dataclass(frozen=True)
class AuditReport:
    """The numbers of records, ticks and answers checked, and the violations found."""

    records: int
    ticks: int
    """Those with answers."""
    first_tick: int | None
    """None if no tick has answers; so is `last_tick`."""
    last_tick: int | None
    whole_until: int
    """The tick at which every visit has left every window and horizon. A replay may end earlier."""
    answers: dict[tuple[str, str], int]
    """By monitor and status."""
    safe: int
    """The "safe" answers checked. In a complete snapshot, each location without a noisy count is one."""
    noisy: int
    """The noisy counts checked."""
    bounds: int
    """The lower bounds checked. They are not checked if input has expired."""
    violations: dict[str, list[str]]
    """The first 20 of each oracle that was checked."""
    totals: dict[str, int]
    """The number of violations by oracle."""
    spent: Fraction
    """The largest ε that the answers may have cost one person within any period, from the answers alone."""
    may_pay: Fraction
    """The ε that the configuration allows (privacy.epsilon)."""
    fates: dict[str, int]
    """The number of visits by fate, as recounted."""
    early: int = 0
    """The noisy counts about fewer people than the threshold, but at least half of it.

    It depends on visits, so do not publish it.
    """
    noise: int = 0
    """The noisy counts about fewer people than half of the threshold; as `early`."""
    missing: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By output partition, the ranges (first, last) of ticks that nobody decided."""
    incomplete: dict[int, list[int]] = field(default_factory=dict)
    """By output partition, the ticks that lack answers, which the service has recorded as lost."""
    unjudged: int = 0
    """The records that no given configuration explains."""
    expired: tuple[str, ...] = ()
    """The topics of which records have expired."""

    @property
    def ok(self) -> bool:
        """Whether there is no violation."""
        return not any(self.totals.values())
