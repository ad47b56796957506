"""A monitor of kind `over_time`: its keys, its parameters, and the sizes of its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Literal

from pydantic import Field

from monitor.errors import Problem
from monitor.kinds.base.keys_and_parameters import Monitor, ValidKeys
from monitor.kinds.base.monitor_of_places import PlacesMonitor, group_by_share
from monitor.kinds.facts_and_questions import NeededFacts
from monitor.kinds.locations import Registry
from monitor.kinds.record_sizes import NOISY_COUNT_BYTES, TICK_BYTES
from monitor.kinds.timing import Timing
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.over_time import Mark, OverTimeRule, extend_marks, select_running_marks
from monitor.privacy.payment_of_one_person import Charge, charge_over_time
from monitor.records.charges_record import PlaceCharges
from monitor.values.single_values import WholeNumber

LARGEST_OF_ONE_PLACE: Final = 1_000_000
"""The maximum bytes of a place's record, which is written at every tick. Brokers accept this size by default."""

_PLACE_OVERHEAD: Final = 4_096  # the id of the place occurs up to four times, with escaped quotes
_MARK: Final = len('{"tick":,"noisy_count":,"epsilon":"","until":},') + 2 * TICK_BYTES + NOISY_COUNT_BYTES


@dataclass(frozen=True)
class OverTime(Monitor):
    """A monitor of kind `over_time`: the watched rows in registry order, and the rule of each row."""

    kind: ClassVar = "over_time"
    scope: ClassVar = "place"
    statuses: ClassVar = ("safe", "noisy_count", "paused", "unknown")
    name: str
    rows: tuple[int, ...]
    rules: tuple[OverTimeRule, ...]

    @property
    def window(self) -> int:
        """The window W, in slots. It is the same for all locations of a monitor."""
        return self.rules[0].window

    @property
    def needed(self) -> NeededFacts:
        """The people who were seen at the watched rows within the window.

        With several answers per window, a count begins after the latest number while its mark runs.
        """
        return NeededFacts(rows=self.rows, window=self.window, since_ticks=self.rules[0].answers > 1)

    def list_deciding(self) -> list[object]:
        """Return the name, and the rule of each row."""
        rules = zip(self.rows, self.rules, strict=True)
        return [
            self.name,
            [
                [int(row), str(rule.epsilon), rule.answers, rule.threshold, rule.window, rule.max_lead]
                for row, rule in rules
            ],
        ]

    def measure_largest(self, registry: Registry) -> int:
        """Return the maximum bytes of a place's record under the present rules."""
        del registry
        return max(measure_place(rule) for rule in set(self.rules))

    def measure_with_marks(self, registry: Registry, marks: Mapping[str, tuple[Mark, ...]], tick: int) -> int:
        """Return the maximum bytes of a place's record, with the marks that run at a tick under the present rules."""
        rules = self.list_rules(registry)
        return max(
            (
                measure_place(rule, (mark.epsilon for mark in select_running_marks(extend_marks(rule, own), tick)))
                for location, own in marks.items()
                for rule in (rules.get(location),)
                if rule is not None
            ),
            default=0,
        )

    def find_oversized(self, key: str, registry: Registry) -> Iterator[Problem]:
        """Yield a problem if too many answers would be repeated in a record."""
        del registry
        largest = max(set(self.rules), key=measure_place)
        if (size := measure_place(largest)) > LARGEST_OF_ONE_PLACE:
            yield Problem(
                f"{key}.answers_per_window",
                str(largest.answers),
                f"records of at most {LARGEST_OF_ONE_PLACE} bytes: each record repeats all answers that still count, "
                f"and may take {size} bytes",
                f"Set it to {find_max_answers_per_record(largest)} or less, or use a shorter window or longer slots.",
            )

    def list_rules(self, registry: Registry) -> Mapping[str, OverTimeRule]:
        """Return the rule of each watched location, by id."""
        return {registry.ids[row]: rule for row, rule in zip(self.rows, self.rules, strict=True)}

    def declare_places(self, registry: Registry) -> tuple[PlaceCharges, ...]:
        """Return the charges of the watched locations, grouped by their ε_l."""
        shares = {location: rule.epsilon for location, rule in self.list_rules(registry).items()}
        return (PlaceCharges(self.name, self.rules[0].answers, self.window, group_by_share(shares)),)


def _measure_mark(epsilon: Fraction) -> int:
    """Return the maximum bytes of one running mark of this ε in a record."""
    return _MARK + len(format_epsilon(epsilon))


def measure_place(rule: OverTimeRule, running: Iterable[Fraction] = ()) -> int:
    """Return the maximum bytes of a place's record.

    Args:
        rule: the present rule. It limits the number of its running marks by ε_l and by the mark lifetime.
        running: the ε of each running mark, which may come from an earlier rule. A mark that takes more bytes per ε
            than an answer under the present rule increases the bound.
    """
    epsilon, each = rule.answer_epsilon, _measure_mark(rule.answer_epsilon)
    kept = heavier = 0
    for mark_epsilon, times in Counter(running).items():
        kept += times * _measure_mark(mark_epsilon)
        heavier += times * max(0, _measure_mark(mark_epsilon) - int(each * mark_epsilon / epsilon))
    return _PLACE_OVERHEAD + max(kept, min(rule.answers, rule.mark_lifetime) * each + heavier)


def find_max_answers_per_record(rule: OverTimeRule) -> int:
    """Return the largest `answers_per_window` at which this place's record has at most `LARGEST_OF_ONE_PLACE` bytes.

    The result assumes that the ε of one answer has as many digits as under the present `answers_per_window`.
    """
    return (LARGEST_OF_ONE_PLACE - _PLACE_OVERHEAD) // _measure_mark(rule.answer_epsilon)


class OverTimeMonitor(PlacesMonitor):
    """Algorithm 3: counts the people at each listed location within the window, at each tick."""

    kind: Literal["over_time"] = Field(description="the kind of the monitor")
    threshold: WholeNumber = Field(description="the number of people below which a location is called safe")
    answers_per_window: WholeNumber = Field(default=1, description="the maximum number of noisy answers per window")

    def find_problems(self, keys: ValidKeys) -> Iterator[Problem]:
        """Yield a problem for each broken condition of the locations, their shares of ε, and the window."""
        if keys.has("locations"):
            yield from self.check_locations(keys.key)
        if keys.has("locations", "epsilon", "answers_per_window"):
            yield from self.check_shares(keys.key, self.answers_per_window)
        if keys.has("window") and keys.slot is not None:
            yield from self.check_window(keys.key, keys.slot)

    def derive(self, registry: Registry, timing: Timing) -> OverTime:
        """Return the parameters: the watched rows in registry order, and the rule of each."""
        shares = self.compute_shares()
        rows = sorted(registry.rows[location] for location in shares)
        rules = {
            epsilon: OverTimeRule(
                epsilon=epsilon,
                answers=self.answers_per_window,
                threshold=self.threshold,
                window=self.window // timing.slot,
                max_lead=timing.max_lead,
            )
            for epsilon in set(shares.values())
        }
        return OverTime(self.name, tuple(rows), tuple(rules[shares[registry.ids[row]]] for row in rows))

    def charge(self, timing: Timing) -> Charge:
        """Return the charge of the most noisy answers that may count the visits of a period."""
        window, answers = self.window // timing.slot, self.answers_per_window
        return charge_over_time(self.name, self.epsilon, answers, window, timing.max_lead, timing.period_slots)
