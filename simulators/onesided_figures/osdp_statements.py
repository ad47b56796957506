"""The OSDP paper's statements about its DPBench-1D figures, and our values. The figures have no printed numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from simulators.onesided_figures.histograms import NAMES
from simulators.onesided_figures.osdp_figures import (
    ALGORITHMS,
    AT_EPSILON,
    DAWA,
    DAWAZ,
    EPSILONS,
    EXACT,
    EXTRA,
    L1,
    LAPLACE,
    PUBLISHED,
    PURE_OSDP,
    QUARTER,
    RATIOS,
    RR,
    SHOWN_RATIOS,
    SUPPRESS,
    Outcome,
    compute_average_regret,
    compute_suppress_points,
    select,
)

OSDP_ALGORITHMS: Final = (*PURE_OSDP, DAWAZ)
SHOWN_VARIANTS: Final = (PUBLISHED, QUARTER, EXACT)
DP_ALGORITHMS: Final = {PUBLISHED: (LAPLACE, DAWA), QUARTER: (LAPLACE, DAWA), EXACT: (LAPLACE, DAWA, EXTRA)}
"""The DP algorithms by variant. The exact ones include the better of both penalties of DAWA."""

_LOW: Final = 0.25
_DAWA_REGRET, _DAWAZ_REGRET, _ADULT_GAIN = 6, 2, 25
_ABOUT: Final = 1 / 3
"""A value is "about" the paper's if it differs by at most this share of it."""

_CLOSE: Final = 1.05
"""A verdict is open if it changes when each comparison is this factor easier or harder: another seed may change it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Our values for a statement, whether they agree with it, and whether that is open because values are close."""

    values: str
    holds: bool
    is_open: bool = False

    @property
    def verdict(self) -> str:
        """Return "yes", "no" or "open"."""
        return "open" if self.is_open else "yes" if self.holds else "no"


Find = Callable[[Sequence[Outcome], float], Finding]
"""A function of the outcomes, and of a factor by which its comparisons are easier to meet."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the paper, its place, and our findings by variant."""

    place: str
    text: str
    findings: Mapping[str, Finding]


def compare_statements(outcomes: Sequence[Outcome]) -> list[Statement]:
    """Return the paper's statements next to our values."""
    by_variant = {variant: select(outcomes, variant=variant) for variant in SHOWN_VARIANTS}
    rows: list[tuple[str, str, Find]] = [
        ("Figure 7a", "DAWA has about 6 times the least error (mean, Close)", _dawa),
        ("Figure 7a", "DAWAz has less than 2 times the least error (mean, Close)", _dawaz),
        ("Figure 6", "for ratios up to 0.25, DAWA beats OsdpLaplaceL1 at both ε", _crossing),
        ("Figures 7, 8", "Close: the best OSDP algorithm beats the best DP algorithm at every ratio", _close_wins),
        ("Figure 7b", "Far: DAWAz beats the best DP algorithm at every ratio", _far_wins),
        ("Figure 6", "a smaller ε favours DAWAz: its mean regret falls with ε", _by_epsilon),
        ("Figure 9a", "about 25 times less error than DAWA on Adult (Close)", _adult),
        (
            "Figure 9",
            "Nettrace is sorted, which favours DAWA: its regret is below that on Adult (ratio 0.99)",
            _nettrace,
        ),
        ("Figure 9", "the gap between DAWA and OSDP falls with sparsity, but for Nettrace (ratio 0.99)", _gap),
        ("Figure 9", "OsdpRR is sometimes the best on Adult (Close)", _sample_on_adult),
    ]
    compared = [
        Statement(place, text, {variant: _judge(find, chosen) for variant, chosen in by_variant.items()})
        for place, text, find in rows
    ]
    return [*compared, _compare_suppress(outcomes)]


def _judge(find: Find, outcomes: Sequence[Outcome]) -> Finding:
    """Return the finding, which is open if easier and harder comparisons differ."""
    found, harder, easier = (find(outcomes, ease) for ease in (1.0, 1 / _CLOSE, _CLOSE))
    return replace(found, is_open=harder.holds != easier.holds)


def _select_shown(outcomes: Sequence[Outcome], policy: str) -> list[list[Outcome]]:
    """Return the inputs of a panel of Figure 7 or 8, a list for each ratio."""
    chosen = select(outcomes, policy=policy, epsilon=EPSILONS[0])
    return [select(chosen, ratio=ratio) for ratio in SHOWN_RATIOS]


def _regrets(outcomes: Sequence[Outcome], name: str) -> list[float]:
    return [compute_average_regret(inputs, "MRE")[name] for inputs in _select_shown(outcomes, "Close")]


def _is_about(value: float, wanted: float, ease: float = 1.0) -> bool:
    return (1 - _ABOUT) * wanted <= value * ease and value <= (1 + _ABOUT) * wanted * ease


def _summarize(values: Sequence[float]) -> tuple[str, float]:
    mean = math.fsum(values) / len(values)
    return f"{min(values):.1f} to {max(values):.1f}, mean {mean:.1f}", mean


def _dawa(outcomes: Sequence[Outcome], ease: float) -> Finding:
    text, mean = _summarize(_regrets(outcomes, DAWA))
    return Finding(text, _is_about(mean, _DAWA_REGRET, ease))


def _dawaz(outcomes: Sequence[Outcome], ease: float) -> Finding:
    text, mean = _summarize(_regrets(outcomes, DAWAZ))
    return Finding(text, mean < _DAWAZ_REGRET * ease)


def _crossing(outcomes: Sequence[Outcome], ease: float) -> Finding:
    found, holds = [], True
    for epsilon in EPSILONS:
        chosen = select(outcomes, epsilon=epsilon)
        wins = [
            ratio
            for ratio in RATIOS
            if (each := compute_average_regret(select(chosen, ratio=ratio), "MRE"))[DAWA] < each[L1] * ease
        ]
        found.append(f"ε = {float(epsilon):g}: " + (f"up to {max(wins):g}" if wins else "never"))
        holds &= {ratio for ratio in RATIOS if ratio <= _LOW} <= set(wins)
    return Finding("; ".join(found), holds)


def _close_wins(outcomes: Sequence[Outcome], ease: float) -> Finding:
    counted, holds = [], True
    for measure in ("MRE", "Rel95"):
        wins = 0
        for inputs in _select_shown(outcomes, "Close"):
            dp = DP_ALGORITHMS[inputs[0].given.variant]
            each = compute_average_regret(inputs, measure, (*OSDP_ALGORITHMS, *dp))
            wins += min(each[name] for name in OSDP_ALGORITHMS) < min(each[name] for name in dp) * ease
        counted.append(f"{measure}: {wins} of {len(SHOWN_RATIOS)}")
        holds &= wins == len(SHOWN_RATIOS)
    return Finding(", ".join(counted), holds)


def _far_wins(outcomes: Sequence[Outcome], ease: float) -> Finding:
    wins = 0
    for inputs in _select_shown(outcomes, "Far"):
        dp = DP_ALGORITHMS[inputs[0].given.variant]
        each = compute_average_regret(inputs, "MRE", (*OSDP_ALGORITHMS, *dp))
        wins += each[DAWAZ] < min(each[name] for name in dp) * ease
    return Finding(f"{wins} of {len(SHOWN_RATIOS)}", wins == len(SHOWN_RATIOS))


def _by_epsilon(outcomes: Sequence[Outcome], ease: float) -> Finding:
    means = [compute_average_regret(select(outcomes, epsilon=epsilon), "MRE")[DAWAZ] for epsilon in EPSILONS]
    text = ", ".join(f"{mean:.1f} at ε = {float(e):g}" for e, mean in zip(EPSILONS, means, strict=True))
    return Finding(text, means[-1] < means[0] * ease)


def _gain(outcome: Outcome, baseline: str) -> float:
    """Return how many times the least error of the OSDP algorithms the error of a baseline is."""
    return outcome.errors[baseline]["MRE"] / min(outcome.errors[name]["MRE"] for name in OSDP_ALGORITHMS)


def _adult(outcomes: Sequence[Outcome], ease: float) -> Finding:
    chosen = select(outcomes, dataset="adult", policy="Close", epsilon=EPSILONS[0])
    best = max(chosen, key=lambda outcome: _gain(outcome, DAWA))
    gain = _gain(best, DAWA)
    text = f"{gain:.0f} times, at ratio {best.given.ratio:g}"
    if AT_EPSILON in best.errors:
        text += f"; {_gain(best, AT_EPSILON):.0f} times if the program runs at ε"
    return Finding(text, _is_about(gain, _ADULT_GAIN, ease))


def _select_sparsest(outcomes: Sequence[Outcome]) -> dict[str, Outcome]:
    """Return the inputs of Figure 9a by dataset, by falling sparsity."""
    chosen = {o.given.dataset: o for o in select(outcomes, policy="Close", epsilon=EPSILONS[0], ratio=RATIOS[0])}
    return {name: chosen[name] for name in NAMES}


def _nettrace(outcomes: Sequence[Outcome], ease: float) -> Finding:
    regrets = {name: outcome.regret("MRE")[DAWA] for name, outcome in _select_sparsest(outcomes).items()}
    text = ", ".join(f"{name} {value:.1f}" for name, value in regrets.items())
    return Finding(text, regrets["nettrace"] < regrets["adult"] * ease)


def _gap(outcomes: Sequence[Outcome], ease: float) -> Finding:
    gaps = {name: _gain(outcome, DAWA) for name, outcome in _select_sparsest(outcomes).items()}
    falling = [gap for name, gap in gaps.items() if name != "nettrace"]
    text = ", ".join(f"{name} {gap:.1f}" for name, gap in gaps.items())
    return Finding(text, all(first * ease > second for first, second in pairwise(falling)))


def _sample_on_adult(outcomes: Sequence[Outcome], ease: float) -> Finding:
    inputs = select(outcomes, dataset="adult", policy="Close", epsilon=EPSILONS[0])
    names = [name for name in ALGORITHMS if name != RR]
    shares = [outcome.errors[RR]["MRE"] / min(outcome.errors[name]["MRE"] for name in names) for outcome in inputs]
    text = f"{min(shares):.2f} to {max(shares):.2f} times the error of the best other one"
    return Finding(text, min(shares) <= ease)


def _compare_suppress(outcomes: Sequence[Outcome]) -> Statement:
    text = "Suppress is competitive with OsdpLaplaceL1 at τ = 100ε, not at 10ε (mean regret, Close and Far)"
    return Statement("Figure 10", text, {PUBLISHED: _judge(_suppress, outcomes)})


def _suppress(outcomes: Sequence[Outcome], ease: float) -> Finding:
    points, means = list(compute_suppress_points(outcomes)), {}
    for name in (L1, *SUPPRESS):
        values = [point.value for point in points if point.series == name]
        means[name] = math.fsum(values) / len(values)
    low, high = SUPPRESS
    holds = _is_about(means[high], means[L1], ease) and not _is_about(means[low], means[L1], 1 / ease)
    return Finding(", ".join(f"{name} {mean:.1f}" for name, mean in means.items()), holds)
