"""Compute Figures 2 and 3: top-k queries, run in several processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simulators.baselines import GENERAL, MONOTONE, FreeGapNoisyMax, FreeGapSparseVector
from simulators.experiments.data import Catalogue, Items
from simulators.experiments.points import (
    ACCURACY,
    NOISY_MAX_KS,
    SPARSE_VECTOR_KS,
    SQUARED_ERROR,
    TOP_K,
    TOP_K_EPSILON,
    TOP_K_EPSILONS,
    Figure,
    Point,
    Setting,
    compute_mean_and_error,
    find_paper_value,
)
from simulators.paper_algorithms import NoisyMax, SparseVector
from simulators.top_k import TopKAlgorithm, run_and_score

ASYMMETRIC: Final = "asymmetric"
FREE_GAP: Final = "free-gap"

AS_CODED: Final = "as coded"
AS_PRINTED: Final = "as printed"
MONOTONE_SCALE: Final = "scale for monotone counts"

_FEWER: Final = 10
"""For variants that are not in the paper, the number of iterations is divided by this."""


@dataclass(frozen=True, slots=True)
class Job:
    """The runs of one algorithm at one setting: `iterations` times, with a separate seed."""

    setting: Setting
    paper_dataset: str
    variant: str
    algorithm: TopKAlgorithm
    iterations: int
    seed: tuple[int, ...]

    @property
    def weight(self) -> float:
        """An estimate of the running time. Long jobs start first, so that all processors are busy until the end."""
        return self.iterations * self.algorithm.counts.size * self.algorithm.k / (self.setting.epsilon or 1)

    def run(self) -> tuple[Point, Point]:
        """Return the points for accuracy and mean squared error."""
        scores = run_and_score(self.algorithm, self.iterations, np.random.default_rng(self.seed))
        return self._point(ACCURACY, scores.accuracy), self._point(SQUARED_ERROR, scores.squared_error)

    def _point(self, measure: str, values: NDArray[np.float64]) -> Point:
        setting = replace(self.setting, measure=measure)
        paper = None if self.variant == MONOTONE_SCALE else find_paper_value(setting, self.paper_dataset)
        return Point(setting, self.variant, paper, *compute_mean_and_error(values))


def make_jobs(figure: Figure, catalogue: Catalogue, items: Items, iterations: int, seed: int) -> list[Job]:
    """Return the jobs of a figure for one dataset."""
    ks = NOISY_MAX_KS if figure == "figure2" else SPARSE_VECTOR_KS
    settings = [("epsilon", epsilon, TOP_K) for epsilon in TOP_K_EPSILONS] + [("k", TOP_K_EPSILON, k) for k in ks]
    found: list[Job] = []
    for panel, epsilon, k in settings:
        make = _noisy_max_jobs if figure == "figure2" else _sparse_vector_jobs
        for name, variant, algorithm in make(items, epsilon, k):
            setting = Setting(figure, catalogue.title, "", name, epsilon, k, panel=panel)
            own = (seed, int(figure[-1]), round(1000 * epsilon), k, *(name + variant + catalogue.title).encode())
            times = max(1, iterations // _FEWER) if variant == MONOTONE_SCALE else iterations
            found.append(Job(setting, catalogue.paper_dataset, variant, algorithm, times, own))
    return found


def _noisy_max_jobs(items: Items, epsilon: float, k: int) -> Iterator[tuple[str, str, TopKAlgorithm]]:
    counts = items.noisy_max
    yield ASYMMETRIC, AS_PRINTED, NoisyMax(counts, epsilon, k, debiased=False)
    yield ASYMMETRIC, AS_CODED, NoisyMax(counts, epsilon, k, debiased=True)
    yield FREE_GAP, AS_CODED, FreeGapNoisyMax(counts, epsilon, k, GENERAL)
    yield FREE_GAP, MONOTONE_SCALE, FreeGapNoisyMax(counts, epsilon, k, MONOTONE)


def _sparse_vector_jobs(items: Items, epsilon: float, k: int) -> Iterator[tuple[str, str, TopKAlgorithm]]:
    counts = items.sparse_vector
    yield ASYMMETRIC, AS_PRINTED, SparseVector(counts, epsilon, k, "as printed")
    yield ASYMMETRIC, AS_CODED, SparseVector(counts, epsilon, k, "as coded")
    yield FREE_GAP, AS_CODED, FreeGapSparseVector(counts, epsilon, k, GENERAL)
    yield FREE_GAP, MONOTONE_SCALE, FreeGapSparseVector(counts, epsilon, k, MONOTONE)


def run_all(wanted: Sequence[Job], processes: int) -> Iterator[tuple[int, tuple[Point, Point]]]:
    """Yield the index of each finished job in `wanted`, and its points. The points do not depend on `processes`."""
    order = sorted(range(len(wanted)), key=lambda place: -wanted[place].weight)
    if processes == 1:
        for place in order:
            yield place, wanted[place].run()
        return
    # The progress bar runs a thread, so new processes must not be forked.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_end_with_parent) as pool:
        running = {pool.submit(wanted[place].run): place for place in order}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """End this process when its parent ends. Otherwise it would wait for work forever after the parent is killed."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
