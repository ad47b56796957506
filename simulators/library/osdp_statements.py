"""The OSDP paper's statements about its DPBench-1D figures, and our values. The figures have no printed numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from simulators.library.histograms import NAMES
from simulators.library.osdp_figures import (
    DAWA,
    DAWAZ,
    EPSILONS,
    EXACT,
    L1,
    LAPLACE,
    POLICIES,
    PUBLISHED,
    PURE_OSDP,
    RATIOS,
    RR,
    Outcome,
    compute_average_regret,
    compute_osdp_points,
    select,
)

OSDP_ALGORITHMS: Final = (*PURE_OSDP, DAWAZ)
DP_ALGORITHMS: Final = (LAPLACE, DAWA)
_LOW: Final = 0.25


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the paper, its place, and our values with both variants."""

    place: str
    text: str
    published: str
    exact: str


def compare_statements(outcomes: Sequence[Outcome]) -> list[Statement]:
    """Return the paper's statements next to our values."""
    by_variant = {variant: select(outcomes, variant=variant) for variant in (PUBLISHED, EXACT)}
    rows: list[tuple[str, str, Callable[[Sequence[Outcome]], str]]] = [
        ("Figure 7a", "DAWA has about 6 times the least error (ε = 1, Close)", lambda o: _largest(o, DAWA)),
        ("Figure 7a", "DAWAz has less than 2 times the least error (ε = 1, Close)", lambda o: _range(o, DAWAZ)),
        ("Figure 6", "for ratios up to 0.25 DAWA beats OsdpLaplaceL1", _crossing),
        (
            "Figures 7, 8",
            "Close: the best OSDP algorithm beats the best DP algorithm at every ratio (ε = 1)",
            _close_wins,
        ),
        ("Figure 7b", "Far: DAWAz beats DAWA at every ratio (ε = 1)", _far_wins),
        ("Figure 6", "a smaller ε favours DAWAz: its mean regret falls with ε", _by_epsilon),
        ("Figure 9a", "up to 25 times less error than DAWA on Adult (ε = 1, Close)", _adult),
        ("Figure 9", "Nettrace is sorted, which favours DAWA: its regret is low", _nettrace),
        ("Figure 9", "the gap between DAWA and OSDP falls as sparsity falls (ratio 0.99)", _gap),
        ("Figure 9", "OsdpRR is sometimes the best on Adult", _sample_on_adult),
    ]
    compared = [
        Statement(place, text, value(by_variant[PUBLISHED]), value(by_variant[EXACT])) for place, text, value in rows
    ]
    return [*compared, _compare_suppress(outcomes)]


def _regrets(outcomes: Sequence[Outcome], name: str, policy: str = "Close") -> list[float]:
    chosen = select(outcomes, policy=policy, epsilon=EPSILONS[0])
    return [compute_average_regret(select(chosen, ratio=ratio), "MRE")[name] for ratio in RATIOS]


def _largest(outcomes: Sequence[Outcome], name: str) -> str:
    values = _regrets(outcomes, name)
    return f"{values[0]:.1f} at ratio 0.99, mean {math.fsum(values) / len(values):.1f}"


def _range(outcomes: Sequence[Outcome], name: str) -> str:
    values = _regrets(outcomes, name)
    return f"{min(values):.1f} to {max(values):.1f}, mean {math.fsum(values) / len(values):.1f}"


def _crossing(outcomes: Sequence[Outcome]) -> str:
    found = []
    for epsilon in EPSILONS:
        chosen = select(outcomes, epsilon=epsilon)
        wins = [
            ratio
            for ratio in RATIOS
            if (each := compute_average_regret(select(chosen, ratio=ratio), "MRE"))[DAWA] < each[L1]
        ]
        found.append(f"ε = {float(epsilon):g}: " + (f"up to {max(wins):g}" if wins else "never"))
    return "; ".join(found)


def _close_wins(outcomes: Sequence[Outcome]) -> str:
    counted = []
    for measure in ("MRE", "Rel95"):
        chosen = select(outcomes, policy="Close", epsilon=EPSILONS[0])
        wins = 0
        for ratio in RATIOS:
            each = compute_average_regret(select(chosen, ratio=ratio), measure)
            wins += min(each[name] for name in OSDP_ALGORITHMS) < min(each[name] for name in DP_ALGORITHMS)
        counted.append(f"{measure}: {wins} of {len(RATIOS)}")
    return ", ".join(counted)


def _far_wins(outcomes: Sequence[Outcome]) -> str:
    pairs = zip(_regrets(outcomes, DAWAZ, "Far"), _regrets(outcomes, DAWA, "Far"), strict=True)
    return f"{sum(ours < theirs for ours, theirs in pairs)} of {len(RATIOS)}"


def _by_epsilon(outcomes: Sequence[Outcome]) -> str:
    means = [compute_average_regret(select(outcomes, epsilon=epsilon), "MRE")[DAWAZ] for epsilon in EPSILONS]
    return ", ".join(f"{mean:.1f} at ε = {float(e):g}" for e, mean in zip(EPSILONS, means, strict=True))


def _adult(outcomes: Sequence[Outcome]) -> str:
    chosen = select(outcomes, dataset="adult", policy="Close", epsilon=EPSILONS[0])
    gains = {
        o.given.ratio: o.errors[DAWA]["MRE"] / min(o.errors[name]["MRE"] for name in OSDP_ALGORITHMS) for o in chosen
    }
    ratio = max(gains, key=lambda each: gains[each])
    return f"{gains[ratio]:.0f} times, at ratio {ratio:g}"


def _nettrace(outcomes: Sequence[Outcome]) -> str:
    chosen = select(outcomes, policy="Close", epsilon=EPSILONS[0], ratio=RATIOS[0])
    return ", ".join(f"{o.given.dataset} {o.regret('MRE')[DAWA]:.1f}" for o in chosen)


def _gap(outcomes: Sequence[Outcome]) -> str:
    chosen = {o.given.dataset: o for o in select(outcomes, policy="Close", epsilon=EPSILONS[0], ratio=RATIOS[0])}
    gaps = [
        chosen[name].errors[DAWA]["MRE"] / min(chosen[name].errors[each]["MRE"] for each in OSDP_ALGORITHMS)
        for name in NAMES
    ]
    return ", ".join(f"{name} {gap:.1f}" for name, gap in zip(NAMES, gaps, strict=True))


def _sample_on_adult(outcomes: Sequence[Outcome]) -> str:
    inputs = select(outcomes, dataset="adult")
    best = [o for o in inputs if o.regret("MRE")[RR] <= 1]
    return f"{len(best)} of {len(inputs)} inputs of Adult"


def _compare_suppress(outcomes: Sequence[Outcome]) -> Statement:
    points = [point for point in compute_osdp_points(outcomes) if point.figure == "osdp-figure10"]

    def mean(series: str) -> float:
        values = [point.value for point in points if point.series == series]
        return math.fsum(values) / len(values)

    values = ", ".join(f"{name} {mean(name):.1f}" for name in (L1, "Suppress10", "Suppress100"))
    text = f"Suppress is competitive with OsdpLaplaceL1 from τ = 100ε ({', '.join(POLICIES)}, ε = 1)"
    return Statement("Figure 10", text, f"mean regret: {values}", "")
