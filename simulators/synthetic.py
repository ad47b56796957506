"""Write synthetic files of all data of the experiments, with the names and columns of docs/experiments.md.

They are random numbers, smaller than the real files. With them every experiment runs from the checkout alone. Their
figures say nothing about the papers.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.time.instants import MINUTE, format_instant, parse_instant
from simulators.experiments.data import CATALOGUES, PLACES, SYNTHETIC
from simulators.onesided_figures.histograms import FILE, NAMES, TABLE_2

_ITEMS: Final = 620
"""More than the largest k of the figures."""

_MOST: Final = 100_000
"""The count of the first item: that of all records of T40I10D100K."""

_PEOPLE, _POINTS, _PLACES, _ROW = 200, 6, 60, 10
_BINS: Final = 128
_START: Final = parse_instant("2026-01-05T08:00:00Z")

_NOTE: Final = """Written by `python -m simulators synthetic --seed {seed}`.
All files of this folder are random numbers. They are not the data sets whose names they have.
"""


def write_synthetic(folder: Path, seed: int) -> None:
    """Write all files, and a note by which the experiments know that the data is synthetic."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    (folder / SYNTHETIC).write_text(_NOTE.format(seed=seed), encoding="utf-8")
    items = ["item,count", *(f"{item},{_MOST // (item + 1)}" for item in range(_ITEMS))]
    for file in {catalogue.file for catalogue in CATALOGUES}:
        _write(folder / file, items)
    for place in PLACES:
        _write(folder / place.visits, ["person_id,location_id,time_utc", *_make_points(rng)])
        _write(folder / place.locations, ["location_id,lat,lon", *_make_locations()])
    _write(folder / FILE, [",".join(["bin", *NAMES]), *_make_bins(rng)])


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode(), mtime=0))


def _make_points(rng: np.random.Generator) -> Iterator[str]:
    """Yield the points of people, who are at places of low numbers most often."""
    for person in range(_PEOPLE):
        for point, place in enumerate(np.minimum(rng.geometric(0.1, _POINTS), _PLACES) - 1):
            yield f"{person},{place},{format_instant(_START + 20 * point * MINUTE)}"


def _make_locations() -> Iterator[str]:
    for number in range(_PLACES):
        yield f"{number},{35 + number // _ROW / 100:.2f},{139 + number % _ROW / 100:.2f}"


def _make_bins(rng: np.random.Generator) -> Iterator[str]:
    """Yield the rows of the histograms, whose records and shares of empty bins are nearly those of the real ones."""
    histograms = [_make_histogram(rng, TABLE_2[name].scale, TABLE_2[name].sparsity) for name in NAMES]
    for number, *row in zip(count(), *histograms, strict=False):
        yield ",".join(map(str, (number, *row)))


def _make_histogram(rng: np.random.Generator, records: int, sparsity: float) -> NDArray[np.int64]:
    weights = rng.exponential(size=_BINS)
    weights[rng.permutation(_BINS)[: round(sparsity * _BINS)]] = 0
    return rng.multinomial(records, weights / weights.sum())
