"""The DPBench-1D figures of the OSDP paper: errors of all algorithms on 98 pairs of histograms, and regret.

An input is a histogram with one choice of its non-sensitive records: 7 datasets, 2 policies, 7 ratios. Each algorithm
runs 10 times on each input. DAWA does not use the non-sensitive records, so its 10 runs per dataset and ε serve all 14
inputs of the dataset. docs/references.md defines [OSDP].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.onesided.osdp.dawa import Costs, Dawa, measure_costs
from monitor.onesided.osdp.mechanisms import ClampedHistogram, OneSidedHistogram
from monitor.privacy.two_sided import draw_two_sided
from simulators.continuous_noise import Floats
from simulators.library.points import LibraryPoint
from simulators.osdp.continuous import (
    Algorithm,
    FastNoise,
    Laplace,
    OsdpLaplace,
    OsdpLaplaceL1,
    OsdpRR,
    SuppressLaplace,
    expand,
)
from simulators.osdp.measures import regret, relative_errors
from simulators.osdp.published_dawa import PublishedDawa
from simulators.osdp.sampling import sample_close, sample_far

Histogram = NDArray[np.int64]

RATIOS: Final = (0.99, 0.90, 0.75, 0.50, 0.25, 0.10, 0.01)
EPSILONS: Final = (Fraction(1), Fraction(1, 2), Fraction(1, 10), Fraction(1, 100))
"""The ε of the paper's figures (1, 0.01) and of its Table 1 (1, 0.5, 0.1)."""

POLICIES: Final[dict[str, Callable[[Histogram, float, np.random.Generator], Histogram]]] = {
    "Close": sample_close,
    "Far": sample_far,
}
RUNS: Final = 10
ZERO_SHARE: Final = Fraction(1, 10)
"""The share ρ of ε that DAWAz spends on OsdpRR."""

LAPLACE, DAWA, RR, ONE_SIDED, L1, DAWAZ = "Laplace", "DAWA", "OsdpRR", "OsdpLaplace", "OsdpLaplaceL1", "DAWAz"
ALGORITHMS: Final = (LAPLACE, DAWA, RR, ONE_SIDED, L1, DAWAZ)
PURE_OSDP: Final = (RR, ONE_SIDED, L1)
SUPPRESS: Final = {"Suppress10": 10, "Suppress100": 100}

PUBLISHED, EXACT = "as published", "exact"
VARIANTS: Final = (PUBLISHED, EXACT)
"""Real-valued noise, and DAWA as its authors' program computes it; or the library's integers, and DAWA with a proof."""

MEASURES: Final = ("MRE", "Rel50", "Rel95")

Buckets = tuple[Histogram, Floats]
DrawBuckets = Callable[[Fraction], Buckets]


@dataclass(frozen=True, slots=True)
class Input:
    """The coordinates of an input and of the algorithms' variant."""

    dataset: str
    policy: str
    ratio: float
    epsilon: Fraction
    variant: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The errors on one input, by algorithm and measure: means over the runs."""

    given: Input
    errors: Mapping[str, Mapping[str, float]]

    def regret(self, measure: str) -> dict[str, float]:
        """Return the regret of the paper's six algorithms. Suppress is not one of them."""
        return regret({name: self.errors[name][measure] for name in ALGORITHMS})


def choose_non_sensitive(histograms: Mapping[str, Histogram], seed: int) -> dict[tuple[str, str, float], Histogram]:
    """Return the histogram of the non-sensitive records by dataset, policy and ratio."""
    chosen = {}
    for place, (dataset, counts) in enumerate(histograms.items()):
        for number, (policy, sample) in enumerate(POLICIES.items()):
            for ratio in RATIOS:
                random = np.random.default_rng((seed, place, number, round(100 * ratio)))
                chosen[dataset, policy, ratio] = sample(counts, ratio, random)
    return chosen


def run_dataset(
    dataset: str,
    counts: Histogram,
    open_counts: Mapping[tuple[str, str, float], Histogram],
    epsilons: Sequence[Fraction],
    seed: int,
) -> Iterator[Outcome]:
    """Yield the outcomes of all policies, ratios and variants of a dataset, for some ε."""
    costs = measure_costs(counts)
    for epsilon in epsilons:
        for variant in VARIANTS:
            random = np.random.default_rng((seed, *dataset.encode(), *str(epsilon).encode(), *variant.encode()))
            draw = _make_bucket_source(variant, counts, costs, random)
            full = [draw(epsilon) for _ in range(RUNS)]
            rest = [draw(epsilon * (1 - ZERO_SHARE)) for _ in range(RUNS)]
            for policy in POLICIES:
                for ratio in RATIOS:
                    given = Input(dataset, policy, ratio, epsilon, variant)
                    non_sensitive = open_counts[dataset, policy, ratio]
                    runs = _estimate_all(given, counts, non_sensitive, (full, rest), random)
                    yield Outcome(given, {name: _measure(counts, drawn) for name, drawn in runs.items()})


def _make_bucket_source(variant: str, counts: Histogram, costs: Costs, random: np.random.Generator) -> DrawBuckets:
    def published(epsilon: Fraction) -> Buckets:
        # The program's noise is for records that are added or removed. A replacement is a removal and an addition, so
        # the program runs at ε/2.
        return PublishedDawa(float(epsilon) / 2).release(counts, costs, random)

    def exact(epsilon: Fraction) -> Buckets:
        rule, noise = Dawa(epsilon), FastNoise(random)
        buckets = rule.add_noise(counts, rule.choose(costs, counts.size, noise), noise)
        totals = np.maximum(np.array(buckets.totals, dtype=np.float64), 0.0)
        return np.array(buckets.lengths, dtype=np.int64), totals

    return published if variant == PUBLISHED else exact


def _estimate_all(
    given: Input,
    counts: Histogram,
    non_sensitive: Histogram,
    buckets: tuple[Sequence[Buckets], Sequence[Buckets]],
    random: np.random.Generator,
) -> dict[str, list[Floats]]:
    """Return the estimates of each algorithm, `RUNS` of each."""
    epsilon, full, rest = float(given.epsilon), *buckets
    sample = OsdpRR(epsilon * float(ZERO_SHARE))
    runs = {DAWA: [expand(*each) for each in full]}
    runs[DAWAZ] = [expand(*each, sample(counts, non_sensitive, random) <= 0) for each in rest]
    if given.variant == PUBLISHED:
        simple: dict[str, Algorithm] = {LAPLACE: Laplace(epsilon), ONE_SIDED: OsdpLaplace(epsilon)}
        simple[L1] = OsdpLaplaceL1(epsilon)
        simple |= {name: SuppressLaplace(times * epsilon) for name, times in SUPPRESS.items()}
        for name, algorithm in simple.items():
            runs[name] = [algorithm(counts, non_sensitive, random) for _ in range(RUNS)]
    else:
        runs |= _estimate_in_integers(given.epsilon, counts, non_sensitive, FastNoise(random))
    runs[RR] = [OsdpRR(epsilon)(counts, non_sensitive, random) for _ in range(RUNS)]
    return runs


def _estimate_in_integers(
    epsilon: Fraction, counts: Histogram, non_sensitive: Histogram, noise: FastNoise
) -> dict[str, list[Floats]]:
    one_sided, clamped = OneSidedHistogram(epsilon), ClampedHistogram(epsilon)
    return {
        LAPLACE: [(counts + draw_two_sided(noise, epsilon / 2, counts.size)).astype(float) for _ in range(RUNS)],
        ONE_SIDED: [one_sided.release(non_sensitive, noise).astype(float) for _ in range(RUNS)],
        L1: [clamped.release(non_sensitive, noise).astype(float) for _ in range(RUNS)],
    }


def _measure(counts: Histogram, estimates: Sequence[Floats]) -> dict[str, float]:
    relative = [relative_errors(counts, each) for each in estimates]
    return {
        "MRE": float(np.mean([each.mean() for each in relative])),
        "Rel50": float(np.mean([np.percentile(each, 50) for each in relative])),
        "Rel95": float(np.mean([np.percentile(each, 95) for each in relative])),
    }


def compute_average_regret(outcomes: Sequence[Outcome], measure: str) -> dict[str, float]:
    """Return the mean regret of each algorithm over some inputs, infinite if another one has no error on an input."""
    each = [outcome.regret(measure) for outcome in outcomes]
    return {name: math.fsum(one[name] for one in each) / len(each) for name in ALGORITHMS}


def select(outcomes: Sequence[Outcome], **wanted: object) -> list[Outcome]:
    """Return the outcomes whose input has the wanted values, such as policy="Close"."""
    return [
        outcome for outcome in outcomes if all(getattr(outcome.given, name) == want for name, want in wanted.items())
    ]


def compute_osdp_points(outcomes: Sequence[Outcome]) -> Iterator[LibraryPoint]:
    """Yield the points of the paper's Figures 6 to 10, for each variant and ε, and all errors ("osdp-errors")."""
    for variant in VARIANTS:
        of_variant = select(outcomes, variant=variant)
        for epsilon in EPSILONS:
            yield from _average_by_ratio("osdp-figure6", "MRE", of_variant, epsilon, None)
            for policy in POLICIES:
                yield from _average_by_ratio("osdp-figure7", "MRE", of_variant, epsilon, policy)
                yield from _average_by_ratio("osdp-figure8", "Rel95", of_variant, epsilon, policy)
        yield from _list_by_dataset(of_variant)
    yield from _compare_suppress(select(outcomes, variant=PUBLISHED, epsilon=EPSILONS[0]))
    for outcome in outcomes:
        given = outcome.given
        for name, errors in outcome.errors.items():
            for measure, value in errors.items():
                panel = f"{given.dataset}, {given.policy}, ε = {float(given.epsilon):g}, {measure}"
                yield LibraryPoint("osdp-errors", panel, f"{name}, {given.variant}", given.ratio, value)


def _average_by_ratio(
    figure: str, measure: str, outcomes: Sequence[Outcome], epsilon: Fraction, policy: str | None
) -> Iterator[LibraryPoint]:
    chosen = select(outcomes, epsilon=epsilon) if policy is None else select(outcomes, epsilon=epsilon, policy=policy)
    panel = f"{policy or 'both policies'}, ε = {float(epsilon):g}"
    for ratio in RATIOS:
        inputs = select(chosen, ratio=ratio)
        if inputs:
            for name, value in compute_average_regret(inputs, measure).items():
                yield LibraryPoint(figure, panel, f"{name}, {inputs[0].given.variant}", ratio, value)


def _list_by_dataset(outcomes: Sequence[Outcome]) -> Iterator[LibraryPoint]:
    for outcome in select(outcomes, policy="Close", epsilon=EPSILONS[0]):
        given = outcome.given
        for name, value in outcome.regret("MRE").items():
            panel = f"Close, ratio {given.ratio:g}"
            yield LibraryPoint("osdp-figure9", panel, f"{name}, {given.variant}", given.dataset, value)


def _compare_suppress(outcomes: Sequence[Outcome]) -> Iterator[LibraryPoint]:
    """Yield the regret of OsdpLaplaceL1 and both Suppress, relative to the best of these and the other algorithms."""
    for policy in POLICIES:
        for ratio in RATIOS:
            inputs = select(outcomes, policy=policy, ratio=ratio)
            each = [regret({name: errors["MRE"] for name, errors in one.errors.items()}) for one in inputs]
            for name in (L1, *SUPPRESS) if each else ():
                value = math.fsum(one[name] for one in each) / len(each)
                yield LibraryPoint("osdp-figure10", f"{policy}, ε = 1", name, ratio, value)
