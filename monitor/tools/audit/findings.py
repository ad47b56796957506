"""What the audit found. Violations name locations, monitors and ticks: never a person, never an exact count."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

BYTES: Final = "bytes"
SAFE: Final = "safe"
NOISY: Final = "noisy_count"
BUDGET: Final = "budget"
PAID: Final = "paid"
TICKS: Final = "ticks"
FORM: Final = "form"
FATES: Final = "fates"

ORACLES: Final = {
    BYTES: "one set of bytes per ce_id",
    SAFE: 'every "safe" is true',
    NOISY: "every noisy count is a certain bound",
    BUDGET: "ε and pauses as they must be",
    PAID: "no person pays more than stated",
    TICKS: "one answer at every tick",
    FORM: "records say what is so about their tick",
    FATES: "visits by fate, as the service counted them",
}

LISTED: Final = 20


@dataclass(slots=True)
class Findings:
    """Violations as they are found: the first 20 of each oracle in words, all of them as a number."""

    listed: dict[str, list[str]] = field(default_factory=lambda: {oracle: [] for oracle in ORACLES})
    totals: Counter[str] = field(default_factory=Counter)

    def add(self, oracle: str, text: str) -> None:
        """Add a violation."""
        self.totals[oracle] += 1
        if len(self.listed[oracle]) < LISTED:
            self.listed[oracle].append(text)


@dataclass(frozen=True)
class AuditReport:
    """What was checked, and what was found.

    `ticks` is how many were seen, from `first_tick` to `last_tick` (None without any); `whole_until` the tick at which
    every visit has left every window and horizon: a replay that ends before was told to. `answers`: by (monitor,
    status). `safe`: "safe" answers checked, a complete snapshot's unlisted locations one by one; `noisy`: noisy counts
    checked. `violations`: of each oracle that was asked the first 20, `totals` how many there are. `paid`: the most ε
    that any one person paid within any period, of the `may_pay` that the configuration states. `fates`: visits by fate,
    recounted.
    """

    records: int
    ticks: int
    first_tick: int | None
    last_tick: int | None
    whole_until: int
    answers: dict[tuple[str, str], int]
    safe: int
    noisy: int
    violations: dict[str, list[str]]
    totals: dict[str, int]
    paid: Fraction
    may_pay: Fraction
    fates: dict[str, int]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not any(self.totals.values())
