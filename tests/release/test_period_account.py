"""What one person may pay in a period where another configuration's owners may go on, and what owner records say of it.

The scheme watches place-0 and place-1 in "stations", ε_l = 1/2 each, W + F = 25, and asks about noon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import msgspec
import pytest

from monitor.contracts.charges import Charges
from monitor.privacy.over_time import Mark
from monitor.privacy.payments import at_times_payment, over_time_payment
from monitor.public.instants import HOUR
from monitor.public.parameters import OverTime, Parameters, Registry
from monitor.public.schedule import Schedule
from monitor.release.declared_charges import MAX_CHARGES_BYTES, declare_charges
from monitor.release.period_account import PeriodAccount
from monitor.release.state import LedgerState, Spent

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


def watching(parameters: Parameters, shares: Mapping[int, Fraction], name: str = "stations") -> Parameters:
    """The scheme with one monitor that watches these rows at these ε_l."""
    rule = parameters.over_time[0].rules[0]
    rules = tuple(replace(rule, epsilon=epsilon) for epsilon in shares.values())
    return replace(parameters, over_time=(OverTime(name, tuple(shares), rules),))


def worst(parameters: Parameters) -> Fraction:
    """What one person may pay by the scheme alone: as `check` has it."""
    slots, rules = parameters.period_slots, [rule for monitor in parameters.over_time for rule in monitor.rules]
    places = (over_time_payment(rule.epsilon, rule.answers, rule.window, rule.max_lead, slots) for rule in rules)
    return sum(places, at_times_payment(Fraction(1), 3 * len(parameters.at_times)))


def empty(partitions: int) -> dict[int, Spent]:
    return {partition: LedgerState().spent() for partition in range(partitions)}


def total(parameters: Parameters, others: Mapping[int, Parameters], partitions: int = 1, tick: int = 12) -> Fraction:
    told = {partition: declare_charges(other) for partition, other in others.items()}
    return PeriodAccount(parameters, worst(parameters), empty(partitions), told).total(tick)


def halves(parameters: Parameters) -> Parameters:
    return watching(parameters, {0: HALF, 1: HALF})


def thirds(parameters: Parameters) -> Parameters:
    return watching(parameters, {0: THIRD, 1: THIRD, 2: THIRD})


class TestOthers:
    def test_alone_a_configuration_may_charge_its_worst_case(self, parameters: Parameters) -> None:
        """Nothing was published, and nobody else is an owner."""
        assert total(thirds(parameters), {}) == worst(thirds(parameters)) == worst(halves(parameters))

    def test_two_that_take_turns_may_charge_the_larger_of_both_at_each_place(self, parameters: Parameters) -> None:
        """A half at X and Y, a third at Z: 4/3 of what either states for places; noon they have in common."""
        new = thirds(parameters)
        assert total(new, {0: halves(parameters)}) - 3 == Fraction(4, 3) * (worst(new) - 3)

    def test_an_owner_answers_in_its_own_partition_alone(self, parameters: Parameters) -> None:
        """Of two: place-0 and place-1 lie in different ones, so where the other owns one, one place is at a half."""
        new, old = thirds(parameters), halves(parameters)
        rows = {int(old.registry.shard[row]): row for row in (0, 1)}
        assert set(rows) == {0, 1}
        more = Fraction(1, 6) / 1 * (worst(new) - 3)
        assert [total(new, {partition: old}, 2) for partition in (0, 1)] == [worst(new) + more] * 2

    def test_a_place_that_only_the_other_watches_counts_in_full(self, parameters: Parameters) -> None:
        """A renamed monitor is another one: each answers by itself."""
        new, old = halves(parameters), watching(parameters, {0: HALF, 1: HALF}, "bridges")
        assert total(new, {0: old}) - 3 == 2 * (worst(new) - 3)

    def test_a_smaller_share_of_the_other_adds_nothing(self, parameters: Parameters) -> None:
        """The larger of both is this configuration's own."""
        assert total(halves(parameters), {0: watching(parameters, {0: THIRD, 1: THIRD})}) == worst(halves(parameters))

    def test_what_the_other_answered_counts_with_what_it_may_answer_yet(self, parameters: Parameters) -> None:
        """At place-7, which only the other one watches: it was answered just now, and again in W + F ticks."""
        new, old = halves(parameters), watching(parameters, {0: HALF, 7: HALF})
        state = LedgerState()
        state.spend("stations", "place-7", (Mark(11, 5, HALF, 35),))
        account = PeriodAccount(new, worst(new), {0: state.spent()}, {0: declare_charges(old)})
        assert account.total(12) == worst(new) + (worst(new) - 3) / 2

    @pytest.mark.parametrize(
        ("epsilon", "at", "name", "more"),
        [
            (Fraction(1), ("12:00",), "noon", 0),
            (HALF, ("12:00",), "noon", 0),
            (Fraction(3, 2), ("12:00",), "noon", HALF),
            (Fraction(1), ("12:00",), "midday", 1),
            (Fraction(1), ("13:00",), "noon", 1),
        ],
    )
    def test_of_designated_times_only_what_this_one_does_not_charge_is_added(
        self, epsilon: Fraction, at: tuple[str, ...], name: str, more: Fraction, parameters: Parameters
    ) -> None:
        """For each time of a period; of more days than it has, to be safe. Whichever partitions they own."""
        (noon,) = parameters.at_times
        asked = replace(noon, name=name, epsilon=epsilon, times=Schedule.of(at, "UTC"))
        old = replace(parameters, at_times=(asked,))
        assert total(parameters, {0: old, 1: old}, 2) == worst(parameters) + 6 * more

    def test_with_others_no_date_is_told(self, parameters: Parameters) -> None:
        """They go on for as long as they like."""
        account = PeriodAccount(
            thirds(parameters), worst(thirds(parameters)), empty(1), {0: declare_charges(halves(parameters))}
        )
        assert account.fits_from(worst(thirds(parameters)), 12) is None


class TestCharges:
    def test_equal_charges_have_equal_digests_and_others_do_not(self, parameters: Parameters) -> None:
        """Thresholds, delays and the registry charge nobody."""
        rule = replace(parameters.over_time[0].rules[0], threshold=9)
        same = replace(
            parameters,
            over_time=(OverTime("stations", (0, 1), (rule, rule)),),
            release_delay=1,
            registry=Registry((*parameters.registry.ids, "place-9"), 4),
        )
        assert declare_charges(same) == declare_charges(parameters)
        (noon,) = parameters.at_times
        changed = [
            thirds(parameters),
            watching(parameters, {0: HALF, 1: HALF}, "bridges"),
            replace(parameters, max_lead=0),
            replace(parameters, at_times=(replace(noon, horizon=7 * HOUR),)),
            replace(parameters, at_times=(replace(noon, epsilon=HALF),)),
            replace(parameters, at_times=(replace(noon, times=Schedule.of(("12:00",), "Asia/Tokyo")),)),
        ]
        assert len({declare_charges(each).digest for each in (parameters, *changed)}) == 1 + len(changed)

    def test_they_are_told_as_configured(self, parameters: Parameters) -> None:
        told = declare_charges(watching(parameters, {0: HALF, 1: THIRD, 2: HALF}))
        assert told.places is not None
        assert told.places[0].shares == {"1/2": ("place-0", "place-2"), "1/3": ("place-1",)}
        assert told.times is not None
        assert (told.times[0].kind, told.times[0].at, told.times[0].horizon) == ("at_times", ("12:00:00",), "6h")

    def test_with_a_hundred_thousand_places_the_digest_alone_is_told(self, parameters: Parameters) -> None:
        """An owner record fits the least that the topic takes, however much is watched."""
        ids = tuple(f"place-{number}" for number in range(100_000))
        rules = parameters.over_time[0].rules[:1] * len(ids)
        wide = replace(
            parameters, registry=Registry(ids, 2), over_time=(OverTime("all", tuple(range(len(ids))), rules),)
        )
        told = declare_charges(wide)
        assert (told.places, told.times) == (None, None)
        assert len(msgspec.json.encode(told)) < 100
        narrow = replace(wide, over_time=(OverTime("all", tuple(range(1_000)), rules[:1_000]),))
        assert declare_charges(narrow).places is not None
        assert len(msgspec.json.encode(declare_charges(narrow))) <= MAX_CHARGES_BYTES

    def test_an_unchanged_configuration_of_many_places_is_checked_in_a_moment(self, parameters: Parameters) -> None:
        """A hundred thousand places, each answered not long ago."""
        ids = tuple(f"place-{number}" for number in range(100_000))
        rule = parameters.over_time[0].rules[0]
        rules = (rule,) * len(ids)
        wide = replace(
            parameters, registry=Registry(ids, 2), over_time=(OverTime("all", tuple(range(len(ids))), rules),)
        )
        state = LedgerState()
        for number, location in enumerate(ids):
            state.spend("all", location, (Mark(number % 50, 5, HALF, number % 50 + rule.mark_lifetime - 1),))
        stated = worst(wide)
        PeriodAccount(wide, stated, {0: state.spent()}).require(stated, 50)
        assert isinstance(declare_charges(wide), Charges)
