"""The sections of the configuration about the service itself, its clock, locations, visits and privacy.

Durations and instants are `int` microseconds, ε is an exact `Fraction`, and paths are absolute or relative to the
working directory. For the sections about servers see `servers.py`, for monitors `monitors.py`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from monitor.config.scalars import (
    Duration,
    Epsilon,
    FilePath,
    Instant,
    Name,
    PersonKey,
    PositiveDuration,
    Section,
    Shards,
    SlotLength,
)
from monitor.contracts.instants import SECOND


class ServiceSettings(Section):
    """The name of the service and the number of its shards."""

    name: Name = Field(description="the service's name: letters, digits, - and _")
    shards: Shards = Field(default=16, description="the number of shards that the locations are divided into")


class ClockSettings(Section):
    """The public slot grid, the delay of answers, and the tolerance between clocks."""

    slot: SlotLength = Field(description="the length of a slot, a duration such as 1h")
    origin: Instant = Field(description="the start of slot 0, an RFC 3339 time with an offset")
    release_delay: Duration = Field(description="the delay from a tick to its answers, a duration such as 30s")
    tolerance: Duration = Field(
        default=SECOND, description="the largest difference between clocks, a duration such as 1s"
    )


class LocationsSettings(Section):
    """The public registry of locations."""

    file: FilePath = Field(description="the registry: a CSV file with the header location_id[,name,latitude,longitude]")


class VisitsSettings(Section):
    """The rules for accepting visits, and the secret with which person ids are hashed."""

    default_stay: PositiveDuration = Field(description="the length of a visit without left_at, a duration")
    accept_ahead: Duration = Field(
        description="how far after its record's timestamp a visit may begin, a whole number of slots; it may end "
        "default_stay later"
    )
    person_key_file: FilePath | None = Field(
        default=None, description="the file with the secret that person ids are hashed with"
    )
    person_key: Annotated[PersonKey | None, SkipJsonSchema()] = Field(default=None)


class PrivacySettings(Section):
    """The most ε that one person may pay, and the period in which this limit applies."""

    epsilon: Epsilon = Field(description="the most ε that one person may pay in the period")
    period: PositiveDuration = Field(description="the period, a duration such as 14d")
