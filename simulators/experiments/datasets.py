"""The datasets: their titles and files, and the paper's datasets that they are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simulators.experiments.data import Items, Movements, read_items, read_movements


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A dataset with counts of items: the name in the paper, our title, and the file.

    All ids up to `largest_id` are items, even if they never occur. If the paper's program counted the last item of each
    record twice, `records` is the number of records.
    """

    paper_dataset: str
    title: str
    file: str
    largest_id: int = 0
    records: int | None = None

    def read(self, folder: Path) -> Items:
        """Read the counts. Raise UsageError if the file is invalid."""
        items = read_items(folder / self.file, self.largest_id)
        return items if self.records is None else items.count_last_twice(self.records)


@dataclass(frozen=True, slots=True)
class Place:
    """A dataset with people and their places: title, files, and whether it is compared with the paper's values."""

    title: str
    visits: str
    locations: str
    compared: bool

    def read(self, folder: Path) -> Movements:
        """Read the movements. Raise UsageError if a file is invalid."""
        return read_movements(folder / self.visits, folder / self.locations)


BMS_POS: Final = "BMS-POS"
KOSARAK: Final = "Kosarak"
T40: Final = "T40I10D100K"
PEOPLE_FLOW: Final = "People Flow"

T40_COUNTED: Final = "T40I10D100K"
T40_SLIP: Final = "T40I10D100K, last items twice (estimated)"
KOSARAK_ESTIMATED: Final = "Kosarak (ESTIMATED counts)"
HISTOGRAM: Final = "People Flow, from Figure 1's histogram"
PEOPLE_FLOW_CELLS: Final = "People Flow, 400 cells and 1,000 people"
GOWALLA: Final = "Gowalla, 1,000 people"

_T40_FILE: Final = "topk_t40i10d100k_counts.csv.gz"

CATALOGUES: Final = (
    Catalogue(T40, T40_COUNTED, _T40_FILE),
    Catalogue(T40, T40_SLIP, _T40_FILE, records=100_000),
    Catalogue(KOSARAK, KOSARAK_ESTIMATED, "topk_kosarak_estimated_counts.csv.gz", largest_id=41_270),
    Catalogue(BMS_POS, BMS_POS, "topk_bms_pos_counts.csv.gz"),
)

PLACES: Final = (
    Place(PEOPLE_FLOW_CELLS, "peopleflow_tokyo_traces.csv.gz", "peopleflow_tokyo_locations.csv.gz", compared=True),
    Place(GOWALLA, "gowalla_checkins.csv.gz", "gowalla_locations.csv.gz", compared=False),
)


def find_missing(folder: Path, files: tuple[str, ...]) -> tuple[str, ...]:
    """Return the files that are not in the folder."""
    return tuple(name for name in files if not (folder / name).is_file())
