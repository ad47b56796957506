"""How large the records of a configuration may become, in bytes: what the output topic must take, and what is refused.

Each record repeats what still holds: of a place its running marks, of a shard's snapshot all its noisy places.
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
"""The most bytes of a place's record: it is written at every tick, and brokers take as much without being told."""

LARGEST_SNAPSHOT: Final = 32 * 1024 * 1024
"""The most bytes of a snapshot or of hot spots: half of what is sent at once at most."""

SNAPSHOT_OVERHEAD: Final = 1_024
_PLACE_OVERHEAD: Final = 4_096  # its id up to four times, with quotes escaped
_LOCATION: Final = 60
_TICK: Final = 14
_NOISY_COUNT: Final = 20
_MARK: Final = len('{"tick":,"noisy_count":,"epsilon":"","until":},') + 2 * _TICK + _NOISY_COUNT


def mark_bytes(epsilon: Fraction) -> int:
    """The most bytes that one running mark of this ε takes in a record."""
    return _MARK + len(format_epsilon(epsilon))


def place_bytes(rule: OverTimeRule, running: Iterable[Fraction] = ()) -> int:
    """The most bytes of a place's record.

    Args:
        rule: the present one, under which so many answers run as fit into ε_l and into the window.
        running: the ε of each mark that runs, perhaps by an earlier rule. One that takes more bytes for its ε than
            the present answers do adds to what these may take.
    """
    epsilon, each = rule.answer_epsilon, mark_bytes(rule.answer_epsilon)
    kept = heavier = 0
    for other, times in Counter(running).items():
        kept += times * mark_bytes(other)
        heavier += times * max(0, mark_bytes(other) - int(each * other / epsilon))
    return _PLACE_OVERHEAD + max(kept, min(rule.answers, rule.mark_lifetime) * each + heavier)


def max_answers_per_record(rule: OverTimeRule) -> int:
    """How large `answers_per_window` may be for this place's record to have `LARGEST_OF_ONE_PLACE` bytes at most.

    The ε of more answers has more digits: room is left for as many as `answers_per_window` has.
    """
    return (LARGEST_OF_ONE_PLACE - _PLACE_OVERHEAD) // mark_bytes(rule.answer_epsilon)


def snapshot_bytes(parameters: Parameters) -> list[int]:
    """By shard, the most bytes of a snapshot: all its places are noisy."""
    sizes = _location_bytes(parameters)
    return [SNAPSHOT_OVERHEAD + sum(sizes[row] for row in rows) for rows in parameters.registry.by_shard]


def hot_spots_bytes(parameters: Parameters, top: int) -> int:
    """The most bytes of an answer that names so many places."""
    return SNAPSHOT_OVERHEAD + sum(sorted(_location_bytes(parameters), reverse=True)[:top])


def shards_that_fit(parameters: Parameters, limit: int) -> int:
    """About how many shards make each snapshot fit so many bytes."""
    return max(1, -(-sum(_location_bytes(parameters)) // (limit - SNAPSHOT_OVERHEAD)))


def largest_record(parameters: Parameters) -> int:
    """The most bytes that any record of this configuration may have."""
    places = (place_bytes(rule) for monitor in parameters.over_time for rule in set(monitor.rules))
    hot_spots = (hot_spots_bytes(parameters, monitor.top) for monitor in parameters.hot_spots)
    return max(*(snapshot_bytes(parameters) if parameters.at_times else ()), *places, *hot_spots, SNAPSHOT_OVERHEAD)


def _location_bytes(parameters: Parameters) -> Sequence[int]:
    return [len(msgspec.json.encode(location)) + _LOCATION for location in parameters.registry.ids]
