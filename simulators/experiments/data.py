"""The datasets of the experiments: their titles and files, how they are read, and the data of the paper."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import UsageError
from simulators.continuous_noise import Floats, Places

DEFAULT_FOLDER: Final = Path("data")
SYNTHETIC: Final = "SYNTHETIC.txt"
"""The note in a folder whose data is synthetic (`simulators.synthetic`)."""

HOW_TO_GET_DATA: Final = (
    "docs/experiments.md says how to build the files; `python -m simulators synthetic --out data` writes synthetic ones"
)


@dataclass(frozen=True, slots=True)
class Items:
    """The number of records with each item, shape (largest id + 1,), 0 for ids that never occur."""

    counts: NDArray[np.int64]

    @property
    def noisy_max(self) -> NDArray[np.int64]:
        """The counts in the authors' noisy max: those of ids 0 to the largest - 1."""
        return self.counts[:-1]

    @property
    def sparse_vector(self) -> NDArray[np.int64]:
        """The counts in the authors' sparse vector: those of ids 1 to the largest."""
        return self.counts[1:]

    @property
    def seen(self) -> NDArray[np.int64]:
        """The counts of the items that occur."""
        return self.counts[self.counts > 0]

    def count_last_twice(self, records: int) -> Items:
        """Estimate the counts of a reader that counts the last item of each record twice.

        Records list items in ascending order, so the last item is the largest. Because the records are not available,
        items are assumed to be independent: then item i is the last one in n·p_i·Π_{j>i} (1 - p_j) of n records, with
        p_i = count_i/n.
        """
        shares = self.counts / records
        none_above = np.append(np.cumprod((1 - shares)[:0:-1])[::-1], 1.0)
        return Items(self.counts + np.rint(records * shares * none_above).astype(np.int64))


@dataclass(frozen=True, slots=True)
class Movements:
    """The places of people. Those of person i, each once, are places[starts[i]:starts[i + 1]] (0 to locations - 1)."""

    starts: Places
    places: Places
    locations: int
    location_ids: tuple[str, ...]
    coordinates: Floats
    """Latitude and longitude in degrees, shape (locations, 2)."""

    @property
    def people(self) -> int:
        """The number of people with a visit."""
        return self.starts.size - 1


def find_note(folder: Path) -> str:
    """Return the note about synthetic data, or an empty text."""
    if not (folder / SYNTHETIC).is_file():
        return ""
    return "The data is synthetic: the names of data sets only name files, and no value is a value of the paper's data"


def read_items(path: Path, largest_id: int = 0) -> Items:
    """Read counts of items (`item,count`, gzipped or not). All ids up to `largest_id` are items, even if never seen.

    Raises:
        UsageError: the file cannot be read, or an id or count is not a whole number, 0 or more.
    """
    found: dict[int, int] = {}
    for number, row in read_rows(path, ("item", "count")):
        item, count = parse_whole(path, number, "item", row["item"]), parse_whole(path, number, "count", row["count"])
        found[item] = found.get(item, 0) + count
    if not found:
        raise UsageError(f"{path} has no item: expected rows of item,count")
    counts = np.zeros(max(*found, largest_id) + 1, np.int64)
    counts[list(found)] = list(found.values())
    return Items(counts)


def read_movements(visits: Path, locations: Path) -> Movements:
    """Read points (`person_id,location_id`) and public places (`location_id,lat,lon`). Times are ignored.

    Raises:
        UsageError: a file cannot be read, or a visit is at a place that is not listed.
    """
    places: dict[str, int] = {}
    coordinates: list[tuple[float, float]] = []
    for number, row in read_rows(locations, ("location_id", "lat", "lon")):
        places[row["location_id"]] = len(places)
        coordinates.append(
            (_parse_degrees(locations, number, row["lat"]), _parse_degrees(locations, number, row["lon"]))
        )
    visited: dict[str, set[int]] = {}
    for number, row in read_rows(visits, ("person_id", "location_id")):
        place = places.get(row["location_id"])
        if place is None:
            raise UsageError(
                f"{visits}, line {number}: location_id is {row['location_id']!r}: expected an id in {locations}"
            )
        visited.setdefault(row["person_id"], set()).add(place)
    if not visited:
        raise UsageError(f"{visits} has no visit: expected rows of person_id,location_id")
    return _make_movements(list(visited.values()), tuple(places), np.array(coordinates))


def _make_movements(visited: Sequence[Iterable[int]], location_ids: tuple[str, ...], coordinates: Floats) -> Movements:
    rows = [np.array(sorted(places), np.int64) for places in visited]
    starts = np.concatenate([[0], np.cumsum([row.size for row in rows])]).astype(np.int64)
    return Movements(starts, np.concatenate(rows), len(location_ids), location_ids, coordinates)


def read_rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the rows with their line numbers. Raise UsageError if a row lacks one of the columns."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            reader = csv.DictReader(file)
            lacking = [name for name in columns if name not in (reader.fieldnames or ())]
            if lacking:
                raise UsageError(f"{path} has no column {lacking[0]!r}: expected a header with {','.join(columns)}")
            for row in reader:
                if any(row[name] is None for name in columns):
                    raise UsageError(f"{path}, line {reader.line_num}: expected {','.join(columns)}; the row is short")
                yield reader.line_num, row
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def parse_whole(path: Path, line: int, column: str, text: str) -> int:
    """Return the number in a cell. Raise UsageError if it is not a whole number, 0 or more."""
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{path}, line {line}: {column} is {text!r}: expected a whole number, 0 or more")
    return int(text)


def _parse_degrees(path: Path, line: int, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UsageError(f"{path}, line {line}: a coordinate is {text!r}: expected degrees") from error


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
