"""The largest size of the records of a configuration, in bytes: the output topic must accept them.

Records repeat state: the record of a place repeats its running marks, and a snapshot repeats all noisy places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

import msgspec

from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.over_time import OverTimeRule
from monitor.public.parameters import Parameters

LARGEST_OF_ONE_PLACE: Final = 1_000_000
"""The maximum bytes of a place's record. It is written at every tick, and brokers accept this size by default."""

LARGEST_SNAPSHOT: Final = 32 * 1024 * 1024
"""The maximum bytes of a snapshot or of a hot-spots record: half of the largest request."""

SNAPSHOT_OVERHEAD: Final = 1_024
_PLACE_OVERHEAD: Final = 4_096  # its id occurs up to four times, with escaped quotes
_LOCATION: Final = 60
_TICK: Final = 14
_NOISY_COUNT: Final = 20
_MARK: Final = len('{"tick":,"noisy_count":,"epsilon":"","until":},') + 2 * _TICK + _NOISY_COUNT


def mark_bytes(epsilon: Fraction) -> int:
    """Return the maximum bytes of one running mark of this ε in a record."""
    return _MARK + len(format_epsilon(epsilon))


def place_bytes(rule: OverTimeRule, running: Iterable[Fraction] = ()) -> int:
    """Return the maximum bytes of a place's record.

    Args:
        rule: the present rule. Under it as many answers run as fit into ε_l and into the window.
        running: the ε of each running mark, perhaps of an earlier rule. A mark that takes more bytes per ε than the
            present answers increases the bound.
    """
    epsilon, each = rule.answer_epsilon, mark_bytes(rule.answer_epsilon)
    kept = heavier = 0
    for mark_epsilon, times in Counter(running).items():
        kept += times * mark_bytes(mark_epsilon)
        heavier += times * max(0, mark_bytes(mark_epsilon) - int(each * mark_epsilon / epsilon))
    return _PLACE_OVERHEAD + max(kept, min(rule.answers, rule.mark_lifetime) * each + heavier)


def max_answers_per_record(rule: OverTimeRule) -> int:
    """Return the largest `answers_per_window` at which this place's record has at most `LARGEST_OF_ONE_PLACE` bytes.

    The bound reserves the digits that the ε of one answer has under the present `answers_per_window`.
    """
    return (LARGEST_OF_ONE_PLACE - _PLACE_OVERHEAD) // mark_bytes(rule.answer_epsilon)


def snapshot_bytes(parameters: Parameters) -> list[int]:
    """Return for each shard the maximum bytes of a snapshot, in which all places are noisy."""
    sizes = _location_bytes(parameters)
    return [SNAPSHOT_OVERHEAD + sum(sizes[row] for row in rows) for rows in parameters.registry.by_shard]


def hot_spots_bytes(parameters: Parameters, top: int) -> int:
    """Return the maximum bytes of a hot-spots record that names `top` places."""
    return SNAPSHOT_OVERHEAD + sum(sorted(_location_bytes(parameters), reverse=True)[:top])


def shards_that_fit(parameters: Parameters, limit: int) -> int:
    """Return about how many shards are needed for each snapshot to fit `limit` bytes."""
    return max(1, -(-sum(_location_bytes(parameters)) // (limit - SNAPSHOT_OVERHEAD)))


def largest_record(parameters: Parameters) -> int:
    """Return the maximum bytes of any record of this configuration."""
    places = (place_bytes(rule) for monitor in parameters.over_time for rule in set(monitor.rules))
    hot_spots = (hot_spots_bytes(parameters, monitor.top) for monitor in parameters.hot_spots)
    return max(*(snapshot_bytes(parameters) if parameters.at_times else ()), *places, *hot_spots, SNAPSHOT_OVERHEAD)


def _location_bytes(parameters: Parameters) -> Sequence[int]:
    return [len(msgspec.json.encode(location)) + _LOCATION for location in parameters.registry.ids]
