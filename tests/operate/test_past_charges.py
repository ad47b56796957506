"""What answers of earlier configurations still charge, as the preflight checks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from monitor.errors import PeriodError
from monitor.operate.preflight import Preflight, check_past_charges
from monitor.privacy.over_time import Mark
from monitor.public.parameters import Parameters
from monitor.release.state import LedgerState
from tests.operate.ledger_states import noon, state_with_answers, states_with_marks

HALF = Fraction(1, 2)


class TestMarks:
    """The scheme watches place-0 and place-1 in "stations", ε_l = 1/2 each, W + F = 25; at worst each charges 2."""

    def test_marks_within_the_present_shares_charge_nothing_more(self, parameters: Parameters) -> None:
        """They are in the configuration's worst case."""
        marks = {("stations", f"place-{row}"): (Mark(10, 5, HALF, 34),) for row in (0, 1)}
        check_past_charges(parameters, states_with_marks(marks), Fraction(4), Fraction(4), 12)

    def test_a_removed_monitors_marks_are_added_with_the_sum_and_the_date(self, parameters: Parameters) -> None:
        """
        Half an ε each was answered at two places of "bridges", which is gone; "stations" may charge 4 within a period.

            slot         11 …   21 …                 106       116
            place-2      1/2                                      the last slots whose visits they counted
            place-3             1/2
            period 1     # # #  # # # …                           its visits are counted up to tick 106: 1 + 4
            period 2            # # # …                           up to tick 116: 1/2 + 4
            at tick 32   3 of 25 ticks are left of the one, at tick 42 of the other: 1 + 3 and 1/2 + 3
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
        assert "It would fit from 2026-01-02T08:00:00Z on" in message
        check_past_charges(parameters, states_with_marks(marks), Fraction(9, 2), Fraction(4), 32)
        with pytest.raises(PeriodError, match="It would fit from 2026-01-02T18:00:00Z on"):
            check_past_charges(parameters, states_with_marks(marks), Fraction(4), Fraction(4), 32)
        check_past_charges(parameters, states_with_marks(marks), Fraction(4), Fraction(4), 42)
        check_past_charges(parameters, states_with_marks(marks), Fraction(5), Fraction(4), 22)

    def test_a_removed_locations_marks_are_added_too(self, parameters: Parameters) -> None:
        """The monitor is still there, place-7 is not in it any more."""
        marks = {("stations", "place-7"): (Mark(10, 5, HALF, 34),)}
        with pytest.raises(PeriodError, match="1/2 more by answers"):
            check_past_charges(parameters, states_with_marks(marks), Fraction(4), Fraction(4), 12)

    def test_of_a_smaller_share_only_the_excess_is_added(self, parameters: Parameters) -> None:
        """An answer at 3/4, where the present share is 1/2: 1/4 more."""
        marks = {("stations", "place-0"): (Mark(10, 5, Fraction(3, 4), 34),)}
        with pytest.raises(PeriodError, match="1/4 more by answers"):
            check_past_charges(parameters, states_with_marks(marks), Fraction(4), Fraction(4), 12)

    def test_a_longer_window_lengthens_what_runs(self, parameters: Parameters) -> None:
        """The mark had run out under W + F = 3 at tick 12; under 25 it runs until tick 34, and 3/2 may follow.

        From tick 32 on the other place can charge only 3/2 as well in a period that holds the mark.
        """
        marks = {("stations", "place-0"): (Mark(10, 5, Fraction(1), 12),)}
        with pytest.raises(PeriodError, match=r"4 \+ 1/2 = 9/2,.*It would fit from 2026-01-02T08:00:00Z on"):
            check_past_charges(parameters, states_with_marks(marks), Fraction(4), Fraction(4), 20)

    def test_marks_of_every_partition_are_added(self, parameters: Parameters) -> None:
        """A person may have been in the counts of locations of all of them."""
        states = [
            *states_with_marks({("bridges", "place-2"): (Mark(10, 5, HALF, 34),)}),
            *states_with_marks({("bridges", "place-3"): (Mark(10, 5, HALF, 34),)}),
        ]
        with pytest.raises(PeriodError, match="1 more by answers"):
            check_past_charges(parameters, states, Fraction(4), Fraction(4), 12)

    def test_marks_that_have_run_out_count_while_a_period_holds_what_they_charged(self, parameters: Parameters) -> None:
        """
        For three days place-7 was answered each second hour, at ε = 1; then it was left out.

        The marks run for two hours each, so all have run out. One period holds 33 of them, and what may yet cost 4.
        """
        marks = {("bridges", "place-7"): tuple(Mark(tick, 5, Fraction(1), tick + 1) for tick in range(0, 72, 2))}
        with pytest.raises(PeriodError, match=r"4 \+ 33 = 37"):
            check_past_charges(parameters, states_with_marks(marks), Fraction(10), Fraction(4), 72)
        with pytest.raises(PeriodError):
            check_past_charges(parameters, states_with_marks(marks), Fraction(10), Fraction(4), 72 + 40)
        check_past_charges(parameters, states_with_marks(marks), Fraction(10), Fraction(4), 72 + 97)

    def test_what_was_published_on_a_real_ledger_is_added(
        self, preflight: Callable[[Parameters], Preflight], parameters: Parameters, published: Callable[..., None]
    ) -> None:
        """Two places answered at tick 10, 1/2 each; their monitor was removed, and noon's visits are charged for 8 h.

        A period that begins in slot 11 holds visits up to slot 83, which may be charged at tick 90.
        """
        published(10)
        without = replace(parameters, over_time=())
        states = preflight(without).states
        with pytest.raises(PeriodError, match=r"1 \+ 1 = 2, which is 1 too much.*from 2026-01-04T19:00:00Z on"):
            check_past_charges(without, states, Fraction(1), Fraction(1), 11)
        check_past_charges(without, states, Fraction(1), Fraction(1), 91)
        check_past_charges(parameters, states, Fraction(1), Fraction(1), 11)


class TestTimes:
    """The monitor "noon" asks about 12:00 each day for 6 hours, ε = 1; a period of 3 days holds 3: the worst is 3."""

    WORST = Fraction(3)

    def check(
        self, parameters: Parameters, state: LedgerState, stated: Fraction | int, hour: int, day: int = 3
    ) -> None:
        states = (LedgerState(), state)
        check_past_charges(parameters, states, Fraction(stated), self.WORST, 24 * day + hour)

    def test_answers_of_the_monitors_that_are_there_are_in_the_worst_case(self, parameters: Parameters) -> None:
        state = state_with_answers(parameters, *(("at_times", "noon", day, Fraction(1)) for day in range(4)))
        self.check(parameters, state, 3, hour=13)

    @pytest.mark.parametrize("kind", ["at_times", "hot_spots"])
    def test_a_monitor_under_another_name_or_of_another_kind_draws_anew_about_every_time_in_its_horizon(
        self, kind: str, parameters: Parameters
    ) -> None:
        """
        "midday" became "noon" on day 3 at 13:00; or "noon" did, which was one of hot spots.

            noon of day   0  1  2  3  4      any period of three days
            midday        1  1  1  1         3
            noon                   1  1 …    3 + 1, until 18:00
        """
        name = "midday" if kind == "at_times" else "noon"
        state = state_with_answers(parameters, *((kind, name, day, Fraction(1)) for day in range(4)))
        with pytest.raises(PeriodError) as raised:
            self.check(parameters, state, 3, hour=13)
        assert "3 + 1 = 4, which is 1 too much" in str(raised.value)
        assert "It would fit from 2026-01-04T18:00:00Z on" in str(raised.value)
        self.check(parameters, state, 4, hour=13)
        with pytest.raises(PeriodError):
            self.check(parameters, state, 3, hour=17)
        self.check(parameters, state, 3, hour=18)

    def test_a_removed_monitors_answers_count_while_a_period_can_hold_them(self, parameters: Parameters) -> None:
        """
        "noon" is gone, and windows reach back 26 slots.

            a visit of day 6, 12:00, may be charged for until day 7, 13:00; no period holds it and noon of day 3
            noon of day   1        3
            excess        1        1      2, from day 5, 13:00 on 1, from day 7, 13:00 on 0
        """
        state = state_with_answers(parameters, *(("at_times", "noon", day, Fraction(1)) for day in (1, 3)))
        with pytest.raises(PeriodError, match=r"2 more.*It would fit from 2026-01-06T13:00:00Z on"):
            self.check(replace(parameters, at_times=()), state, 4, hour=18)
        with pytest.raises(PeriodError, match=r"It would fit from 2026-01-08T13:00:00Z on"):
            self.check(replace(parameters, at_times=()), state, 3, hour=18)
        self.check(replace(parameters, at_times=()), state, 3, hour=13, day=7)

    def test_of_a_larger_epsilon_the_excess_counts_and_no_more_of_them_than_a_period_holds(
        self, parameters: Parameters
    ) -> None:
        """Five noons were answered at 3/2, where the configuration holds 1 for each: 1/2 more for each of three."""
        state = state_with_answers(parameters, *(("at_times", "noon", day, Fraction(3, 2)) for day in range(5)))
        with pytest.raises(PeriodError, match=r"3 \+ 3/2 = 9/2"):
            self.check(parameters, state, 3, hour=13, day=4)
        self.check(parameters, state, Fraction(9, 2), hour=13, day=4)

    def test_a_smaller_epsilon_counts_as_the_present_one(self, parameters: Parameters) -> None:
        """A place that was not noisy yet is answered at the present ε, and a person is at one place at a time."""
        self.check(parameters, state_with_answers(parameters, ("at_times", "noon", 3, HALF)), 3, hour=13)

    def test_shards_answer_about_one_time_and_a_person_was_in_one_of_them(self, parameters: Parameters) -> None:
        states = [
            state_with_answers(parameters, ("at_times", "midday", 3, Fraction(1)), shard=shard) for shard in (0, 1)
        ]
        with pytest.raises(PeriodError, match=r"3 \+ 1 = 4,"):
            check_past_charges(parameters, states, Fraction(3), self.WORST, 24 * 3 + 13)

    def test_what_has_expired_may_have_been_answered_by_the_monitors_that_are_there(
        self, parameters: Parameters
    ) -> None:
        """Else its absence would make room for the answers of one that is gone."""
        state = state_with_answers(parameters, ("at_times", "midday", 3, Fraction(1)))
        self.check(parameters, state, 3, hour=18)
        state.expired_until = noon(parameters, 3) + 1
        with pytest.raises(PeriodError, match="1 more by answers"):
            self.check(parameters, state, 3, hour=18)

    def test_without_a_period_all_counts_that_the_ledger_tells(self, parameters: Parameters) -> None:
        state = state_with_answers(parameters, ("at_times", "morning", 1, Fraction(1)))
        gone = replace(parameters, at_times=(), period=0)
        with pytest.raises(PeriodError, match=r"state more$"):
            check_past_charges(gone, [state], Fraction(3), self.WORST, 24 * 300)
        check_past_charges(gone, [state], Fraction(4), self.WORST, 24 * 300)
