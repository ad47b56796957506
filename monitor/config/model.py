"""The configuration, section by section as in the file (docs/interface.md, section 3).

Durations and instants are `int` microseconds, ε is an exact `Fraction`, and paths are absolute or relative to the
working directory.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from monitor.config.monitors import Monitor
from monitor.config.rules import Sections, broken_rules
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
from monitor.config.servers import KafkaSettings, MetricsSettings, RedisSettings
from monitor.public.instants import SECOND


class ServiceSettings(Section):
    """The name of the service and the number of its shards."""

    name: Name = Field(description="the service's name: letters, digits, - and _")
    shards: Shards = Field(default=16, description="the number of shards that the locations are divided into")


class ClockSettings(Section):
    """The public slot grid, the delay of answers, and the tolerance between clocks."""

    slot: SlotLength = Field(description="the length of a slot, a duration such as 1h")
    origin: Instant = Field(description="the start of slot 0, a time of RFC 3339 with its offset")
    release_delay: Duration = Field(description="the delay from a tick to its answers, a duration such as 30s")
    tolerance: Duration = Field(
        default=SECOND, description="the largest difference between clocks, a duration such as 1s"
    )


class LocationsSettings(Section):
    """The public registry of locations."""

    file: FilePath = Field(description="the registry: a CSV file with the header location_id[,name,latitude,longitude]")


class VisitsSettings(Section):
    """Which visits are accepted, and the secret that person ids are hashed with."""

    default_stay: PositiveDuration = Field(description="the length of a visit without left_at, a duration")
    accept_ahead: Duration = Field(
        description="how far ahead of its record a visit may be dated, a whole number of slots"
    )
    person_key_file: FilePath | None = Field(default=None, description="the file of the secret for person ids")
    person_key: Annotated[PersonKey | None, SkipJsonSchema()] = Field(default=None)


class PrivacySettings(Section):
    """The most ε that one person may pay, and the period in which this limit applies."""

    epsilon: Epsilon = Field(description="the most ε that one person may pay in the period")
    period: PositiveDuration = Field(description="the period, a duration such as 14d")


class Config(Section):
    """The whole configuration, as `load_config` reads it. Validation includes the rules between sections."""

    service: ServiceSettings = Field(description="a mapping with the service's name")
    clock: ClockSettings = Field(description="a mapping with slot, origin and release_delay")
    locations: LocationsSettings = Field(description="a mapping with the file of locations")
    visits: VisitsSettings = Field(description="a mapping with default_stay and accept_ahead")
    privacy: PrivacySettings = Field(description="a mapping with epsilon and period")
    monitors: tuple[Monitor, ...] = Field(min_length=1, description="a list of monitors, at least one")
    kafka: KafkaSettings = Field(description="a mapping with bootstrap_servers and topics")
    redis: RedisSettings = Field(description="a mapping with the url")
    metrics: MetricsSettings = Field(default_factory=MetricsSettings, description="a mapping with the port")

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        problems = tuple(
            broken_rules(
                Sections(self.clock, self.visits, self.kafka, self.redis, dict(enumerate(self.monitors)), self.service)
            )
        )
        if problems:
            raise ValueError("; ".join(str(problem) for problem in problems))
        return self
