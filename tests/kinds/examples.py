"""One example of each kind of monitor, for the tests that loop over all kinds.

Records of each kind are in `monitor.kinds.base.words`, as `Words.list_examples`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from monitor.kinds.dwell.keys_and_parameters import Dwell
from monitor.privacy.dwell import DwellRule
from monitor.time.schedule import Schedule

LENGTHS: Final = "dwell"
"""The kind that measures the lengths of visits."""

_TIMED: Final[dict[str, Any]] = {
    "at": ["18:00"], "timezone": "Asia/Tokyo", "reporting_horizon": "2d", "epsilon": "1/3"
}  # fmt: skip
_PLACES: Final[dict[str, Any]] = {"locations": {"shibuya": 3, "shinjuku": 1}, "epsilon": "4", "window": "7d"}

MONITORS: Final[dict[str, dict[str, Any]]] = {
    "over_time": {"name": "stations", "kind": "over_time", "threshold": 20, **_PLACES},
    "at_times": {"name": "evening", "kind": "at_times", "threshold": 20, **_TIMED},
    "hot_spots": {"name": "busiest", "kind": "hot_spots", "top": 5, **_TIMED},
    LENGTHS: {"name": "lengths", "kind": LENGTHS, "longest_visit": "2h", **_TIMED},
    "upper_bound": {"name": "curve", "kind": "upper_bound", "bucket": "1d", **_PLACES},
}
"""The keys of a monitor in the configuration, by kind, as a person writes them. Keys with a default are absent."""

REFUSED: Final = (
    *(("hot_spots", "top", top) for top in (0, -1, 2.5, True, "five")),
    ("hot_spots", "threshold", 5),
    *((LENGTHS, "longest_visit", length) for length in ("0s", "-1h", "1500ms", "366d", 7_200)),
    (LENGTHS, "visits_per_person", 0),
    (LENGTHS, "visits_per_person", 1.5),
    *((LENGTHS, "epsilon", epsilon) for epsilon in (0, 0.5, "1/1000000000")),
    (LENGTHS, "threshold", 3),
    (LENGTHS, "at_least", {"epsilon": 1}),
)
"""A kind, one of its keys, and a value that is refused."""


def measure_lengths(times: Schedule, horizon: int, longest: int = 3_600, epsilon: Fraction = Fraction(1)) -> Dwell:
    """Return the parameters of a monitor of lengths, `lengths`. `longest` is in seconds."""
    return Dwell("lengths", times, DwellRule(epsilon, longest), horizon)
