"""Read every published version of an agency's exposure events: the places where infected people had been, and when.

The file is CSV (gzipped or not) with the columns id, version, published, event, location, start and end. A row is one
published version of one event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from monitor.errors import TimeError, UsageError
from monitor.time.instants import parse_instant
from simulators.experiments.data import read_rows

COLUMNS: Final = ("id", "version", "published", "event", "location", "start", "end")

_DATE: Final = re.compile(r"[\s:(,-]*\d{1,2}/\d{1,2}/\d{2,4}[\s)]*$")


@dataclass(frozen=True, slots=True)
class Version:
    """One published version of an event: the place, and the times of the visit and of the publication (instants)."""

    place: str
    start: int
    end: int
    published: int


@dataclass(frozen=True, slots=True)
class Event:
    """An exposure event with its versions in order of publication. The first one is what was published first."""

    versions: tuple[Version, ...]

    @property
    def first(self) -> Version:
        """The version that was published first."""
        return self.versions[0]

    @property
    def last(self) -> Version:
        """The version that was published last, which counts as the truth."""
        return self.versions[-1]

    @property
    def moved(self) -> bool:
        """Whether the place of the first version was wrong."""
        return self.first.place != self.last.place

    @property
    def retimed(self) -> bool:
        """Whether the times of the first version were wrong."""
        return (self.first.start, self.first.end) != (self.last.start, self.last.end)


@dataclass(frozen=True, slots=True)
class Epidemic:
    """All events, the registry (every place of any version) and the number of events without a valid visit."""

    events: tuple[Event, ...]
    places: tuple[str, ...]
    invalid: int
    versions: int

    @property
    def delays(self) -> list[int]:
        """The times from the end of each visit to its first publication (microseconds), ascending."""
        return sorted(event.first.published - event.first.end for event in self.events)


def read_epidemic(path: Path) -> Epidemic:
    """Read all versions. A version without times, or that ends before it starts or after its publication, is left out.

    Raises:
        UsageError: the file cannot be read, or no event is valid.
    """
    found: dict[str, list[Version]] = {}
    rows = 0
    for _, row in read_rows(path, COLUMNS):
        rows += 1
        listed = found.setdefault(row["id"], [])
        version = _read_version(row)
        if version is not None:
            listed.append(version)
    ordered = [tuple(sorted(listed, key=lambda version: version.published)) for listed in found.values()]
    events = tuple(sorted((Event(listed) for listed in ordered if listed), key=lambda event: event.first.published))
    if not events:
        raise UsageError(f"{path} has no event with valid times: expected rows of {','.join(COLUMNS)}")
    places = sorted({version.place for event in events for version in event.versions})
    return Epidemic(events, tuple(places), len(found) - len(events), rows)


def _read_version(row: Mapping[str, str]) -> Version | None:
    try:
        start, end, published = (parse_instant(row[name]) for name in ("start", "end", "published"))
    except TimeError:
        return None
    return Version(_name_place(row), start, end, published) if start < end <= published else None


def _name_place(row: Mapping[str, str]) -> str:
    """Return the address. If it has no number, it names only a town: then the event's title without its date."""
    address = " ".join(row["location"].split())
    if any(letter.isdigit() for letter in address):
        return address
    return _DATE.sub("", " ".join(row["event"].split())) or row["id"]
