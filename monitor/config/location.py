"""A location of the registry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A public place; latitude and longitude in degrees."""

    id: str
    name: str | None = None
    latitude: float | None = None
    longitude: float | None = None
