"""The most that one person may pay while owners of another configuration continue, and the charges in owner records.

The parameters watch place-0 and place-1 in "stations", ε_l = 1/2 each, W + F = 25, and asks about noon.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

import pytest

from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.locations import Registry
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.kinds.parameters import Parameters
from monitor.ledger.compute_payment import MAX_CHARGES_BYTES, PeriodPayments, declare_charges
from monitor.ledger.ledger_state import LedgerState, Spent
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.privacy.over_time import Mark
from monitor.privacy.payment_of_one_person import compute_at_times_payment, compute_over_time_payment
from monitor.records.charges_record import Charges
from monitor.records.fields import encode
from monitor.records.owner_record import make_ledger_record
from monitor.ticks.collect_answers import Decider
from monitor.ticks.owner import LedgerTopic, OwnerRecords
from monitor.time.instants import HOUR
from monitor.time.schedule import Schedule
from tests.builders import ORIGIN, replace_monitors, select
from tests.ticks.deciding import decide_complete

pytestmark = pytest.mark.long

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


def watch(parameters: Parameters, shares: Mapping[int, Fraction], name: str = "stations") -> Parameters:
    """Return parameters with one monitor that watches these rows at these ε_l."""
    rule = select(parameters, OverTime)[0].rules[0]
    rules = tuple(replace(rule, epsilon=epsilon) for epsilon in shares.values())
    return replace_monitors(parameters, over_time=(OverTime(name, tuple(shares), rules),))


def worst(parameters: Parameters) -> Fraction:
    """Return the most that one person may pay under the parameters alone, as `check` computes it."""
    slots, rules = parameters.period_slots, [rule for monitor in select(parameters, OverTime) for rule in monitor.rules]
    places = (
        compute_over_time_payment(rule.epsilon, rule.answers, rule.window, rule.max_lead, slots) for rule in rules
    )
    return sum(places, compute_at_times_payment(Fraction(1), 3 * len(select(parameters, AtTimes))))


def empty(partitions: int) -> dict[int, Spent]:
    return {partition: LedgerState().summarize_spent() for partition in range(partitions)}


def compute_total(
    parameters: Parameters, others: Mapping[int, Parameters], partitions: int = 1, tick: int = 12
) -> Fraction:
    charges = {partition: declare_charges(other) for partition, other in others.items()}
    return PeriodPayments(parameters, worst(parameters), empty(partitions), charges).compute_total(tick)


def halves(parameters: Parameters) -> Parameters:
    return watch(parameters, {0: HALF, 1: HALF})


def thirds(parameters: Parameters) -> Parameters:
    return watch(parameters, {0: THIRD, 1: THIRD, 2: THIRD})


class TestOthers:
    def test_total_alone_is_the_worst_case(self, parameters: Parameters) -> None:
        """Without answers and other owners the total is the worst case of the configuration."""
        assert compute_total(thirds(parameters), {}) == worst(thirds(parameters)) == worst(halves(parameters))

    def test_two_configurations_charge_the_larger_share(self, parameters: Parameters) -> None:
        """Two configurations may charge the larger share of each location: 1/2 at X and Y, 1/3 at Z."""
        new = thirds(parameters)
        assert compute_total(new, {0: halves(parameters)}) - 3 == Fraction(4, 3) * (worst(new) - 3)

    def test_owner_charges_in_its_partition_only(self, parameters: Parameters) -> None:
        """An owner may charge only the locations of its ledger partition."""
        new, old = thirds(parameters), halves(parameters)
        rows = {int(old.registry.shard[row]): row for row in (0, 1)}
        assert set(rows) == {0, 1}
        more = Fraction(1, 6) / 1 * (worst(new) - 3)
        assert [compute_total(new, {partition: old}, 2) for partition in (0, 1)] == [worst(new) + more] * 2

    def test_renamed_monitor_counts_in_full(self, parameters: Parameters) -> None:
        """A location under a renamed monitor counts in full, because both monitors answer."""
        new, old = halves(parameters), watch(parameters, {0: HALF, 1: HALF}, "bridges")
        assert compute_total(new, {0: old}) - 3 == 2 * (worst(new) - 3)

    def test_smaller_share_adds_nothing(self, parameters: Parameters) -> None:
        """A smaller share in the other configuration adds nothing."""
        assert compute_total(halves(parameters), {0: watch(parameters, {0: THIRD, 1: THIRD})}) == worst(
            halves(parameters)
        )

    def test_past_and_future_answers_add_up(self, parameters: Parameters) -> None:
        """At place-7, which only the other configuration watches, past answers count together with future ones."""
        new, old = halves(parameters), watch(parameters, {0: HALF, 7: HALF})
        state = LedgerState()
        state.spend("stations", "place-7", (Mark(11, 5, HALF, 35),))
        payments = PeriodPayments(new, worst(new), {0: state.summarize_spent()}, {0: declare_charges(old)})
        assert payments.compute_total(12) == worst(new) + (worst(new) - 3) / 2

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
    def test_excess_of_designated_times_is_added(
        self, epsilon: Fraction, at: tuple[str, ...], name: str, more: Fraction, parameters: Parameters
    ) -> None:
        """Of designated times only the excess is added, for each time of a period (the bound has more days)."""
        (noon,) = select(parameters, AtTimes)
        other = replace(noon, name=name, epsilon=epsilon, times=Schedule.of(at, "UTC"))
        old = replace_monitors(parameters, at_times=(other,))
        assert compute_total(parameters, {0: old, 1: old}, 2) == worst(parameters) + 6 * more

    @pytest.mark.parametrize(("at", "most"), [("Tue 12:10", 1), ("Tue,Sat 12:10", 2), ("Mon-Fri 12:10", 5)])
    def test_days_of_other_owners_count(self, at: str, most: int, parameters: Parameters) -> None:
        """A time of day on days of the week counts as often as its days occur in the dates of a period: six here."""
        (noon,) = select(parameters, AtTimes)
        other = replace(noon, name="weekly", times=Schedule.of((at,), "UTC"))
        old = replace_monitors(parameters, at_times=(other,))
        assert compute_total(parameters, {0: old, 1: old}, 2) == worst(parameters) + most

    @pytest.mark.promise(15)
    @pytest.mark.parametrize(
        ("others", "more"), [(("12:10", "12:20"), 2), (("12:10", "12:10"), 1), (("12:00", "12:10"), 1)]
    )
    def test_different_times_add_up(self, others: tuple[str, ...], more: int, parameters: Parameters) -> None:
        """
        Owners of three configurations ask about one time of day each. A person pays at each different instant.

            partition    0      1      2       one person
            time         12:10  12:20  12:00   pays 3 a day: at each time in another partition
            time         12:10  12:10  12:00   pays 2 a day: at 12:10 in one of the two partitions
        """
        (noon,) = select(parameters, AtTimes)
        running = {
            partition: replace_monitors(parameters, at_times=(replace(noon, times=Schedule.of((at,), "UTC")),))
            for partition, at in enumerate(others)
        }
        assert compute_total(parameters, running, 3) == worst(parameters) + 6 * more

    def test_no_date_while_others_run(self, parameters: Parameters) -> None:
        """While other owners run there is no date from which the sum fits."""
        payments = PeriodPayments(
            thirds(parameters), worst(thirds(parameters)), empty(1), {0: declare_charges(halves(parameters))}
        )
        assert payments.find_fitting_tick(worst(thirds(parameters)), 12) is None


class TestCutTick:
    """A tick of which the ledger contains a part, after a change of the configuration.

    Two places are watched at ε_l = 1, then at 1/2, with W = 1, F = 0 and periods of two slots. At tick 10 a hundred
    people are at both places, and nobody at tick 11. The second owner is stopped within tick 11, when the ledger has
    its answer "safe" about place-0 only.
    """

    @pytest.fixture
    def old(self, make_parameters: Callable[..., Parameters]) -> Parameters:
        return replace(make_parameters(places=2, window=1, threshold=60), period=HOUR)

    @pytest.fixture
    def new(self, old: Parameters) -> Parameters:
        return watch(old, {0: HALF, 1: HALF})

    def fold_cut_tick(self, old: Parameters, new: Parameters, answers: int = 1) -> LedgerState:
        """Return the state of a ledger with tick 10 of the old configuration, and these answers of the new one."""
        first = make_ledger_record(source="town", service="town", partitions=1, lost_at=None, partition=0, at=ORIGIN)
        state, noise = LedgerState(), OneSidedNoise(SeededEntropy(1))
        state.fold(first, old.grid)
        for parameters, tick, people, kept in ((old, 10, 100, 2), (new, 11, 0, answers)):
            announce(state, parameters)
            decision = decide_complete(Decider(parameters, [0], noise), tick, copy.deepcopy(state), people)
            for record in decision.records[:kept]:
                state.fold(record, old.grid)
        return state

    @pytest.mark.promise(15)
    @pytest.mark.parametrize(
        ("answers", "then", "most"),
        [(1, "same", Fraction(5, 2)), (2, "same", 2), (1, "other", 2), (1, "given up", 2)],
        ids=["cut", "whole", "cut, and another configuration", "cut, and given up"],
    )
    def test_rest_of_a_cut_tick_is_charged(
        self, answers: int, then: str, most: Fraction, old: Parameters, new: Parameters
    ) -> None:
        """The next owner may still draw 1/2 at place-1 at tick 11, unless the answer was published or is lost.

        slot       10          11
        place-0    1           "safe"
        place-1    1           1/2?         one period: 2, and 5/2 with the rest
        """
        state = self.fold_cut_tick(old, new, answers)
        following = old if then == "other" else new
        announce(state, following, incomplete=11 if then == "given up" else None)
        payments = PeriodPayments(new, Fraction(2), {0: state.summarize_spent()})
        assert payments.compute_total(11) == most
        assert payments.compute_total(12) == 2

    def test_only_watched_places_are_unanswered(self, old: Parameters, new: Parameters) -> None:
        """A place that the new configuration does not watch is not charged, unless its places are not recorded."""
        only_first = watch(new, {0: HALF})
        state = self.fold_cut_tick(old, only_first)
        announce(state, only_first)
        assert state.summarize_spent().unanswered == set()
        assert state.last_terms is not None
        charges = Charges(declare_charges(only_first).digest, only_first.max_lead, None, None)
        state.terms = state.last_terms = replace(state.last_terms, charges=charges)
        assert state.summarize_spent().unanswered == {("stations", "place-1")}


def announce(state: LedgerState, parameters: Parameters, incomplete: int | None = None) -> None:
    """Fold an owner record of a configuration, and one that gives a tick up."""
    topic = LedgerTopic("ledger", "ledger-1", "input-1", "fingerprint-1", ORIGIN)
    records = OwnerRecords(topic, parameters, lambda: ORIGIN)
    terms = records.update_terms(state.terms, 0)
    state.fold(records.build(terms, 0, incomplete=incomplete), parameters.grid)


class TestCharges:
    def test_digest_depends_on_charges_only(self, parameters: Parameters) -> None:
        """The digest depends on charges only, not on thresholds, delays or the registry."""
        rule = replace(select(parameters, OverTime)[0].rules[0], threshold=9)
        same = replace_monitors(
            parameters,
            over_time=(OverTime("stations", (0, 1), (rule, rule)),),
            release_delay=1,
            registry=Registry((*parameters.registry.ids, "place-9"), 4),
        )
        assert declare_charges(same) == declare_charges(parameters)
        (noon,) = select(parameters, AtTimes)
        changed = [
            thirds(parameters),
            watch(parameters, {0: HALF, 1: HALF}, "bridges"),
            replace(parameters, max_lead=0),
            replace_monitors(parameters, at_times=(replace(noon, horizon=7 * HOUR),)),
            replace_monitors(parameters, at_times=(replace(noon, epsilon=HALF),)),
            replace_monitors(parameters, at_times=(replace(noon, times=Schedule.of(("12:00",), "Asia/Tokyo")),)),
        ]
        assert len({declare_charges(variant).digest for variant in (parameters, *changed)}) == 1 + len(changed)

    def test_charges_are_declared_as_configured(self, parameters: Parameters) -> None:
        """Declared charges have the shares and times of the configuration."""
        charges = declare_charges(watch(parameters, {0: HALF, 1: THIRD, 2: HALF}))
        assert charges.places is not None
        assert charges.places[0].shares == {"1/2": ("place-0", "place-2"), "1/3": ("place-1",)}
        assert charges.times is not None
        assert (charges.times[0].kind, charges.times[0].at, charges.times[0].horizon) == (
            "at_times",
            ("12:00:00",),
            "6h",
        )

    def test_many_locations_declare_the_digest_only(self, parameters: Parameters) -> None:
        """With 100,000 locations only the digest is declared, so that an owner record always fits."""
        ids = tuple(f"place-{number}" for number in range(100_000))
        rules = select(parameters, OverTime)[0].rules[:1] * len(ids)
        wide = replace_monitors(
            parameters, registry=Registry(ids, 2), over_time=(OverTime("all", tuple(range(len(ids))), rules),)
        )
        charges = declare_charges(wide)
        assert (charges.places, charges.times) == (None, None)
        assert len(encode(charges)) < 100
        narrow = replace_monitors(wide, over_time=(OverTime("all", tuple(range(1_000)), rules[:1_000]),))
        assert declare_charges(narrow).places is not None
        assert len(encode(declare_charges(narrow))) <= MAX_CHARGES_BYTES

    def test_many_locations_are_checked(self, parameters: Parameters) -> None:
        """30,000 recently answered locations are checked together."""
        ids = tuple(f"place-{number}" for number in range(30_000))
        rule = select(parameters, OverTime)[0].rules[0]
        rules = (rule,) * len(ids)
        wide = replace_monitors(
            parameters, registry=Registry(ids, 2), over_time=(OverTime("all", tuple(range(len(ids))), rules),)
        )
        state = LedgerState()
        for number, location in enumerate(ids):
            state.spend("all", location, (Mark(number % 50, 5, HALF, number % 50 + rule.mark_lifetime - 1),))
        stated = worst(wide)
        PeriodPayments(wide, stated, {0: state.summarize_spent()}).require(stated, 50)
        assert isinstance(declare_charges(wide), Charges)
