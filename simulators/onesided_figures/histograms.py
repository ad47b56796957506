"""Read DPBench-1D ([OSDP], section 6; docs/literature.md): seven histograms with the same bins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import UsageError
from simulators.experiments.data import parse_whole, read_rows

FILE: Final = "dpbench1d.csv.gz"
NAMES: Final = ("adult", "nettrace", "medcost", "searchlogs", "income", "hepth", "patent")
"""The paper's datasets, by falling sparsity."""


@dataclass(frozen=True, slots=True)
class PrintedShape:
    """The paper's Table 2: the share of empty bins, and the number of records."""

    sparsity: float
    scale: int


TABLE_2: Final = {
    "adult": PrintedShape(0.98, 17_665),
    "hepth": PrintedShape(0.21, 347_414),
    "income": PrintedShape(0.45, 20_787_122),
    "nettrace": PrintedShape(0.97, 25_714),
    "medcost": PrintedShape(0.75, 9_415),
    "patent": PrintedShape(0.06, 27_948_226),
    "searchlogs": PrintedShape(0.51, 335_889),
}


def read_histograms(folder: Path) -> dict[str, NDArray[np.int64]]:
    """Return the histograms by name, in the order of NAMES.

    Raise UsageError if the file is missing or invalid.
    """
    path = folder / FILE
    lines = read_rows(path, ("bin", *NAMES))
    rows = [[parse_whole(path, number, name, row[name]) for name in NAMES] for number, row in lines]
    found = dict(zip(NAMES, np.array(rows, np.int64).reshape(len(rows), len(NAMES)).T, strict=True))
    if not all(counts.any() for counts in found.values()):
        raise UsageError(f"{path} has no rows or an empty histogram: expected counts of records")
    return found
