"""Charges carried over from earlier configurations, for answers about designated times (docs/rules.md, section 6).

A monitor that was renamed, or whose kind has changed, draws again for every time within its horizon. The ε of the
earlier answers still counts while one period may contain visits that these and the new answers charge.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Final, Literal

from monitor.contracts.parameters import Charged, Parameters
from monitor.ticks.state import Spent, find_later

_BEGINNING: Final = -(2**62)
_ENDLESS: Final = 2**62

_MonitorKey = tuple[Literal["at_times", "hot_spots", "at_least", "dwell"], str]  # a monitor's kind and name


class CarriedOverTimes:
    """The designated times with published answers, compared with the worst case of this configuration.

    Args:
        parameters: the parameters of the service. Without a period, a payment counts while the ledger contains it.
        states: what each ledger partition has spent.
    """

    def __init__(self, parameters: Parameters, states: Sequence[Spent]) -> None:
        self._parameters = parameters
        self._period = parameters.period or _ENDLESS
        self._monitors: dict[_MonitorKey, Charged] = {
            **{("at_times", monitor.name): monitor for monitor in parameters.at_times},
            **{("hot_spots", monitor.name): monitor for monitor in parameters.hot_spots},
            **{("at_least", monitor.name): monitor for monitor in parameters.at_least},
            **{("dwell", monitor.name): monitor for monitor in parameters.dwell},
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
