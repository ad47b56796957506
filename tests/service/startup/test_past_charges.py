"""The preflight check of charges by answers of earlier configurations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from monitor.errors import PeriodError
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState
from monitor.privacy.over_time import Mark
from monitor.service.preflight import check_past_charges
from tests.builders import replace_monitors
from tests.service.startup.ledger_states import noon, state_with_answers, states_with_marks
from tests.topic_fixtures import TopicSet

HALF = Fraction(1, 2)


@pytest.fixture
def parameters(parameters: Parameters, topic: Callable[[str], str]) -> Parameters:
    """The parameters with a name of its own, because `topics --create` looks for groups that ran before."""
    return replace(parameters, name=topic(parameters.name))


class TestMarks:
    """The parameters watch place-0 and place-1 in "stations", ε_l = 1/2 each, W + F = 25; each charges at most 2."""

    def test_marks_within_present_shares_add_nothing(self, parameters: Parameters) -> None:
        """Marks within the present shares are part of the worst case."""
        marks = {("stations", f"place-{row}"): (Mark(10, 5, HALF, 34),) for row in (0, 1)}
        check_past_charges(parameters, states_with_marks(marks), Fraction(4), Fraction(4), 12)

    @pytest.mark.promise(15)
    def test_marks_of_removed_monitor_are_added(self, parameters: Parameters) -> None:
        """
        Marks of a removed monitor are added; the message has the sum and the date from which it fits.

        Two places of the removed monitor "bridges" were answered at 1/2 each; "stations" may charge 4 within a period.

            slot         11 …   21 …                 106       116
            place-2      1/2                                      the last slots whose visits they counted
            place-3             1/2
            period 1     # # #  # # # …                           visits are counted up to tick 106: 1 + 4
            period 2            # # # …                           up to tick 116: 1/2 + 4
            at tick 32   3 of 25 ticks of the first mark are left, at tick 42 of the second: 1 + 3 and 1/2 + 3
        """
        marks = {
            ("bridges", "place-2"): (Mark(10, 5, HALF, 20),),
            ("bridges", "place-3"): (Mark(20, 5, HALF, 45),),
        }
        with pytest.raises(PeriodError) as raised:
            check_past_charges(parameters, states_with_marks(marks), Fraction(9, 2), Fraction(4), 22)
        message = str(raised.value)
        assert "privacy.epsilon is 9/2, and one person may pay 4 under this configuration and 1 more" in message
        assert "4 + 1 = 5, which is 1/2 too much" in message
        assert "This configuration would fit from 2026-01-02T08:00:00Z on" in message
        check_past_charges(parameters, states_with_marks(marks), Fraction(9, 2), Fraction(4), 32)
        with pytest.raises(PeriodError, match="This configuration would fit from 2026-01-02T18:00:00Z on"):
            check_past_charges(parameters, states_with_marks(marks), Fraction(4), Fraction(4), 32)
        check_past_charges(parameters, states_with_marks(marks), Fraction(4), Fraction(4), 42)
        check_past_charges(parameters, states_with_marks(marks), Fraction(5), Fraction(4), 22)

    @pytest.mark.parametrize(
        ("marks", "more"),
        [
            ([(("stations", "place-7"), HALF)], "1/2"),
            ([(("stations", "place-0"), Fraction(3, 4))], "1/4"),
            ([(("bridges", "place-2"), HALF), (("bridges", "place-3"), HALF)], "1"),
        ],
        ids=["of a place that its monitor no longer watches", "above the present share", "of all ledger partitions"],
    )
    def test_marks_outside_the_worst_case_are_added(
        self, marks: list[tuple[tuple[str, str], Fraction]], more: str, parameters: Parameters
    ) -> None:
        """What the present configuration would not charge is added. A person may be in the counts of all partitions."""
        states = [state for key, epsilon in marks for state in states_with_marks({key: (Mark(10, 5, epsilon, 34),)})]
        with pytest.raises(PeriodError, match=f" {more} more for answers"):
            check_past_charges(parameters, states, Fraction(4), Fraction(4), 12)

    def test_longer_window_lengthens_marks(self, parameters: Parameters) -> None:
        """A longer window lengthens the lifetime of earlier marks.

        Under W + F = 3 the mark expired at tick 12. Under 25 it runs until tick 34, and 3/2 may follow. From tick 32 on
        the other place can also charge only 3/2 in a period that contains the mark.
        """
        marks = {("stations", "place-0"): (Mark(10, 5, Fraction(1), 12),)}
        with pytest.raises(
            PeriodError, match=r"4 \+ 1/2 = 9/2,.*This configuration would fit from 2026-01-02T08:00:00Z on"
        ):
            check_past_charges(parameters, states_with_marks(marks), Fraction(4), Fraction(4), 20)

    @pytest.mark.promise(15)
    def test_expired_marks_count_within_a_period(self, parameters: Parameters) -> None:
        """
        Expired marks count while a period contains the visits that they charged.

        For three days place-7 was answered every two hours at ε = 1, and then removed. Each mark runs for two hours, so
        all have expired. One period contains 33 of them, and future answers may cost 4.
        """
        marks = {("bridges", "place-7"): tuple(Mark(tick, 5, Fraction(1), tick + 1) for tick in range(0, 72, 2))}
        with pytest.raises(PeriodError, match=r"4 \+ 33 = 37"):
            check_past_charges(parameters, states_with_marks(marks), Fraction(10), Fraction(4), 72)
        with pytest.raises(PeriodError):
            check_past_charges(parameters, states_with_marks(marks), Fraction(10), Fraction(4), 72 + 40)
        check_past_charges(parameters, states_with_marks(marks), Fraction(10), Fraction(4), 72 + 97)

    def test_answers_on_real_ledger_are_added(
        self, parameters: Parameters, published: Callable[..., None], topic_set: TopicSet
    ) -> None:
        """Charges of answers on a real ledger are added.

        Two places were answered at tick 10, 1/2 each; then their monitor was removed. Visits at noon are charged for 8
        hours. A period that begins in slot 11 contains visits up to slot 83, which may be charged at tick 90.
        """
        published(10)
        without = replace_monitors(parameters, over_time=())
        states = topic_set.preflight(without).states
        with pytest.raises(PeriodError, match=r"1 \+ 1 = 2, which is 1 too much.*from 2026-01-04T19:00:00Z on"):
            check_past_charges(without, states, Fraction(1), Fraction(1), 11)
        check_past_charges(without, states, Fraction(1), Fraction(1), 91)
        check_past_charges(parameters, states, Fraction(1), Fraction(1), 11)


class TestTimes:
    """The monitor "noon" answers about 12:00 each day at ε = 1; a period of 3 days contains 3 noons: at most 3."""

    WORST = Fraction(3)

    def check(
        self, parameters: Parameters, state: LedgerState, stated: Fraction | int, hour: int, day: int = 3
    ) -> None:
        states = (LedgerState(), state)
        check_past_charges(parameters, states, Fraction(stated), self.WORST, 24 * day + hour)

    def test_answers_of_present_monitors_add_nothing(self, parameters: Parameters) -> None:
        """Answers of present monitors are part of the worst case."""
        state = state_with_answers(parameters, *(("at_times", "noon", day, Fraction(1)) for day in range(4)))
        self.check(parameters, state, 3, hour=13)

    @pytest.mark.promise(15)
    @pytest.mark.parametrize("kind", ["at_times", "hot_spots"])
    def test_renamed_monitor_draws_again(self, kind: str, parameters: Parameters) -> None:
        """
        A monitor with another name or kind draws again for each time within its horizon.

        On day 3 at 13:00 "noon" replaced "midday", or a hot_spots monitor "noon".

            noon of day   0  1  2  3  4      any period of three days
            midday        1  1  1  1         3
            noon                   1  1 …    3 + 1, until 18:00
        """
        name = "midday" if kind == "at_times" else "noon"
        state = state_with_answers(parameters, *((kind, name, day, Fraction(1)) for day in range(4)))
        with pytest.raises(PeriodError) as raised:
            self.check(parameters, state, 3, hour=13)
        assert "3 + 1 = 4, which is 1 too much" in str(raised.value)
        assert "This configuration would fit from 2026-01-04T18:00:00Z on" in str(raised.value)
        self.check(parameters, state, 4, hour=13)
        with pytest.raises(PeriodError):
            self.check(parameters, state, 3, hour=17)
        self.check(parameters, state, 3, hour=18)

    def test_answers_of_removed_monitor_are_added(self, parameters: Parameters) -> None:
        """
        Answers of a removed monitor count while a period can contain their times.

        "noon" is removed, and windows reach back 26 slots.

            a visit of day 6, 12:00, may be charged until day 7, 13:00; no period contains it and noon of day 3
            noon of day   1        3
            excess        1        1      2, from day 5, 13:00 on 1, from day 7, 13:00 on 0
        """
        state = state_with_answers(parameters, *(("at_times", "noon", day, Fraction(1)) for day in (1, 3)))
        with pytest.raises(PeriodError, match=r"2 more.*This configuration would fit from 2026-01-06T13:00:00Z on"):
            self.check(replace_monitors(parameters, at_times=()), state, 4, hour=18)
        with pytest.raises(PeriodError, match=r"This configuration would fit from 2026-01-08T13:00:00Z on"):
            self.check(replace_monitors(parameters, at_times=()), state, 3, hour=18)
        self.check(replace_monitors(parameters, at_times=()), state, 3, hour=13, day=7)

    @pytest.mark.promise(15)
    def test_excess_counts_within_one_period(self, parameters: Parameters) -> None:
        """Five noons at 3/2 instead of 1 add 1/2 for each of the three noons in a period."""
        state = state_with_answers(parameters, *(("at_times", "noon", day, Fraction(3, 2)) for day in range(5)))
        with pytest.raises(PeriodError, match=r"3 \+ 3/2 = 9/2"):
            self.check(parameters, state, 3, hour=13, day=4)
        self.check(parameters, state, Fraction(9, 2), hour=13, day=4)

    def test_smaller_epsilon_counts_as_present(self, parameters: Parameters) -> None:
        """A smaller ε counts as the present one: locations without a noisy answer are answered at the present ε."""
        self.check(parameters, state_with_answers(parameters, ("at_times", "noon", 3, HALF)), 3, hour=13)

    def test_shards_of_one_time_count_once(self, parameters: Parameters) -> None:
        """Answers of several shards about one time count once, because a person was in one place."""
        states = [
            state_with_answers(parameters, ("at_times", "midday", 3, Fraction(1)), shard=shard) for shard in (0, 1)
        ]
        with pytest.raises(PeriodError, match=r"3 \+ 1 = 4,"):
            check_past_charges(parameters, states, Fraction(3), self.WORST, 24 * 3 + 13)

    def test_expired_records_count_as_present_monitors(self, parameters: Parameters) -> None:
        """Expired records count as answers of present monitors, so their loss makes no room for removed ones."""
        state = state_with_answers(parameters, ("at_times", "midday", 3, Fraction(1)))
        self.check(parameters, state, 3, hour=18)
        state.expired_until = noon(parameters, 3) + 1
        with pytest.raises(PeriodError, match="1 more for answers"):
            self.check(parameters, state, 3, hour=18)

    def test_without_a_period_all_answers_count(self, parameters: Parameters) -> None:
        """Without a period all answers in the ledger count."""
        state = state_with_answers(parameters, ("at_times", "morning", 1, Fraction(1)))
        gone = replace_monitors(parameters, at_times=(), period=0)
        with pytest.raises(PeriodError, match=r"raise privacy\.epsilon$"):
            check_past_charges(gone, [state], Fraction(3), self.WORST, 24 * 300)
        check_past_charges(gone, [state], Fraction(4), self.WORST, 24 * 300)
