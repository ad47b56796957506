"""Upper bounds on the sizes of output records, in bytes. The output topic must accept records of these sizes.

Records repeat state: the record of a place contains all of its running marks, and a snapshot contains all noisy counts
of its shard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.kinds.parameters import Parameters
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.over_time import OverTimeRule

LARGEST_OF_ONE_PLACE: Final = 1_000_000
"""The maximum bytes of a place's record, which is written at every tick. Brokers accept this size by default."""

LARGEST_SNAPSHOT: Final = 32 * 1024 * 1024
"""The maximum bytes of a snapshot or of a hot-spots record: half of the largest request."""

SNAPSHOT_OVERHEAD: Final = 1_024
_PLACE_OVERHEAD: Final = 4_096  # the id of the place occurs up to four times, with escaped quotes
_LOCATION: Final = 60
_TICK: Final = 14
_NOISY_COUNT: Final = 20
_MARK: Final = len('{"tick":,"noisy_count":,"epsilon":"","until":},') + 2 * _TICK + _NOISY_COUNT


def mark_bytes(epsilon: Fraction) -> int:
    """Return the maximum bytes of one running mark of this ε in a record."""
    return _MARK + len(format_epsilon(epsilon))


def measure_place(rule: OverTimeRule, running: Iterable[Fraction] = ()) -> int:
    """Return the maximum bytes of a place's record.

    Args:
        rule: the present rule. It limits the number of its running marks by ε_l and by the mark lifetime.
        running: the ε of each running mark, which may come from an earlier rule. A mark that takes more bytes per ε
            than an answer under the present rule increases the bound.
    """
    epsilon, each = rule.answer_epsilon, mark_bytes(rule.answer_epsilon)
    kept = heavier = 0
    for mark_epsilon, times in Counter(running).items():
        kept += times * mark_bytes(mark_epsilon)
        heavier += times * max(0, mark_bytes(mark_epsilon) - int(each * mark_epsilon / epsilon))
    return _PLACE_OVERHEAD + max(kept, min(rule.answers, rule.mark_lifetime) * each + heavier)


def find_max_answers_per_record(rule: OverTimeRule) -> int:
    """Return the largest `answers_per_window` at which this place's record has at most `LARGEST_OF_ONE_PLACE` bytes.

    The result assumes that the ε of one answer has as many digits as under the present `answers_per_window`.
    """
    return (LARGEST_OF_ONE_PLACE - _PLACE_OVERHEAD) // mark_bytes(rule.answer_epsilon)


def measure_snapshots(parameters: Parameters) -> list[int]:
    """Return the maximum bytes of each shard's snapshot, in which every place has a noisy count."""
    sizes = _measure_snapshot_locations(parameters)
    return [SNAPSHOT_OVERHEAD + int(sizes[rows].sum()) for rows in parameters.registry.by_shard]


def measure_hot_spots(parameters: Parameters, top: int) -> int:
    """Return the maximum bytes of a hot-spots record that names `top` places."""
    return SNAPSHOT_OVERHEAD + int(np.sort(_measure_locations(parameters))[-top:].sum())


def estimate_shards(parameters: Parameters, limit: int) -> int:
    """Return the approximate number of shards with which each snapshot fits in `limit` bytes."""
    return max(1, -(-int(_measure_snapshot_locations(parameters).sum()) // (limit - SNAPSHOT_OVERHEAD)))


def measure_largest_record(parameters: Parameters) -> int:
    """Return the maximum bytes of any record of this configuration."""
    places = (measure_place(rule) for monitor in parameters.over_time for rule in set(monitor.rules))
    hot_spots = (measure_hot_spots(parameters, monitor.top) for monitor in parameters.hot_spots)
    snapshots = measure_snapshots(parameters) if parameters.at_times else []
    return max((*snapshots, *places, *hot_spots, SNAPSHOT_OVERHEAD))


def _measure_snapshot_locations(parameters: Parameters) -> NDArray[np.int64]:
    """Return the maximum bytes of each place in a snapshot: its noisy count, and its lower bound if there are any."""
    sizes = _measure_locations(parameters)
    return 2 * sizes if parameters.at_least else sizes


def _measure_locations(parameters: Parameters) -> NDArray[np.int64]:
    return parameters.registry.json_lengths + _LOCATION
