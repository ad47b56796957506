"""What is said about a monitor of kind `dwell`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from monitor.kinds.base.examples import GRID, NOON, REGISTRY, SOURCE, AnswerExample
from monitor.kinds.base.words import Note
from monitor.kinds.base.words_of_designated_times import TimedWords
from monitor.kinds.dwell.keys_and_parameters import DwellMonitor
from monitor.kinds.dwell.record import NoisyTotals, make_dwell_record
from monitor.privacy.payment_of_one_person import Charge
from monitor.time.instants import SECOND, format_duration
from monitor.values.wording import format_amount, spell_duration


@dataclass(frozen=True)
class DwellWords(TimedWords[DwellMonitor]):
    """What is said about a monitor of kind `dwell`."""

    note_key = "dwell"
    meaning = "* **The number and length of visits** are estimates. They may be too high or too low."
    in_both_directions = (
        "Dwell times are protected in both directions.",
        "Two-sided geometric noise for dwell times.",
    )

    @staticmethod
    def list_examples() -> Iterator[AnswerExample]:
        """Yield the number and length of the visits of a noon."""
        record = make_dwell_record(
            source=SOURCE,
            monitor="lengths",
            time=NOON,
            tick=35,
            as_of=GRID.as_of(35),
            registry=REGISTRY,
            locations=40,
            epsilon=Fraction(1),
            longest=7_200,
            per_person=1,
            totals=NoisyTotals(60_000, 84_000, 20.0, 3_000.0),
        )
        yield AnswerExample("complete", "About 20 visits of 50 minutes.", record)

    @property
    def one_visit(self) -> Fraction:
        """The ε of a visit. Another visit of the person may count instead (docs/rules.md, rule 14)."""
        return self.monitor.epsilon / self.monitor.visits_per_person

    @property
    def deviation(self) -> float:
        """The standard deviation of the number of visits (docs/rules.md, rule 14).

        The number is the sum of both totals, divided by R. The noise of a total has the variance 2q/(1 - q)² with
        q = e^(-ε/(2·m·R)).
        """
        longest = self.monitor.longest_visit // SECOND
        unit = float(self.monitor.epsilon / (2 * self.monitor.visits_per_person * longest))
        variance = 2 * math.exp(-unit) / math.expm1(-unit) ** 2
        return math.sqrt(2 * variance) / longest

    def ask(self) -> str:
        """Return how many visits there were, and how long they lasted."""
        return (
            f"How many visits were there at {self.name_times()}, in all places together, and how long did they last on "
            f"average? This is answered once, {self.spell_horizon()} later."
        )

    def explain(self, charge: Charge) -> str:
        """Return how the charge is computed."""
        return (
            self.explain_times(str(self.monitor.epsilon), charge)
            + " This is ordinary differential privacy: it covers any change of a person's visits at these times."
        )

    def describe_width(self) -> str:
        """Return the noise of the number of visits."""
        return (
            f"The number of visits has a standard deviation of {self.deviation:,.3g}, in both directions. Nothing "
            "about it is certain."
        )

    def note(self) -> Note:
        """Return the noise, and which visits count."""
        longest, most = self.monitor.longest_visit, self.monitor.visits_per_person
        text = (
            f"the number of visits has a standard deviation of {format_amount(self.deviation)}, in both directions, so "
            f"nothing about it is certain. At most {most} visits of each person count, each with a "
            f"length of at most {spell_duration(longest)}."
        )
        tree = {
            "longest_visit": format_duration(longest),
            "visits_per_person": most,
            "deviation": self.deviation,
        }
        return Note(tree, "What dwell times mean", text)
