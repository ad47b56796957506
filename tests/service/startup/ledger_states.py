"""States of a ledger, built from marks or from answers."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from monitor.kinds.at_times.record import NoisyCount, make_at_times_record
from monitor.kinds.hot_spots.record import make_hot_spots_record
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState
from monitor.privacy.over_time import Mark

HALF = Fraction(1, 2)


def states_with_marks(marks: Mapping[tuple[str, str], tuple[Mark, ...]]) -> list[LedgerState]:
    """Return the states of a ledger of one partition with these marks."""
    state = LedgerState()
    for (monitor, location), spent in marks.items():
        state.spend(monitor, location, spent)
    return [state]


def state_with_answers(parameters: Parameters, *answers: tuple[str, str, int, Fraction], shard: int = 0) -> LedgerState:
    """Return the state of a ledger with these answers: (kind, monitor, day, ε), each at noon of a day from 0."""
    state = LedgerState()
    for kind, monitor, day, epsilon in sorted(answers, key=lambda answer: answer[2]):
        tick = 24 * day + 12
        as_of = parameters.grid.as_of(tick)
        common: dict[str, Any] = {
            "source": "town",
            "monitor": monitor,
            "time": noon(parameters, day),
            "tick": tick,
            "as_of": as_of,
            "registry": "0" * 64,
            "locations": 4,
            "epsilon": epsilon,
        }
        if kind == "at_times":
            snapshot: dict[str, Any] = {"shard": shard, "shards": 2, "threshold": 3, "complete": True, "final": False}
            record = make_at_times_record(**common, **snapshot, noisy_counts={f"place-{shard}": NoisyCount(tick, 5)})
        else:
            record = make_hot_spots_record(**common, top=1, hot_spots=[("place-0", 5)])
        state.fold(record, parameters.grid)
    return state


def noon(parameters: Parameters, day: int) -> int:
    return parameters.grid.start(24 * day + 12)
