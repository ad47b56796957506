"""The findings of the audit. Violations name locations, monitors and ticks, but no person and no exact count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

BYTES: Final = "bytes"
SAFE: Final = "safe"
NOISY: Final = "noisy_count"
LEAST: Final = "at_least"
DWELL: Final = "dwell"
BUDGET: Final = "budget"
PAID: Final = "paid"
TICKS: Final = "ticks"
FORM: Final = "form"
FATES: Final = "fates"

ORACLES: Final = {
    BYTES: "one set of bytes per ce_id",
    SAFE: 'every "safe" is true',
    NOISY: "every noisy count is an upper bound",
    LEAST: "every lower bound is at most the people who consented",
    DWELL: "dwell times are as close to the recount as their noise",
    BUDGET: "ε and pauses follow the rules",
    PAID: "no person pays more than stated",
    TICKS: "one answer at every tick",
    FORM: "records have the form and the facts of their tick",
    FATES: "visits by fate are as the service counted them",
}

LISTED: Final = 20

_COMPARED: Final = (SAFE, NOISY, LEAST, DWELL)
"""The oracles that compare an answer with the people who were there."""


def count_false(totals: Mapping[str, int]) -> int:
    """Return how many published statements were false, from the number of violations per oracle."""
    return sum(totals.get(oracle, 0) for oracle in _COMPARED)


@dataclass(slots=True)
class Findings:
    """The violations: the texts of the first 20 of each oracle, and the total number per oracle.

    `report` receives each violation at once; its text is None after the first 20. While `muted`, violations are left
    out. `form_faults`: the number of violations of the form, also of those that were left out.
    """

    report: Callable[[str, str | None], None]
    listed: dict[str, list[str]] = field(default_factory=lambda: {oracle: [] for oracle in ORACLES})
    totals: Counter[str] = field(default_factory=Counter)
    muted: bool = False
    form_faults: int = 0

    def add(self, oracle: str, text: str) -> None:
        """Add a violation. The text quotes nothing of a record: it may be another program's, about a person."""
        self.form_faults += int(oracle == FORM)
        if self.muted:
            return
        self.totals[oracle] += 1
        is_listed = len(self.listed[oracle]) < LISTED
        if is_listed:
            self.listed[oracle].append(text)
        self.report(oracle, text if is_listed else None)

    @contextmanager
    def catch_errors(self, position: str) -> Iterator[None]:
        """Turn an unexpected error into a violation of the form. It names the class, not the message."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # a record that anybody may have written must not end the audit
            self.add(FORM, f"{position}: cannot be judged: unexpected {type(error).__name__}")


@dataclass(frozen=True)
class AuditReport:
    """The numbers of records, ticks and answers checked, and the violations found.

    Attributes:
        records: the number of records.
        ticks: the number of ticks with answers. `first_tick` and `last_tick` are None if there are none.
        whole_until: the tick at which every visit has left every window and horizon. A replay may end earlier.
        answers: the number of answers by (monitor, status).
        safe: the number of "safe" answers checked. In a complete snapshot, each location without a noisy count is one.
        noisy: the number of noisy counts checked.
        bounds: the number of lower bounds checked. They are not checked if input has expired.
        violations: the first 20 violations of each oracle that was checked.
        totals: the number of violations by oracle.
        paid: the largest ε that one person paid within any period. It says something about this person, so do not
            publish it.
        spent: the largest ε that the answers may have cost one person within any period, from the answers alone.
        may_pay: the ε that the configuration allows (privacy.epsilon).
        fates: the number of visits by fate, as recounted.
        missing: by output partition, the ranges (first, last) of ticks that nobody decided.
        unjudged: the number of records that no given configuration explains.
    """

    records: int
    ticks: int
    first_tick: int | None
    last_tick: int | None
    whole_until: int
    answers: dict[tuple[str, str], int]
    safe: int
    noisy: int
    bounds: int
    violations: dict[str, list[str]]
    totals: dict[str, int]
    paid: Fraction
    may_pay: Fraction
    fates: dict[str, int]
    spent: Fraction = Fraction(0)
    missing: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    unjudged: int = 0

    @property
    def ok(self) -> bool:
        """Whether there is no violation."""
        return not any(self.totals.values())
