"""The figures that `size` computes with. Those that the benchmark measures name its line and figure.

The figures are for one processor. A test compares them with simulators/bench/measured.json: a rate is at most 1.5 times
the benchmark's rate, and the benchmark's cost is at most 1.5 times the cost here. Rates of servers that the benchmark
does not measure are assumptions, which the options of the command replace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Constant:
    """A figure: `value` in `unit`, and the `line` and `figure` of the benchmark that measures it, if any.

    If `is_rate`, a larger value is better. The benchmark's figure times `scale` is in `unit`.
    """

    value: float
    unit: str
    line: str = ""
    figure: str = ""
    is_rate: bool = False
    scale: float = 1.0

    @property
    def is_measured(self) -> bool:
        """Whether the benchmark measures this figure."""
        return bool(self.line)


READ: Final = Constant(300_000, "visits/s", "ingest-zipf", "zipf (visits/s)", is_rate=True)
"""Visits that one process reads per second, if every visit is stored."""

STORE: Final = Constant(350_000, "visits/s", "ingest-zipf", "zipf: store alone (visits/s)", is_rate=True)
"""Visits that one Redis server stores per second, from packed facts."""

TICK_PER_WATCHED: Final = Constant(12e-6, "s", "watched", "100,000 places (s)", scale=1e-5)
"""Time of a tick per watched place: its count, noise, decision and record."""

TICK_PER_REGISTERED: Final = Constant(20e-9, "s", "registered", "tick (s)", scale=1e-7)
"""Time of a tick per registered place, for each monitor and live designated time."""

PROCESS_BYTES: Final = Constant(200 * 2**20, "B", "memory", "memory (MiB)", scale=2**20)
"""Memory of a process with few places, at half its top rate."""

REGISTERED_BYTES: Final = Constant(100, "B", "registered", "memory (MiB)", scale=2**20 / 1e7)
"""Memory of a process per registered place."""

WATCHED_BYTES: Final = Constant(800, "B", "watched", "memory (MiB)", scale=2**20 / 1e6)
"""Memory of a process per watched place."""

SEEN_BYTES: Final = Constant(140, "B", "redis-memory", "Redis, 20000 people (B)")
"""Redis memory per person at a watched place with many people, in Redis 7. Up to 128 people, it is a fifth of this."""

PRESENT_BYTES: Final = Constant(80, "B")
"""Redis memory per person at a designated time, in a set."""

WAITING_BYTES: Final = Constant(30, "B")
"""Redis memory per fact that waits for its slot, in packed form."""

ANSWER_BYTES: Final = Constant(700, "B")
"""Size of an `over_time` record in the output topic, with its headers and without marks."""
