"""The plots of the benchmark. A plot on two logarithmic axes shows the slope of each curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from simulators.bench.line import Series
from simulators.experiments.plots import require_matplotlib, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEWEST_FOR_A_SLOPE: Final = 2


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: its title, the labels of its axes, and whether both axes are logarithmic."""

    title: str
    across: str
    up: str
    logarithmic: bool = False


PLOTS: Final = {
    "visits-per-record": Plot("Throughput of one process", "visits per record", "visits/s", logarithmic=True),
    "tick-watched": Plot("A tick, by watched places", "watched places", "seconds", logarithmic=True),
    "tick-registered": Plot("A tick, by registered places", "registered places", "seconds", logarithmic=True),
    "memory": Plot("Memory of the process", "seconds", "MiB"),
    "instances": Plot("Throughput by instances", "instances", "visits/s"),
    "country-lag": Plot("The country: lag", "seconds", "records not yet read"),
    "country-tick": Plot("The country: time of a tick", "seconds", "seconds"),
    "country-memory": Plot("The country: memory", "seconds", "MiB"),
}


def compute_slope(series: Series) -> float | None:
    """Return the slope of a curve on two logarithmic axes by least squares; None for fewer than two points.

    The slope is the exponent: 1 if the effort is proportional, 0 if it is constant.
    """
    if len(set(series.across)) < _FEWEST_FOR_A_SLOPE or min(*series.across, *series.up) <= 0:
        return None
    across, up = np.log(np.asarray(series.across)), np.log(np.asarray(series.up))
    slope: float = float(np.polyfit(across, up, 1)[0])
    return slope


def write_plots(folder: Path, series: Sequence[Series]) -> Iterator[tuple[str, Path]]:
    """Write one PNG for each plot that has curves, and yield its title and path."""
    require_matplotlib()
    folder.mkdir(parents=True, exist_ok=True)
    for name, plot in PLOTS.items():
        curves = [curve for curve in series if curve.plot == name]
        if curves:
            path = folder / f"bench-{name}.png"
            _draw(path, plot, curves)
            yield plot.title, path


def _draw(path: Path, plot: Plot, curves: Sequence[Series]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  # an optional dependency
    from matplotlib.figure import Figure  # noqa: PLC0415  # as above

    canvas = Figure(figsize=(6, 3.6), layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.add_subplot()
    for curve in curves:
        axes.plot(
            curve.across, curve.up, marker="o" if plot.logarithmic else ".", lw=1, ms=3, label=_label(plot, curve)
        )
    _label_axes(axes, plot)
    save(canvas, path, 90)


def _label(plot: Plot, curve: Series) -> str:
    slope = compute_slope(curve) if plot.logarithmic else None
    return curve.label if slope is None else f"{curve.label} (slope {slope:.2f})"


def _label_axes(axes: Axes, plot: Plot) -> None:
    if plot.logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(plot.title, fontsize=10)
    axes.set_xlabel(plot.across)
    axes.set_ylabel(plot.up)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
