"""The DPBench-1D figures of the OSDP paper: errors of all algorithms on 98 pairs of histograms, and regret.

An input is a histogram with a way to choose its non-sensitive records: 7 datasets, 2 policies, 7 ratios. Each algorithm
runs 20 times on each input, each time with another choice. DAWA does not use the non-sensitive records, so its 20 runs
per dataset and ε serve all 14 inputs of the dataset. docs/literature.md defines [OSDP].
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
from monitor.privacy.two_sided_noise import draw_two_sided
from simulators.continuous_noise import Floats
from simulators.experiments.points import LibraryPoint
from simulators.osdp import (
    ONE_DIMENSION,
    TWO_DIMENSIONS,
    Algorithm,
    FastNoise,
    PublishedDawa,
    expand,
    make_laplace,
    make_osdp_laplace,
    make_osdp_laplace_l1,
    make_osdp_rr,
    make_suppress_laplace,
    regret,
    relative_errors,
    sample_close,
    sample_far,
)

Histogram = NDArray[np.int64]

RATIOS: Final = (0.99, 0.90, 0.75, 0.50, 0.25, 0.10, 0.01)
SHOWN_RATIOS: Final = (0.99, 0.90, 0.75, 0.50, 0.25)
"""The ratios of the paper's Figures 7, 8 and 10, which are limited to 0.25 and more."""

EPSILONS: Final = (Fraction(1), Fraction(1, 100))
"""The ε of Figure 6. The other figures are at the first one."""

POLICIES: Final[dict[str, Callable[[Histogram, float, np.random.Generator], Histogram]]] = {
    "Close": sample_close,
    "Far": sample_far,
}
RUNS: Final = 20
"""The paper has 10, all with the same non-sensitive records. Errors with those of *Far* depend on which are chosen."""

ZERO_SHARE: Final = Fraction(1, 10)
"""The share ρ of ε that DAWAz spends on OsdpRR."""

LAPLACE, DAWA, RR, ONE_SIDED, L1, DAWAZ = "Laplace", "DAWA", "OsdpRR", "OsdpLaplace", "OsdpLaplaceL1", "DAWAz"
ALGORITHMS: Final = (LAPLACE, DAWA, RR, ONE_SIDED, L1, DAWAZ)
PURE_OSDP: Final = (RR, ONE_SIDED, L1)
SUPPRESS: Final = {"Suppress10": 10, "Suppress100": 100}
"""The paper's τ by ε. It is for replaced records, as in its Laplace mechanism, so a count gets noise at τ/2."""

AT_EPSILON: Final = "DAWA at ε"
"""The published program at ε, which is too little noise if records are replaced."""

EXTRA: Final = "DAWA, extra penalty"
EXTRA_PENALTY: Final = Fraction(3)
"""In scales of the noise of a cost."""

PUBLISHED, EXACT = "as published", "exact"
VARIANTS: Final = (PUBLISHED, EXACT)
"""Real-valued noise, and DAWA as its authors' program computes it; or the library's integers, and DAWA with a proof."""

QUARTER: Final = "as published, a quarter"
"""As published, with the share of ε that the program uses in two dimensions. Only the statements show it."""

Choices = Mapping[tuple[str, str, float], Sequence[Histogram]]
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

    def regret(self, measure: str, names: Sequence[str] = ALGORITHMS) -> dict[str, float]:
        """Return the regret of some algorithms relative to the best of them: by default the paper's six."""
        return regret({name: self.errors[name][measure] for name in names})


def choose_non_sensitive(histograms: Mapping[str, Histogram], seed: int) -> Choices:
    """Return the histograms of the non-sensitive records for each run, by dataset, policy and ratio."""
    chosen = {}
    for place, (dataset, counts) in enumerate(histograms.items()):
        for number, (policy, sample) in enumerate(POLICIES.items()):
            for ratio in RATIOS:
                random = np.random.default_rng((seed, place, number, round(100 * ratio)))
                chosen[dataset, policy, ratio] = [sample(counts, ratio, random) for _ in range(RUNS)]
    return chosen


def run_dataset(
    dataset: str,
    counts: Histogram,
    open_counts: Choices,
    epsilons: Sequence[Fraction],
    seed: int,
) -> Iterator[Outcome]:
    """Yield the outcomes of all policies, ratios and variants of a dataset, for some ε."""
    costs = measure_costs(counts)
    for epsilon in epsilons:
        for variant in (*VARIANTS, QUARTER):
            random = np.random.default_rng((seed, *dataset.encode(), *str(epsilon).encode(), *variant.encode()))
            sources = _make_sources(variant, counts, costs, random)
            full = {name: [draw(epsilon) for _ in range(RUNS)] for name, draw in sources.items()}
            rest = [sources[DAWA](epsilon * (1 - ZERO_SHARE)) for _ in range(RUNS)]
            for policy in POLICIES:
                for ratio in RATIOS:
                    given = Input(dataset, policy, ratio, epsilon, variant)
                    chosen = open_counts[dataset, policy, ratio]
                    runs = _estimate_all(given, counts, chosen, (full, rest), random)
                    yield Outcome(given, {name: _measure(counts, drawn) for name, drawn in runs.items()})


def _make_sources(variant: str, counts: Histogram, costs: Costs, random: np.random.Generator) -> dict[str, DrawBuckets]:
    """Return the two forms of DAWA of a variant by name: functions of ε that draw buckets."""

    def run_published(epsilon: Fraction) -> Buckets:
        share = TWO_DIMENSIONS if variant == QUARTER else ONE_DIMENSION
        return PublishedDawa(float(epsilon), share).release(counts, costs, random)

    def run_exact(rule: Dawa) -> Buckets:
        noise = FastNoise(random)
        buckets = rule.add_noise(counts, rule.choose(costs, counts.size, noise), noise)
        totals = np.maximum(np.array(buckets.totals, dtype=np.float64), 0.0)
        return np.array(buckets.lengths, dtype=np.int64), totals

    if variant != EXACT:
        # The program's noise is for records that are added or removed. A replacement is a removal and an addition, so
        # the program runs at ε/2.
        return {DAWA: lambda epsilon: run_published(epsilon / 2), AT_EPSILON: run_published}
    return {
        DAWA: lambda epsilon: run_exact(Dawa(epsilon)),
        EXTRA: lambda epsilon: run_exact(Dawa(epsilon, extra_penalty=EXTRA_PENALTY)),
    }


def _estimate_all(
    given: Input,
    counts: Histogram,
    chosen: Sequence[Histogram],
    buckets: tuple[Mapping[str, Sequence[Buckets]], Sequence[Buckets]],
    random: np.random.Generator,
) -> dict[str, list[Floats]]:
    """Return the estimates of each algorithm, one for each choice of the non-sensitive records.

    `buckets`: those of each form of DAWA at ε, and those of DAWA at the ε that DAWAz leaves for it.
    """
    epsilon, full, rest = float(given.epsilon), *buckets
    sample = make_osdp_rr(epsilon * float(ZERO_SHARE))
    runs = {name: [expand(*each) for each in drawn] for name, drawn in full.items()}
    runs[DAWAZ] = [
        expand(*each, sample(counts, records, random) <= 0) for each, records in zip(rest, chosen, strict=True)
    ]
    if given.variant != EXACT:
        simple: dict[str, Algorithm] = {LAPLACE: make_laplace(epsilon), ONE_SIDED: make_osdp_laplace(epsilon)}
        simple[L1] = make_osdp_laplace_l1(epsilon)
        simple |= {name: make_suppress_laplace(times * epsilon / 2) for name, times in SUPPRESS.items()}
        for name, algorithm in simple.items():
            runs[name] = [algorithm(counts, records, random) for records in chosen]
    else:
        runs |= _estimate_in_integers(given.epsilon, counts, chosen, FastNoise(random))
    runs[RR] = [make_osdp_rr(epsilon)(counts, records, random) for records in chosen]
    return runs


def _estimate_in_integers(
    epsilon: Fraction, counts: Histogram, chosen: Sequence[Histogram], noise: FastNoise
) -> dict[str, list[Floats]]:
    one_sided, clamped = OneSidedHistogram(epsilon), ClampedHistogram(epsilon)
    return {
        LAPLACE: [(counts + draw_two_sided(noise, epsilon / 2, counts.size)).astype(float) for _ in chosen],
        ONE_SIDED: [one_sided.release(records, noise).astype(float) for records in chosen],
        L1: [clamped.release(records, noise).astype(float) for records in chosen],
    }


def _measure(counts: Histogram, estimates: Sequence[Floats]) -> dict[str, float]:
    relative = [relative_errors(counts, each) for each in estimates]
    return {
        "MRE": float(np.mean([each.mean() for each in relative])),
        "Rel95": float(np.mean([np.percentile(each, 95) for each in relative])),
    }


def compute_average_regret(
    outcomes: Sequence[Outcome], measure: str, names: Sequence[str] = ALGORITHMS
) -> dict[str, float]:
    """Return the mean regret of each algorithm over some inputs, infinite if another one has no error on an input."""
    each = [outcome.regret(measure, names) for outcome in outcomes]
    return {name: math.fsum(one[name] for one in each) / len(each) for name in names}


def select(outcomes: Sequence[Outcome], **wanted: object) -> list[Outcome]:
    """Return the outcomes whose input has the wanted values, such as policy="Close"."""
    return [
        outcome for outcome in outcomes if all(getattr(outcome.given, name) == want for name, want in wanted.items())
    ]


def compute_osdp_points(outcomes: Sequence[Outcome]) -> Iterator[LibraryPoint]:
    """Yield the points of the paper's Figures 6 to 10 for each variant, and all errors ("osdp-errors")."""
    for variant in VARIANTS:
        of_variant = select(outcomes, variant=variant)
        for epsilon in EPSILONS:
            panel = f"both policies, ε = {float(epsilon):g}"
            yield from _average_by_ratio("osdp-figure6", panel, "MRE", select(of_variant, epsilon=epsilon), RATIOS)
        for policy in POLICIES:
            panel, chosen = f"{policy}, ε = 1", select(of_variant, epsilon=EPSILONS[0], policy=policy)
            yield from _average_by_ratio("osdp-figure7", panel, "MRE", chosen, SHOWN_RATIOS)
            yield from _average_by_ratio("osdp-figure8", panel, "Rel95", chosen, SHOWN_RATIOS)
        yield from _list_by_dataset(of_variant)
    yield from compute_suppress_points(outcomes)
    for outcome in outcomes:
        given = outcome.given
        for name, errors in outcome.errors.items():
            for measure, value in errors.items():
                panel = f"{given.dataset}, {given.policy}, ε = {float(given.epsilon):g}, {measure}"
                yield LibraryPoint("osdp-errors", panel, f"{name}, {given.variant}", given.ratio, value)


def _average_by_ratio(
    figure: str, panel: str, measure: str, outcomes: Sequence[Outcome], ratios: Sequence[float]
) -> Iterator[LibraryPoint]:
    for ratio in ratios:
        inputs = select(outcomes, ratio=ratio)
        if inputs:
            for name, value in compute_average_regret(inputs, measure).items():
                yield LibraryPoint(figure, panel, f"{name}, {inputs[0].given.variant}", ratio, value)


def _list_by_dataset(outcomes: Sequence[Outcome]) -> Iterator[LibraryPoint]:
    for outcome in select(outcomes, policy="Close", epsilon=EPSILONS[0]):
        given = outcome.given
        for name, value in outcome.regret("MRE").items():
            panel = f"Close, ratio {given.ratio:g}"
            yield LibraryPoint("osdp-figure9", panel, f"{name}, {given.variant}", given.dataset, value)


def compute_suppress_points(outcomes: Sequence[Outcome]) -> Iterator[LibraryPoint]:
    """Yield the points of Figure 10.

    The regret of OsdpLaplaceL1 and of both Suppress is relative to the best of these and the other algorithms.
    """
    of_figure = select(outcomes, variant=PUBLISHED, epsilon=EPSILONS[0])
    names = (*ALGORITHMS, *SUPPRESS)
    for policy in POLICIES:
        for ratio in SHOWN_RATIOS:
            inputs = select(of_figure, policy=policy, ratio=ratio)
            means = compute_average_regret(inputs, "MRE", names) if inputs else {}
            for name in (L1, *SUPPRESS) if means else ():
                yield LibraryPoint("osdp-figure10", f"{policy}, ε = 1", name, ratio, means[name])
