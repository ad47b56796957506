"""Who publishes the answers, which no configuration states."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final

OPEN: Final = "TO BE FILLED IN"
"""The beginning of each text that the publisher has to write."""

CURATOR_TYPES: Final = ("Government", "Industry", "Nonprofit")
SECTORS: Final = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
"""The kinds of publishers and the sectors that the registry knows."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """The body that publishes the answers. `curator`, `region`, `contact` and `author` are None if they are not given.

    `published`: the day of the first publication. `author`: who files the registry entry.
    """

    published: date
    curator: str | None = None
    curator_type: str = CURATOR_TYPES[0]
    sector: str = SECTORS[1]
    region: str | None = None
    contact: str | None = None
    author: str | None = None


def fill_in(value: str | None, what: str) -> str:
    """Return the value, or if it is None a text that says what has to be filled in."""
    return f"{OPEN}: {what}" if value is None else value
