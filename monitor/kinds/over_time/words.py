"""What is said about a monitor of kind `over_time`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from monitor.kinds.base.examples import GRID, SOURCE, STATION, AnswerExample
from monitor.kinds.base.words import Note, Words, describe_noise
from monitor.kinds.designs import Design
from monitor.kinds.over_time.keys_and_parameters import OverTimeMonitor
from monitor.kinds.over_time.record import make_over_time_record
from monitor.kinds.report_delays import ReportDelays
from monitor.privacy.alarm_chances import compute_busy_share
from monitor.privacy.over_time import Mark, OverTimeAnswer, OverTimeRule, Status
from monitor.privacy.payment_of_one_person import Charge
from monitor.records.output_records import OutputRecord
from monitor.time.instants import format_duration
from monitor.values.wording import format_percent, spell_duration, spell_rhythm

PAUSE: Final = (
    "A noisy answer counts for W + F ticks. W is the window, and F is how far after its report a visit may end "
    "(accept_ahead and default_stay), both in slots."
)
_NAMED: Final = 8
"""The largest number of places that a sentence names."""


@dataclass(frozen=True)
class OverTimeWords(Words[OverTimeMonitor]):
    """What is said about a monitor of kind `over_time`."""

    per = "place"
    limit = "window"
    note_key = "pause"
    other_share_key = "of_a_window"
    meaning = '* **"Paused"** means that nothing new is published for a time, so that no visit is counted too often.'

    @staticmethod
    def list_examples() -> Iterator[AnswerExample]:
        """Yield an answer of each status, and one since an alarm. There is one alarm, at tick 16."""
        once, twice = OverTimeRule(Fraction(1), 1, 10, 168, 1), OverTimeRule(Fraction(1), 2, 10, 168, 1)
        yield AnswerExample("safe", "Fewer than 10 people.", _make_example("safe", 8, once))
        yield AnswerExample("noisyCount", "An alarm: at most 12 people.", _make_example("noisy_count", 16, once))
        yield AnswerExample(
            "freshCount", "Fewer than 10 people reported since the alarm.", _make_example("safe", 20, twice)
        )
        yield AnswerExample("paused", "The budget is spent until the mark ends.", _make_example("paused", 17, once))
        yield AnswerExample("unknown", "The input was not known to be complete.", _make_example("unknown", 15, once))

    @property
    def threshold(self) -> int:
        """The threshold T."""
        return self.monitor.threshold

    @property
    def updates(self) -> int:
        """The window W, in slots."""
        return self.monitor.window // self.timing.slot

    @property
    def ticks(self) -> int:
        """W + F, the ticks for which a noisy answer counts."""
        return self.updates + self.timing.max_lead

    @property
    def shares(self) -> Counter[Fraction]:
        """The number of watched locations by the ε of an answer: ε_l/k."""
        return Counter(share / self.monitor.answers_per_window for share in self.monitor.compute_shares().values())

    @property
    def one_visit(self) -> Fraction:
        """The largest ε of an answer: a visit that is reported once is in at most one of them."""
        return max(self.shares)

    @property
    def visit_shares(self) -> Mapping[str, Fraction]:
        """The ε of an answer about each watched location: a visit that is reported once is in at most one of them."""
        answers = self.monitor.answers_per_window
        return {place: share / answers for place, share in self.monitor.compute_shares().items()}

    def ask(self) -> str:
        """Return whether fewer people than the threshold were there."""
        rhythm, window = spell_rhythm(self.timing.slot), spell_duration(self.monitor.window)
        return (
            f"At {_name_places(self.monitor.location_ids)}, {rhythm}: were fewer than {self.threshold} different "
            f"reported people there within the last {window}?"
        )

    def explain(self, charge: Charge) -> str:
        """Return how the number of noisy answers that count the visits of a period is computed."""
        window, max_lead, slots = self.updates, self.timing.max_lead, self.timing.period_slots
        mark_lifetime, k = window + max_lead, self.monitor.answers_per_window
        ticks = slots + mark_lifetime - 1
        full, rest = divmod(ticks, mark_lifetime)
        count = len(self.monitor.location_ids)
        shared = (
            f"A person may visit all {count} locations within each slot, so the whole ε of the monitor counts."
            if count > 1
            else "Its one location has the whole ε of the monitor."
        )
        return (
            f"A period of {spell_duration(self.timing.period)} that is not aligned with slots touches H = "
            f"{slots - 1} + 1 = {slots} slots. The window is W = {window} slots, a visit may end F = {max_lead} slots "
            f"after its report (accept_ahead and default_stay), and k = {k} noisy answers of a location may count at "
            "once (answers_per_window). So the visits in these slots are "
            f"in the counts of N = H + W + F - 1 = {ticks} ticks. These ticks have at most "
            f"k·⌊N/(W + F)⌋ + min(k, N mod (W + F)) = {k}·{full} + {min(k, rest)} noisy answers, "
            f"at ε/k = {self.monitor.epsilon / k} each: {charge.amount}. {shared}"
        )

    def describe_width(self) -> str:
        """Return the noise of a count."""
        return describe_noise(self.shares)

    def note(self) -> Note:
        """Return how long a pause lasts."""
        answers, duration = self.monitor.answers_per_window, self.ticks * self.timing.slot
        busy = compute_busy_share(answers, self.ticks)
        tree = {"ticks": self.ticks, "duration": format_duration(duration), "answers": answers, "busy_share": busy}
        text = (
            f"{self._describe_pause(duration)} A place so busy that each answer is an alarm answers "
            f"{format_percent(busy)} of the time."
        )
        return Note(tree, "How long a pause lasts", text, PAUSE, is_silence=True)

    def _describe_pause(self, duration: int) -> str:
        answers, ticks = self.monitor.answers_per_window, self.ticks
        length = f"W + F = {ticks} ticks ({spell_duration(duration)})"
        if answers == 1:
            return f"after a noisy answer the location is paused; the next answer comes {length} later at the earliest."
        last = ticks - answers + 1
        if last <= 1:
            return f"no pause: up to {answers} noisy answers in any {length}, so there may be one at every tick."
        after = spell_duration(duration // ticks * last)
        return (
            f"up to {answers} noisy answers in any {length}. After one, the location goes on and counts who was "
            f"reported since, until {answers} noisy answers count. If they come at consecutive ticks, the next answer "
            f"comes {last} ticks ({after}) after the last of them."
        )

    def list_useless_keys(self) -> Iterator[str]:
        """Yield a sentence if more answers are allowed than there are ticks for."""
        ticks = self.ticks
        if (answers := self.monitor.answers_per_window) > ticks:
            yield (
                f"answers_per_window is {answers}, but a noisy answer counts for only {ticks} "
                f"ticks, so more than {ticks} answers are never published, and only make each answer noisier. Set "
                f"it to {ticks} or less."
            )

    def find_other_share(self, delays: ReportDelays) -> Fraction:
        """Return the share of the visits in its window that one answer counts."""
        return delays.average_share(self.monitor.window)

    def describe_counted(self, in_time: str, other: str) -> str:
        """Return what is ever in the window, and what one answer counts of it."""
        return (
            f"{in_time} are reported while they are in the window. One answer counts "
            f"about {other} of the visits in its window."
        )

    def make_design(self) -> Design:
        """Return the design of Algorithm 3."""
        shares = [share / self.monitor.epsilon for share in self.monitor.compute_shares().values()]
        answers, slot = self.monitor.answers_per_window, self.timing.slot
        return design_over_time(slot, self.updates, self.timing.max_lead, answers, (min(shares), max(shares)))

    def list_changes(self) -> Iterator[tuple[str, Mapping[str, int]]]:
        """Yield one answer less and one more in a window."""
        for answers in (self.monitor.answers_per_window - 1, self.monitor.answers_per_window + 1):
            if answers >= 1:
                yield f"k = {answers}", {"answers_per_window": answers}


def design_over_time(
    slot: int,
    window: int,
    max_lead: int,
    answers: int,
    shares: tuple[Fraction, Fraction] = (Fraction(1), Fraction(1)),
) -> Design:
    """Return a design of Algorithm 3: one update per slot (docs/rules.md, section 3).

    Args:
        slot: the slot, in microseconds.
        window: W, in slots.
        max_lead: F, in slots.
        answers: k.
        shares: the smallest and the largest share of ε of any location: 1/m for m locations with equal shares.
    """
    smallest, largest = (share / answers for share in shares)
    return Design("over_time", slot, smallest, largest, window=window, max_lead=max_lead, answers=answers)


def _name_places(ids: Sequence[str]) -> str:
    count = f"{len(ids)} places" if len(ids) > 1 else "1 place"
    return f"{count} ({', '.join(ids)})" if len(ids) <= _NAMED else count


def _make_example(status: Status, tick: int, rule: OverTimeRule) -> OutputRecord:
    """Return the record of a tick. At tick 16 there is a noisy count. If k > 1, later counts begin after it."""
    mark = Mark(16, 12, rule.answer_epsilon, 16 + rule.mark_lifetime - 1)
    is_fresh = rule.answers > 1 and tick > mark.tick
    return make_over_time_record(
        source=SOURCE,
        monitor="places",
        location_id=STATION,
        rule=rule,
        tick=tick,
        as_of=GRID.as_of(tick),
        window_start=GRID.start(tick - rule.window + 1),
        answer=OverTimeAnswer(
            status, 12 if status == "noisy_count" else None, (mark,) if tick >= mark.tick else (), None
        ),
        resumes_at=GRID.as_of(mark.until + 1) if status == "paused" else None,
        counted_since=GRID.as_of(mark.tick) if is_fresh else None,
    )
