"""OpenDP's one-sided geometric noise: the peer of the sampler."""

from __future__ import annotations

import json
import sys
import time

import opendp.prelude as dp


def measure(samples: int) -> float:
    """Draw `samples` times with OpenDP's geometric mechanism at ε = 1. Return the seconds."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int), size=samples), dp.l1_distance(T=int)
    mechanism = space >> dp.m.then_geometric(scale=1.0)
    zeros = [0] * samples
    mechanism(zeros[:0] or zeros)
    began = time.perf_counter()
    mechanism(zeros)
    return time.perf_counter() - began


if __name__ == "__main__":
    size = json.loads(sys.argv[1])["samples"]
    print(json.dumps({"seconds": measure(size)}))
