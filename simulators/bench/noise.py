"""Exact one-sided noise, against OpenDP's geometric mechanism and the operating system's entropy."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from monitor.privacy.noise import OneSidedNoise, SystemEntropy
from simulators.bench.bench import Bench, MissingPeerError
from simulators.bench.line import Measured, Target

_RUNS: Final = 5
_BYTES_PER_SAMPLE: Final = 2  # sixteen bits and one look-up decide nearly all draws
_RATE: Final = "exact noise (samples/s)"
_RATIO: Final = "ratio to OpenDP"
_ENTROPY: Final = "time, in units of the entropy's time"


class NoiseLine:
    """Draws of the service's sampler at ε = 1."""

    name = "noise"
    work = "exact one-sided noise"
    goal = "≥ 800 × OpenDP in the same run; within 2 × of what the operating system's entropy allows"
    targets = (Target(_RATIO, least=800), Target(_ENTROPY, most=2))

    def measure(self, bench: Bench) -> Measured:
        """Draw in bulk, read the same number of random bytes, and draw with OpenDP."""
        samples = bench.scale(10_000_000, 200_000)
        noise = OneSidedNoise(SystemEntropy())
        noise.geometric(Fraction(1), samples)
        ours = _median_seconds(lambda: noise.geometric(Fraction(1), samples))
        entropy = _median_seconds(lambda: os.urandom(_BYTES_PER_SAMPLE * samples))
        figures = {_RATE: samples / ours, _ENTROPY: ours / entropy}
        wanted = bench.scale(300_000, 20_000)
        try:
            peer = wanted / float(bench.run_peer("opendp_noise", samples=wanted)["seconds"])
        except MissingPeerError as error:
            return Measured(figures, skipped=(str(error),))
        return Measured({**figures, "OpenDP (samples/s)": peer, _RATIO: samples / ours / peer})


def _median_seconds(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


LINES: Final = (NoiseLine(),)
