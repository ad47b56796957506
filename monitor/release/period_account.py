"""What one person may pay in a period, by what was published and by whom more may be (docs/rules.md, section 6).

Pure: `monitor.release.period_check` reads the ledger for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

from monitor.contracts.charges import Charges, TimeCharges
from monitor.errors import PeriodError
from monitor.privacy.epsilon import format_epsilon, parse_recorded
from monitor.privacy.periods import Bound, PaidAnswer, Place, most_paid
from monitor.public.instants import DAY, format_instant
from monitor.public.parameters import Parameters, shard_of
from monitor.release.carried_over import CarriedOverTimes
from monitor.release.declared_charges import declare_times
from monitor.release.state import Spent

_EVER: Final = -(2**62)

_Watched = tuple[str, str]  # a monitor and a location


class PeriodAccount:
    """What one person may pay at most in any period that a later answer still charges.

    Args:
        parameters: what is watched.
        worst: what one person may pay by this configuration alone.
        spent: what each of the ledger's partitions tells.
        others: by partition, what its owner may charge by another configuration, in place of this one or in turns.
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
        self._times = CarriedOverTimes(parameters, tuple(spent.values()))

    def total(self, tick: int) -> Fraction:
        """The most that one person may pay, where no tick before this one is decided any more."""
        times = self._times.excess(tick) + self._times_of_others
        if self._unchanged:
            return self._worst + times
        places = [place.later(tick) for place in self._places]
        over_time = most_paid(places, self._parameters.period_slots, tick + 1 - self._oldest)
        return self._worst + max(Fraction(0), over_time - self._own) + times

    def fits_from(self, stated: Fraction, tick: int) -> int | None:
        """The first tick from `tick` on at which the total is what is stated, if nothing is answered until then."""
        last = max((paid.last for place in self._places for paid in place.paid), default=tick)
        end = max(last + self._parameters.memory_slots + self._parameters.max_lead + 1, *self._times.changes(), tick)
        if self._others or self.total(end) > stated:
            return None
        return bisect_left(range(tick, end), 1, key=lambda at: int(self.total(at) <= stated)) + tick

    def require(self, stated: Fraction, tick: int) -> None:
        """See that no more is paid than is stated.

        Raises:
            PeriodError: with the sum, and the time at which it would fit.
        """
        total, worst = self.total(tick), self._worst
        if total <= stated:
            return
        fits = self.fits_from(stated, tick)
        when = "" if fits is None else f". It would fit from {format_instant(self._parameters.grid.start(fits))} on"
        raise PeriodError(
            f"privacy.epsilon is {format_epsilon(stated)}, and one person may pay {format_epsilon(worst)} under this "
            f"configuration and {format_epsilon(total - worst)} more by answers that were published under an earlier "
            f"one: {format_epsilon(worst)} + {format_epsilon(total - worst)} = {format_epsilon(total)}, which is "
            f"{format_epsilon(total - stated)} too much. Keep the earlier configuration, or state more{when}"
        )

    @cached_property
    def _own(self) -> Fraction:
        """What one person may pay at all places by this configuration alone."""
        slots, bounds = self._parameters.period_slots, Counter(self._bounds.values())
        return sum((bound.steady(slots) * times for bound, times in bounds.items()), Fraction(0))

    @cached_property
    def _bounds(self) -> dict[_Watched, Bound]:
        """What this configuration allows."""
        return {
            (monitor.name, self._parameters.registry.ids[row]): _bound_of(rule)
            for monitor in self._parameters.over_time
            for row, rule in zip(monitor.rows, monitor.rules, strict=True)
        }

    @cached_property
    def _bounds_of_others(self) -> dict[_Watched, Bound]:
        """What the owners of other configurations allow where they are owners."""
        return {
            (each.monitor, place): _bound(parse_recorded(epsilon), each.answers, each.window, charges.ahead)
            for partition, charges in self._others.items()
            for each in charges.places or ()
            for epsilon, places in each.shares.items()
            for place in places
            if self._partition(place) == partition
        }

    def _partition(self, place: str) -> int:
        return shard_of(place, self._parameters.registry.shards) % len(self._spent)

    @property
    def _oldest(self) -> int:
        """How many slots back a later answer may charge a visit."""
        return max([self._parameters.history_slots, *(bound.window for bound in self._bounds_of_others.values())])

    @cached_property
    def _places(self) -> tuple[Place, ...]:
        marked = {key: spent for spent in self._spent.values() for key in spent.marks}
        keys = marked.keys() | self._bounds.keys() | self._bounds_of_others.keys()
        return tuple(self._place(key, marked.get(key)) for key in keys)

    def _place(self, key: _Watched, spent: Spent | None) -> Place:
        own, other = self._bounds.get(key), self._bounds_of_others.get(key)
        bound = own.combine(other) if own is not None and other is not None else own or other
        if spent is None:
            return Place((), bound, _EVER)
        mark_lifetime = 0 if bound is None else bound.mark_lifetime
        paid = (
            PaidAnswer.of(mark, self._parameters.max_lead if max_lead is None else max_lead, mark_lifetime)
            for mark, max_lead in spent.marks[key]
        )
        return Place(tuple(paid), bound, _EVER if spent.last_tick is None else spent.last_tick + 1)

    @cached_property
    def _unchanged(self) -> bool:
        """Whether all was answered as this configuration answers: then its own worst case holds it."""
        return not self._others and all(place.is_steady for place in self._places)

    @cached_property
    def _times_of_others(self) -> Fraction:
        """What others may charge for the designated times of a period, where this configuration does not."""
        own = {(time.kind, time.monitor): time for time in map(declare_times, self._parameters.timed)}
        asked: dict[tuple[str, str], Fraction] = {}
        for time in self._all_times_of_others():
            key, epsilon = (time.kind, time.monitor), parse_recorded(time.epsilon)
            mine = own.get(key)
            if mine is not None and mine.instants == time.instants:
                epsilon = max(Fraction(0), epsilon - parse_recorded(mine.epsilon))
            # Of several partitions only one has the place where a person was.
            asked[key] = max(asked.get(key, Fraction(0)), epsilon * self._most_times(time))
        return sum(asked.values(), Fraction(0))

    def _all_times_of_others(self) -> Iterator[TimeCharges]:
        for charges in self._others.values():
            yield from charges.times or ()

    def _most_times(self, time: TimeCharges) -> int:
        """More times than any period holds: its days and two, for each time of day, and all single instants."""
        days = self._parameters.period // DAY + 3
        return sum(1 if "T" in at else days for at in time.at)


_bound_of = lru_cache(maxsize=1024)(Bound.of)


def _bound(epsilon: Fraction, answers: int, window: int, max_lead: int) -> Bound:
    return Bound(epsilon, epsilon / answers, window, max_lead, window + max_lead)
