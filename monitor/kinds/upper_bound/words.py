"""What is said about a monitor of kind `upper_bound`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from monitor.kinds.base.examples import GRID, SOURCE, STATION, AnswerExample
from monitor.kinds.base.words import Note, Words
from monitor.kinds.report_delays import ReportDelays
from monitor.kinds.upper_bound.keys_and_parameters import UpperBoundMonitor
from monitor.kinds.upper_bound.record import make_upper_bound_record
from monitor.privacy.alarm_chances import compute_excess
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.payment_of_one_person import Charge
from monitor.privacy.upper_bound import BucketRule, add_up, draw
from monitor.time.instants import format_duration
from monitor.values.wording import format_amount, spell_duration, spell_rhythm


@dataclass(frozen=True)
class UpperBoundWords(Words[UpperBoundMonitor]):
    """What is said about a monitor of kind `upper_bound`."""

    per = "place"
    limit = "window"
    note_key = "upper_bound"
    other_share_key = "of_a_window"
    meaning = "* **A bound** is certain: there were at most so many people. It is too high on average."

    @staticmethod
    def list_examples() -> Iterator[AnswerExample]:
        """Yield the bound of a week."""
        rule, tick = BucketRule(Fraction(7, 2), 24, 168, 0), 167
        numbers = tuple(draw(rule, last, count, 1) for count, last in enumerate(rule.list_buckets(tick)))
        record = make_upper_bound_record(
            source=SOURCE,
            monitor="curve",
            location_id=STATION,
            epsilon=rule.answer_epsilon,
            tick=tick,
            as_of=GRID.as_of(tick),
            window_start=GRID.start(tick - rule.window + 1),
            bucket_start=GRID.start(tick - rule.bucket + 1),
            numbers=numbers,
            bound=add_up(rule, numbers, tick),
        )
        yield AnswerExample("complete", "At most 28 people within seven days.", record)

    @property
    def rule(self) -> BucketRule:
        """The rule of a location with the whole ε."""
        slot, monitor = self.timing.slot, self.monitor
        return BucketRule(monitor.epsilon, monitor.bucket // slot, monitor.window // slot, self.timing.max_lead)

    @property
    def shares(self) -> Counter[Fraction]:
        """The number of watched locations by the ε of a number: ε_l/B."""
        return Counter(share / self.monitor.buckets for share in self.monitor.compute_shares().values())

    @property
    def one_visit(self) -> Fraction:
        """The largest ε of a number. A visit that is reported once is in one bucket."""
        return max(self.shares)

    def ask(self) -> str:
        """Return how many people were there at most."""
        rhythm, window = spell_rhythm(self.monitor.bucket), spell_duration(self.monitor.window)
        places = len(self.monitor.location_ids)
        return (
            f"At {places} place{'' if places == 1 else 's'}, {rhythm}: how many different reported people were there "
            f"within the last {window}, at most?"
        )

    def explain(self, charge: Charge) -> str:
        """Return how the number of buckets that count the visits of a period is computed."""
        rule, slots = self.rule, self.timing.period_slots
        ticks = slots + rule.lifetime - 1
        return (
            f"A period of {spell_duration(self.timing.period)} that is not aligned with slots touches H = "
            f"{slots - 1} + 1 = {slots} slots. The window is W = {rule.window} slots, a visit may end F = "
            f"{rule.max_lead} slots after its report (accept_ahead and default_stay), and a bucket has b = "
            f"{rule.bucket} slots. So the visits in these slots are counted by buckets that end in N = H + W + F - 1 = "
            f"{ticks} slots. These are at most ⌈N/b⌉ = {-(-ticks // rule.bucket)} buckets, at ε·b/W = "
            f"{rule.answer_epsilon} each: {charge.amount}. A visit that is reported once is in one bucket. "
            "A person who is reported in every bucket of a window pays ε for it."
        )

    def describe_width(self) -> str:
        """Return how much too high a bound is."""
        text = self._describe_excess()
        return f"{text[0].upper()}{text[1:]} Each bound is certain."

    def note(self) -> Note:
        """Return how much too high a bound is, by the configured values."""
        tree = {
            "bucket": format_duration(self.monitor.bucket),
            "buckets": self.rule.buckets,
            "excess": [
                {"epsilon": format_epsilon(epsilon), "mean": mean, "deviation": deviation}
                for epsilon, mean, deviation in self._list_excesses()
            ],
        }
        return Note(tree, "What upper bounds mean", self._describe_excess())

    def _list_excesses(self) -> Iterator[tuple[Fraction, float, float]]:
        """Yield the ε of a number, and by how much noise raises a bound: the mean and the standard deviation."""
        for epsilon in sorted(self.shares, reverse=True):
            yield epsilon, *compute_excess(self.rule.buckets, epsilon)

    def _describe_excess(self) -> str:
        excesses = "; ".join(
            f"{format_amount(mean)} ± {format_amount(deviation)} people too high (ε of a number "
            f"{format_epsilon(epsilon)})"
            for epsilon, mean, deviation in self._list_excesses()
        )
        return (
            f"the bound is {excesses}, if each person is reported in one bucket. It is the sum of {self.rule.buckets} "
            "numbers; a person who is reported in several buckets counts in each."
        )

    def find_other_share(self, delays: ReportDelays) -> Fraction:
        """Return the share of the visits in its window that one bound counts."""
        return delays.average_share(self.monitor.window)

    def describe_counted(self, in_time: str, other: str) -> str:
        """Return what is ever in the window, and what one bound counts of it."""
        return (
            f"{in_time} are reported while they are in the window. One bound counts about {other} of the visits in its "
            "window."
        )
