"""What answers about designated times cost that the present configuration would not have given (section 6).

A monitor that is renamed or becomes one of another kind draws anew about every time within its horizon; and what was
paid for earlier answers, at whatever ε, stays paid for as long as a period holds visits of both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Final, Literal

from monitor.public.parameters import Parameters, Timed
from monitor.release.state import Spent, later

_NEVER: Final = -(2**62)
_EVER: Final = 2**62

_Asking = tuple[Literal["at_times", "hot_spots"], str]  # a monitor's kind and name


class CarriedOverTimes:
    """The designated times that were answered about, against what the configuration's worst case holds for each.

    Args:
        parameters: what is watched. Without a period what was paid counts for as long as the ledger tells it.
        states: what each partition tells.
    """

    def __init__(self, parameters: Parameters, states: Sequence[Spent]) -> None:
        self._parameters = parameters
        self._period = parameters.period or _EVER
        self._monitors: dict[_Asking, Timed] = {
            **{("at_times", monitor.name): monitor for monitor in parameters.at_times},
            **{("hot_spots", monitor.name): monitor for monitor in parameters.hot_spots},
        }
        self._paid: dict[int, dict[_Asking, Fraction]] = {}
        for state in states:
            for (kind, name, time), epsilon in state.charged.items():
                # A person is at one place at a time, so of several shards' answers about it only one is theirs.
                paid = self._paid.setdefault(time, {})
                paid[kind, name] = max(epsilon, paid.get((kind, name), epsilon))
        self._times = sorted(self._paid)
        known_from = None
        for state in states:
            known_from = later(known_from, state.lost_at)
        self._known_from = _NEVER if known_from is None else known_from

    def excess(self, tick: int) -> Fraction:
        """The most by which the times of one period exceed what the worst case holds for them, from a tick on.

        Only periods count that hold visits which may still be charged for.
        """
        last_past = self._oldest_chargeable(tick) - self._period
        times = self._times[bisect_left(self._times, last_past + 1) :]
        sums = list(accumulate((self._excess_at(time, tick) for time in times), initial=Fraction(0)))
        ends = (bisect_left(times, time + self._period) for time in times)
        return max((sums[end] - sums[begin] for begin, end in enumerate(ends)), default=Fraction(0))

    def changes(self) -> Iterator[int]:
        """The ticks at which the excess may fall: a time is evaluated no more, or no period holds it any more."""
        grid = self._parameters.grid
        horizons = {monitor.horizon for monitor in self._monitors.values()}
        for time in self._times:
            yield from (grid.slot_of(time + horizon) for horizon in horizons)
            if self._period != _EVER:
                yield grid.slot_of(time + self._period - 1) + self._parameters.history_slots

    def _oldest_chargeable(self, tick: int) -> int:
        """The earliest instant at which a visit may have been that the present configuration still charges for."""
        return self._parameters.grid.start(tick + 1 - self._parameters.history_slots)

    def _excess_at(self, time: int, tick: int) -> Fraction:
        """What was and may yet be paid for one time, less what the configuration's worst case holds for it."""
        asking = {key: monitor for key, monitor in self._monitors.items() if monitor.times.between(time, time + 1).size}
        answered = self._paid[time]
        excess = sum((epsilon for key, epsilon in answered.items() if key not in asking), Fraction(0))
        for key, monitor in asking.items():
            paid = answered.get(key)
            if time + monitor.horizon >= self._parameters.grid.as_of(tick):
                paid = max(monitor.epsilon, paid or Fraction(0))
            elif paid is None:
                # Not answered, if all that was answered is still there to be read.
                paid = Fraction(0) if time >= self._known_from else monitor.epsilon
            excess += paid - monitor.epsilon
        return max(excess, Fraction(0))
