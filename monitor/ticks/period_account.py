"""Compute what one person may pay in a period (docs/rules.md, section 6).

The sum covers the published answers and the answers that owners may still publish. This module is pure:
`monitor.ticks.period_check` reads the ledger for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

from monitor.contracts.charges import Charges, TimeCharges
from monitor.contracts.instants import DAY, format_instant
from monitor.contracts.parameters import Parameters, find_shard
from monitor.errors import PeriodError
from monitor.privacy.epsilon import format_epsilon, parse_recorded
from monitor.privacy.periods import Bound, PaidAnswer, Place, compute_most_paid
from monitor.ticks.carried_over import CarriedOverTimes
from monitor.ticks.declared_charges import declare_times
from monitor.ticks.state import Spent

_BEGINNING: Final = -(2**62)

_Watched = tuple[str, str]  # a monitor and a location
_Times = tuple[str, str, str]  # the kind and name of a monitor, and the digest of its designated times


class PeriodAccount:
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
        times = self._carried_over.compute_excess(tick) + self._other_times_total
        if self._is_unchanged:
            return self._worst + times
        places = [place.without_answers_before(tick) for place in self._places]
        over_time = compute_most_paid(places, self._parameters.period_slots, tick + 1 - self._oldest)
        return self._worst + max(Fraction(0), over_time - self._own) + times

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

    def _remove_monitor(self, name: str) -> PeriodAccount:
        """Return the account without the published answers of the monitors of this name."""
        spent = {
            partition: replace(
                of_partition,
                marks={key: marks for key, marks in of_partition.marks.items() if key[0] != name},
                charged={key: epsilon for key, epsilon in of_partition.charged.items() if key[1] != name},
            )
            for partition, of_partition in self._spent.items()
        }
        return PeriodAccount(self._parameters, self._worst, spent, self._others)

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
        return {
            (monitor.name, self._parameters.registry.ids[row]): _find_bound(rule)
            for monitor in self._parameters.over_time
            for row, rule in zip(monitor.rows, monitor.rules, strict=True)
        }

    @cached_property
    def _other_bounds(self) -> dict[_Watched, Bound]:
        """The bounds of other configurations, in the partitions that they own."""
        return {
            (monitor.monitor, place): _to_bound(parse_recorded(epsilon), monitor.answers, monitor.window, charges.ahead)
            for partition, charges in self._others.items()
            for monitor in charges.places or ()
            for epsilon, places in monitor.shares.items()
            for place in places
            if self._find_partition(place) == partition
        }

    def _find_partition(self, place: str) -> int:
        return find_shard(place, self._parameters.registry.shards) % len(self._spent)

    @property
    def _oldest(self) -> int:
        """The number of past slots whose visits a later answer may still charge."""
        return max([self._parameters.history_slots, *(bound.window for bound in self._other_bounds.values())])

    @cached_property
    def _places(self) -> tuple[Place, ...]:
        marked = {key: spent for spent in self._spent.values() for key in spent.marks}
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
            for mark, max_lead in spent.marks[key]
        )
        return Place(tuple(paid), bound, _BEGINNING if spent.last_tick is None else spent.last_tick + 1)

    @cached_property
    def _is_unchanged(self) -> bool:
        """Whether all answers were published under this configuration. Then its worst case covers them."""
        return not self._others and all(place.is_steady for place in self._places)

    @cached_property
    def _other_times_total(self) -> Fraction:
        """The ε that other configurations may charge for the designated times of a period, in addition to this one."""
        own = {_identify(time): parse_recorded(time.epsilon) for time in map(declare_times, self._parameters.charged)}
        totals: dict[_Times, Fraction] = {}
        for time in self._list_other_times():
            key = _identify(time)
            more = max(Fraction(0), parse_recorded(time.epsilon) - own.get(key, Fraction(0)))
            # A person is at one place at an instant, so one partition charges them for it. At different instants they
            # may be in several partitions, so different schedules add up.
            totals[key] = max(totals.get(key, Fraction(0)), more * self._count_max_times(time))
        return sum(totals.values(), Fraction(0))

    def _list_other_times(self) -> Iterator[TimeCharges]:
        for charges in self._others.values():
            yield from charges.times or ()

    def _count_max_times(self, time: TimeCharges) -> int:
        """Return an upper bound of the times in a period: (its days + 3) per time of day, and 1 per single instant."""
        days = self._parameters.period // DAY + 3
        return sum(1 if "T" in at else days for at in time.at)


def _identify(time: TimeCharges) -> _Times:
    return time.kind, time.monitor, time.instants


_find_bound = lru_cache(maxsize=1024)(Bound.of)


def _to_bound(epsilon: Fraction, answers: int, window: int, max_lead: int) -> Bound:
    return Bound(epsilon, epsilon / answers, window, max_lead, window + max_lead)
