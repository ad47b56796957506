"""Compute what one person may pay in a period (docs/rules.md, section 6).

The sum covers the published answers and the answers that owners may still publish. Owner records contain the charges of
their configurations. This module is pure: `monitor.ticks.check_payment_in_period` reads the ledger for it.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Final

from monitor.errors import PeriodError
from monitor.kinds.base.charged_times import ChargedTimes
from monitor.kinds.base.keys_and_parameters import Monitor
from monitor.kinds.locations import find_shard
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import Spent, find_later
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.over_time import Mark
from monitor.privacy.payment_across_changes import Bound, PaidAnswer, Place, compute_most_paid
from monitor.privacy.upper_bound import compute_most_numbers
from monitor.records.charges_record import Charges, TimeCharges
from monitor.records.fields import encode, read_epsilon
from monitor.time.instants import DAY, format_instant
from monitor.time.times_of_day import read_time_of_day

MAX_CHARGES_BYTES: Final = 64 * 1024
"""The size limit of encoded charges, in bytes. An owner record must fit the lowest allowed `max.message.bytes`."""

_DIGITS: Final = 16


def declare_charges(parameters: Parameters) -> Charges:
    """Return the charges of a configuration; only their digest and F if they are too large for an owner record."""
    places = tuple(each for monitor in parameters.monitors for each in monitor.declare_places(parameters.registry))
    times = tuple(times.declare() for times in parameters.charged_times)
    whole = encode([parameters.max_lead, places, times])
    charges = Charges(hashlib.sha256(whole).hexdigest()[:_DIGITS], parameters.max_lead, places, times)
    if len(encode(charges)) <= MAX_CHARGES_BYTES:
        return charges
    return Charges(charges.digest, parameters.max_lead, None, None)


_BEGINNING: Final = -(2**62)
_ENDLESS: Final = 2**62

_MonitorKey = tuple[str, str]  # a monitor's kind and name


class CarriedOverTimes:
    """The designated times with published answers, compared with the worst case of this configuration.

    A monitor that was renamed, or whose kind has changed, draws again for every time within its horizon. The ε of the
    earlier answers still counts while one period may contain visits that these and the new answers charge.

    Args:
        parameters: the parameters of the service. Without a period, a payment counts while the ledger contains it.
        states: what each ledger partition has spent.
    """

    def __init__(self, parameters: Parameters, states: Sequence[Spent]) -> None:
        self._parameters = parameters
        self._period = parameters.period or _ENDLESS
        self._monitors: dict[_MonitorKey, ChargedTimes] = {
            (times.kind, times.name): times for times in parameters.charged_times
        }
        self._paid: dict[int, dict[_MonitorKey, Fraction]] = {}
        for state in states:
            for (kind, name, time), epsilon in state.charged.items():
                # A person is at one place at a time, so only the answer of one shard charges them.
                paid = self._paid.setdefault(time, {})
                paid[kind, name] = max(epsilon, paid.get((kind, name), epsilon))
        self._times = sorted(self._paid)
        known_from = None
        for state in states:
            known_from = find_later(known_from, state.lost_at)
        self._known_from = _BEGINNING if known_from is None else known_from

    def compute_excess(self, tick: int) -> Fraction:
        """Return the largest ε by which the times of one period exceed the worst case, from a tick on.

        Only periods that contain visits which an answer from this tick on may still charge are counted.
        """
        last_past = self._find_oldest_chargeable(tick) - self._period
        times = self._times[bisect_left(self._times, last_past + 1) :]
        sums = list(accumulate((self._compute_excess_at(time, tick) for time in times), initial=Fraction(0)))
        ends = (bisect_left(times, time + self._period) for time in times)
        return max((sums[end] - sums[begin] for begin, end in enumerate(ends)), default=Fraction(0))

    def list_change_ticks(self) -> Iterator[int]:
        """Yield the ticks at which the excess may fall: a time becomes final, or no period contains it any more."""
        grid = self._parameters.grid
        horizons = {monitor.horizon for monitor in self._monitors.values()}
        for time in self._times:
            yield from (grid.find_slot(time + horizon) for horizon in horizons)
            if self._period != _ENDLESS:
                yield grid.find_slot(time + self._period - 1) + self._parameters.history_slots

    def _find_oldest_chargeable(self, tick: int) -> int:
        """Return the earliest instant of a visit that this configuration may still charge."""
        return self._parameters.grid.start(tick + 1 - self._parameters.history_slots)

    def _compute_excess_at(self, time: int, tick: int) -> Fraction:
        """Return the ε that was or may still be paid for one time, minus the worst case of this configuration."""
        current = {
            key: monitor for key, monitor in self._monitors.items() if monitor.times.find_between(time, time + 1).size
        }
        answered = self._paid[time]
        excess = sum((epsilon for key, epsilon in answered.items() if key not in current), Fraction(0))
        for key, monitor in current.items():
            paid = answered.get(key)
            if time + monitor.horizon >= self._parameters.grid.as_of(tick):
                paid = max(monitor.epsilon, paid or Fraction(0))
            elif paid is None:
                # No answer was published, unless its record has been lost.
                paid = Fraction(0) if time >= self._known_from else monitor.epsilon
            excess += paid - monitor.epsilon
        return max(excess, Fraction(0))


_Watched = tuple[str, str]  # a monitor and a location
_Times = tuple[str, str, str]  # the kind and name of a monitor, and the digest of its designated times


class PeriodPayments:
    """The most that one person may pay in any period that contains visits which a later answer may still charge.

    Args:
        parameters: the parameters of the service.
        worst: what one person may pay under this configuration alone.
        spent: what was spent, by ledger partition.
        others: by partition, the charges of an owner with another configuration. That owner may answer instead of this
            instance or in turns with it.
    """

    def __init__(
        self,
        parameters: Parameters,
        worst: Fraction,
        spent: Mapping[int, Spent],
        others: Mapping[int, Charges] | None = None,
    ) -> None:
        self._parameters = parameters
        self._worst = worst
        self._spent = spent
        self._others = others or {}
        self._carried_over = CarriedOverTimes(parameters, tuple(spent.values()))

    def compute_total(self, tick: int) -> Fraction:
        """Return the most that one person may pay, if no tick before `tick` will be decided any more."""
        others = self._carried_over.compute_excess(tick) + self._other_times_total + self._other_buckets_total
        if self._is_unchanged:
            return self._worst + others
        places = [place.without_answers_before(tick) for place in self._places]
        over_time = compute_most_paid(places, self._parameters.period_slots, tick + 1 - self._oldest)
        return self._worst + max(Fraction(0), over_time - self._own) + others

    def find_fitting_tick(self, stated: Fraction, tick: int) -> int | None:
        """Return the first tick at which the total fits, if no tick is decided until then; None if it never fits."""
        parameters = self._parameters
        last = max((paid.last for place in self._places for paid in place.paid), default=tick)
        changes = self._carried_over.list_change_ticks()
        end = max(last + parameters.memory_slots + parameters.max_lead + 1, *changes, tick)
        if self._others or self.compute_total(end) > stated:
            return None
        return bisect_left(range(tick, end), 1, key=lambda at: int(self.compute_total(at) <= stated)) + tick

    def attribute_to_monitors(self, tick: int) -> dict[str, Fraction]:
        """Return, by name of a monitor, by how much the total would be smaller without its published answers.

        Monitors whose answers the worst case of this configuration covers are left out. The amounts need not add up to
        the excess, because different monitors may add the most in different periods.
        """
        names = {monitor for spent in self._spent.values() for monitor, _location in spent.marks}
        names |= {monitor for spent in self._spent.values() for _kind, monitor, _time in spent.charged}
        total = self.compute_total(tick)
        without = {name: total - self._remove_monitor(name).compute_total(tick) for name in sorted(names)}
        return {name: amount for name, amount in without.items() if amount > 0}

    def _remove_monitor(self, name: str) -> PeriodPayments:
        """Return the payments without the published answers of the monitors of this name."""
        spent = {
            partition: replace(
                of_partition,
                marks={key: marks for key, marks in of_partition.marks.items() if key[0] != name},
                charged={key: epsilon for key, epsilon in of_partition.charged.items() if key[1] != name},
            )
            for partition, of_partition in self._spent.items()
        }
        return PeriodPayments(self._parameters, self._worst, spent, self._others)

    def require(self, stated: Fraction, tick: int) -> None:
        """Check that the total is at most the stated ε.

        Raises:
            PeriodError: the total is larger; the message contains the sum and the time at which it would fit.
        """
        total, worst = self.compute_total(tick), self._worst
        if total <= stated:
            return
        fits = self.find_fitting_tick(stated, tick)
        from_instant = None if fits is None else format_instant(self._parameters.grid.start(fits))
        when = "" if fits is None else f". This configuration would fit from {from_instant} on"
        names = ", ".join(self.attribute_to_monitors(tick))
        of_monitors = f" (of {names})" if names else ""
        raise PeriodError(
            f"privacy.epsilon is {format_epsilon(stated)}, and one person may pay {format_epsilon(worst)} under this "
            f"configuration and {format_epsilon(total - worst)} more for answers that were published under an earlier "
            f"one{of_monitors}: {format_epsilon(worst)} + {format_epsilon(total - worst)} = {format_epsilon(total)}, "
            f"which is {format_epsilon(total - stated)} too much. Keep the earlier configuration, or raise "
            f"privacy.epsilon{when}"
        )

    @cached_property
    def _own(self) -> Fraction:
        """What one person may pay at all places under this configuration alone."""
        slots, bounds = self._parameters.period_slots, Counter(self._bounds.values())
        return sum((bound.compute_most_in_slots(slots) * times for bound, times in bounds.items()), Fraction(0))

    @cached_property
    def _bounds(self) -> dict[_Watched, Bound]:
        """The bounds of this configuration."""
        return {key: _find_bound(rule) for key, rule in self._parameters.place_rules.items()}

    @cached_property
    def _other_bounds(self) -> dict[_Watched, Bound]:
        """The bounds of other configurations, in the partitions that they own."""
        return {
            (monitor.monitor, place): _to_bound(
                read_epsilon(epsilon), monitor.answers, monitor.window, charges.max_lead
            )
            for partition, charges in self._others.items()
            for monitor in charges.places or ()
            if monitor.bucket is None
            for epsilon, places in monitor.shares.items()
            for place in places
            if self._find_partition(place) == partition
        }

    @cached_property
    def _other_buckets_total(self) -> Fraction:
        """The ε that other configurations may charge for buckets at all places, in addition to this one.

        A bucket has one number, whichever owner draws it. So the charges of an equal monitor count once.
        """
        parameters = self._parameters
        own = [each for monitor in parameters.monitors for each in monitor.declare_places(parameters.registry)]
        return sum(
            (
                read_epsilon(epsilon)
                / monitor.answers
                * compute_most_numbers(monitor.bucket, monitor.window, charges.max_lead, parameters.period_slots)
                for partition, charges in self._others.items()
                for monitor in charges.places or ()
                if monitor.bucket is not None and (monitor not in own or charges.max_lead != parameters.max_lead)
                for epsilon, places in monitor.shares.items()
                for place in places
                if self._find_partition(place) == partition
            ),
            Fraction(0),
        )

    def _find_partition(self, place: str) -> int:
        return find_shard(place, self._parameters.registry.shards) % len(self._spent)

    @property
    def _oldest(self) -> int:
        """The number of past slots whose visits a later answer may still charge."""
        return max([self._parameters.history_slots, *(bound.window for bound in self._other_bounds.values())])

    @cached_property
    def _places(self) -> tuple[Place, ...]:
        marked = {
            key: spent for spent in self._spent.values() for key in spent.marks if self._list_uncovered(key, spent)
        }
        keys = marked.keys() | self._bounds.keys() | self._other_bounds.keys()
        return tuple(self._build_place(key, marked.get(key)) for key in keys)

    def _build_place(self, key: _Watched, spent: Spent | None) -> Place:
        own, other = self._bounds.get(key), self._other_bounds.get(key)
        bound = own.combine(other) if own is not None and other is not None else own or other
        if spent is None:
            return Place((), bound, _BEGINNING)
        mark_lifetime = 0 if bound is None else bound.mark_lifetime
        paid = (
            PaidAnswer.of(mark, self._parameters.max_lead if max_lead is None else max_lead, mark_lifetime)
            for mark, max_lead in self._list_uncovered(key, spent)
        )
        begins = _BEGINNING if spent.last_tick is None else spent.last_tick + (key not in spent.unanswered)
        return Place(tuple(paid), bound, begins)

    def _list_uncovered(self, key: _Watched, spent: Spent) -> list[tuple[Mark, int | None]]:
        """Return the marks of a place that the charge of its present monitor does not include, each with its F."""
        monitor = self._monitors.get(key[0])
        if monitor is None:
            return list(spent.marks[key])
        registry = self._parameters.registry
        return [(mark, lead) for mark, lead in spent.marks[key] if not monitor.covers(registry, key[1], mark)]

    @cached_property
    def _monitors(self) -> Mapping[str, Monitor]:
        return {monitor.name: monitor for monitor in self._parameters.monitors}

    @cached_property
    def _is_unchanged(self) -> bool:
        """Whether all answers were published under this configuration. Then its worst case covers them."""
        return not self._others and all(place.is_steady for place in self._places)

    @cached_property
    def _other_times_total(self) -> Fraction:
        """The ε that other configurations may charge for the designated times of a period, in addition to this one."""
        own = {_identify(times.declare()): times.epsilon for times in self._parameters.charged_times}
        totals: dict[_Times, Fraction] = {}
        for time in self._list_other_times():
            key = _identify(time)
            more = max(Fraction(0), time.epsilon - own.get(key, Fraction(0)))
            # A person is at one place at an instant, so one partition charges them for it. At different instants they
            # may be in several partitions, so different schedules add up.
            totals[key] = max(totals.get(key, Fraction(0)), more * self._count_max_times(time))
        return sum(totals.values(), Fraction(0))

    def _list_other_times(self) -> Iterator[TimeCharges]:
        for charges in self._others.values():
            yield from charges.times or ()

    def _count_max_times(self, time: TimeCharges) -> int:
        """Return an upper bound of the times in a period: 1 for each instant, and the days of each time of day.

        A period touches its days + 3 consecutive dates at most, in any zone and if clocks change.
        """
        dates = self._parameters.period // DAY + 3
        read = map(read_time_of_day, time.at)
        return sum(1 if one is None else one.count_most(dates) for one in read)


def _identify(time: TimeCharges) -> _Times:
    return time.kind, time.monitor, time.instants


_find_bound = lru_cache(maxsize=1024)(Bound.of)


def _to_bound(epsilon: Fraction, answers: int, window: int, max_lead: int) -> Bound:
    return Bound(epsilon, epsilon / answers, window, max_lead, window + max_lead)
