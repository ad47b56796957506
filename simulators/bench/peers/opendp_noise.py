"""OpenDP's one-sided geometric noise: the peer of the sampler."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import opendp.prelude as dp


def measure(samples: int) -> float:
    """Draw `samples` times with OpenDP's geometric mechanism at ε = 1. Return the seconds."""
    dp.enable_features("contrib")
    make_mechanism(1)([0])  # The first call also prepares the library, so it is not measured.
    mechanism, zeros = make_mechanism(samples), [0] * samples
    began = time.perf_counter()
    mechanism(zeros)
    return time.perf_counter() - began


def make_mechanism(samples: int) -> Any:
    """Return the mechanism for lists of `samples` integers."""
    space = dp.vector_domain(dp.atom_domain(T=int), size=samples), dp.l1_distance(T=int)
    return space >> dp.m.then_geometric(scale=1.0)


if __name__ == "__main__":
    size = json.loads(sys.argv[1])["samples"]
    print(json.dumps({"seconds": measure(size)}))
