"""What is said about a monitor of kind `at_times` and its lower bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from monitor.kinds.at_times.keys_and_parameters import AtTimesMonitor
from monitor.kinds.at_times.record import LaterCount, NoisyCount, make_at_times_record
from monitor.kinds.base.examples import GRID, MUSEUM, NOON, REGISTRY, SOURCE, AnswerExample
from monitor.kinds.base.words import SELDOM, Note, describe_noise
from monitor.kinds.base.words_of_designated_times import TimedWords
from monitor.kinds.designs import Design
from monitor.kinds.report_delays import ReportDelays
from monitor.privacy.alarm_chances import compute_mean_noise, find_threshold
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.payment_of_one_person import Charge
from monitor.records.output_records import OutputRecord
from monitor.time.instants import format_instant
from monitor.values.wording import explain_factor, format_amount, format_percent


@dataclass(frozen=True)
class AtTimesWords(TimedWords[AtTimesMonitor]):
    """What is said about a monitor of kind `at_times`."""

    note_key = "lower_bounds"

    @staticmethod
    def list_examples() -> Iterator[AnswerExample]:
        """Yield a snapshot, the last one with lower bounds, and one since two alarms."""
        once, third = NoisyCount(14, 12), Fraction(1, 3)
        fresh = NoisyCount(14, 12, third, (LaterCount(20, 9, third),), format_instant(GRID.as_of(20)))
        yield AnswerExample(
            "complete", "Every place of the shard except the museum is safe.", _make_example(14, once, 1)
        )
        yield AnswerExample(
            "final", "The last snapshot, with certain lower bounds.", _make_example(35, once, 1, {MUSEUM: 3})
        )
        yield AnswerExample("freshCount", "Fewer than 9 people since the second alarm.", _make_example(22, fresh, 3))

    @property
    def threshold(self) -> int:
        """The threshold T."""
        return self.monitor.threshold

    @property
    def updates(self) -> int:
        """The most ticks within a horizon."""
        return self.timing.count_slots(self.monitor.reporting_horizon)

    @property
    def bounds(self) -> Fraction | None:
        """The ε of lower bounds, or None."""
        return None if self.monitor.at_least is None else self.monitor.at_least.epsilon

    @property
    def shares(self) -> Counter[Fraction]:
        """Every location has an answer at ε/k, because a person is at one place at a time."""
        return Counter({self._answer_epsilon: self.locations})

    @property
    def _answer_epsilon(self) -> Fraction:
        return self.monitor.epsilon / self.monitor.answers_per_time

    @property
    def counts_consent(self) -> bool:
        """Whether there are lower bounds."""
        return self.bounds is not None

    @property
    def one_visit(self) -> Fraction:
        """The larger one of the two ε: a visit that is reported once changes one noisy count or a lower bound."""
        return max(self._answer_epsilon, self.bounds or Fraction(0))

    def ask(self) -> str:
        """Return whether fewer people than the threshold were at each place."""
        text = (
            f"At all {self.locations} places of the public list, at {self.name_times()}: were fewer than "
            f"{self.threshold} reported people there at that moment? Reports within {self.spell_horizon()} count."
        )
        return f"{text} A lower bound counts the people who agreed." if self.counts_consent else text

    def explain(self, charge: Charge) -> str:
        """Return how the charge is computed, and what several answers and lower bounds add."""
        if self.bounds is None:
            return self.explain_times(str(self.monitor.epsilon), charge) + self._explain_answers()
        return (
            self.explain_times(f"{self.monitor.epsilon} + {self.bounds} (lower bounds)", charge)
            + self._explain_answers()
            + f" A person with one visit at a designated time pays {self.one_visit} for it. Lower "
            "bounds do not protect a visit with consent."
        )

    def _explain_answers(self) -> str:
        if (answers := self.monitor.answers_per_time) == 1:
            return ""
        return (
            f" A location may have {answers} noisy answers about a time (answers_per_time), at ε/k = "
            f"{self._answer_epsilon} each. After each one, it counts who was reported since, so a visit that is "
            "reported once is in one of them."
        )

    def describe_width(self) -> str:
        """Return the noise of a count, and of a lower bound."""
        text = describe_noise(self.shares)
        if self.bounds is None:
            return text
        mean, below = compute_mean_noise(self.bounds), find_threshold(self.bounds, 1, SELDOM)
        return (
            f"{text} A lower bound is {mean:,.2g} people too low on average, and fewer than {below} with a chance of "
            "95 %."
        )

    def note(self) -> Note | None:
        """Return how far a lower bound is below the number of people who consented, if there are lower bounds."""
        if (epsilon := self.bounds) is None:
            return None
        mean, below = compute_mean_noise(epsilon), find_threshold(epsilon, 1, SELDOM)
        text = (
            f"a bound is {format_amount(mean)} people below the number of people with consent on average, and "
            f"fewer than {below} below with a chance of {format_percent(1 - SELDOM)}. People without consent are "
            "not counted. "
            f"That one of them did not consent changes the chance of a bound by a factor of at most "
            f"{explain_factor(epsilon)}."
        )
        tree = {"epsilon": format_epsilon(epsilon), "mean_noise": mean, "below": below}
        return Note(tree, "What lower bounds mean", text)

    def describe_false_alarms(self, chance: float) -> str:
        """Return how many locations have a false alarm if all are empty."""
        false = format_amount(chance * self.locations)
        return f" If all {self.locations} are empty, {false} have one at each designated time, on average."

    def list_useless_keys(self) -> Iterator[str]:
        """Yield a sentence if more answers are allowed than there are ticks for."""
        if (answers := self.monitor.answers_per_time) > (ticks := self.updates):
            yield (
                f"answers_per_time is {answers}, but only {ticks} ticks answer about a designated time, so more than "
                f"{ticks} answers are never published, and only make each answer noisier. Set it to {ticks} or less."
            )

    def find_other_share(self, delays: ReportDelays) -> Fraction:
        """Return the share of visits that the first answer counts."""
        return delays.find_share(self.timing.slot)

    def describe_counted(self, in_time: str, other: str) -> str:
        """Return what the first and the last answer count."""
        return f"the last answer about a designated time counts {in_time}; the first, {other}."

    def make_design(self) -> Design:
        """Return the design of Algorithm 4."""
        return design_at_times(self.timing.slot, self.monitor)

    def list_changes(self) -> Iterator[tuple[str, Mapping[str, int]]]:
        """Yield one answer less and one more about a designated time."""
        for answers in (self.monitor.answers_per_time - 1, self.monitor.answers_per_time + 1):
            if answers >= 1:
                yield f"k = {answers}", {"answers_per_time": answers}


def design_at_times(slot: int, times: AtTimesMonitor) -> Design:
    """Return a design of Algorithm 4: updates about each designated time, within the monitor's horizon.

    A location shows its first alarm until the last update, so all updates about a designated time are one occasion.
    Every location has k answers at ε/k, because a person is at one place at a time.
    """
    answers, updates = times.answers_per_time, -(-times.reporting_horizon // slot)
    share = Fraction(1, answers)
    return Design("at_times", slot, share, share, updates, answers=answers, times=times)


def _make_example(tick: int, museum: NoisyCount, answers: int, bounds: dict[str, int] | None = None) -> OutputRecord:
    """Return the snapshot of a tick about noon. With lower bounds, it is the last one."""
    return make_at_times_record(
        source=SOURCE,
        monitor="midday",
        time=NOON,
        shard=8,
        shards=16,
        tick=tick,
        as_of=GRID.as_of(tick),
        complete=True,
        final=bounds is not None,
        registry=REGISTRY,
        locations=3,
        threshold=9,
        epsilon=Fraction(1),
        noisy_counts={MUSEUM: museum},
        answers_per_time=answers,
        counts_at_least=None if bounds is None else (Fraction(1, 2), bounds),
    )
