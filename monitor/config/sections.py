"""The sections of the configuration about the service itself, its clock, locations, visits, privacy and page.

Durations and instants are `int` microseconds, ε is an exact `Fraction`, and paths are absolute or relative to the
working directory. For the sections about servers see `kafka_and_redis.py`, for monitors `monitor/kinds/`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from monitor.time.instants import DAY, MINUTE, SECOND
from monitor.values.single_values import (
    Duration,
    Epsilon,
    FilePath,
    Instant,
    Line,
    Name,
    PersonKey,
    Port,
    PositiveDuration,
    PublicKey,
    Section,
    Shards,
    SlotLength,
    Timezone,
    WholeNumber,
)

Language = Literal["en", "ja", "de"]
LANGUAGES: Final[tuple[Language, ...]] = ("en", "ja", "de")


class ServiceSettings(Section):
    """The name of the service and the number of its shards."""

    name: Name = Field(description="the service's name: letters, digits, - and _")
    shards: Shards = Field(default=16, description="the number of shards that the locations are divided into")


ServiceSection = Annotated[ServiceSettings, Field(description="a mapping with the service's name")]


class ClockSettings(Section):
    """The public slot grid, the delay of answers, and the tolerance between clocks."""

    slot: SlotLength = Field(description="the length of a slot, a duration such as 1h")
    origin: Instant = Field(description="the start of slot 0, an RFC 3339 time with an offset")
    release_delay: Duration = Field(description="the delay from a tick to its answers, a duration such as 30s")
    tolerance: Duration = Field(
        default=SECOND, description="the largest difference between clocks, a duration such as 1s"
    )


ClockSection = Annotated[ClockSettings, Field(description="a mapping with slot, origin and release_delay")]


class LocationsSettings(Section):
    """The public registry of locations."""

    file: FilePath = Field(description="the registry: a CSV file with the header location_id[,name,latitude,longitude]")


LocationsSection = Annotated[LocationsSettings, Field(description="a mapping with the file of locations")]


class VisitsSettings(Section):
    """How visits are accepted, and the secret with which person ids are hashed."""

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


class SigningSettings(Section):
    """The key that signs answers, and the key with which subscribers verify them."""

    key_file: FilePath | None = Field(
        default=None, description="the file with the private key that signs answers; absent: answers are not signed"
    )
    public_key: PublicKey | None = Field(
        default=None,
        description="the public key with which subscribers, the page and the audit verify answers; absent: they do not",
    )


SigningSection = Annotated[
    SigningSettings, Field(default_factory=SigningSettings, description="a mapping with key_file and public_key")
]


class PageSettings(Section):
    """The public page: what it keeps, shows and says. It needs no secret of the service."""

    title: Line | None = Field(default=None, description="the title of the page; absent: a title in each language")
    language: Language = Field(
        default="en", description="the language of the start page, and of the page and the feed of each place"
    )
    timezone: Timezone | None = Field(
        default=None, description="the time zone of all times on the page; absent: that of the monitors, or else UTC"
    )
    history: PositiveDuration = Field(default=7 * DAY, description="how far back the page can show what was published")
    history_megabytes: WholeNumber = Field(
        default=256, description="the megabytes of records to keep, in addition to those that are still valid"
    )
    unreachable_after: PositiveDuration = Field(
        default=MINUTE, description="how long the page may be without its source before it shows every place as unknown"
    )
    metrics_port: Port | None = Field(
        default=None,
        description="the port of the page's own /metrics, /healthz and /readyz; 0: any free port; absent: none",
    )
    metrics_host: Line = Field(
        default="localhost", description="the address of metrics and health, which the public should not reach"
    )
    background: FilePath | None = Field(default=None, description="a GeoJSON file to draw below the places of the map")
    audit_file: FilePath | None = Field(
        default=None,
        description="a JSON file with the result of an independent recount, as `audit --follow --result` writes it",
    )
    counted_percent: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None,
        description="the percentage of all reports that you expect to come in time to be counted; the page states it",
    )
    delays_file: FilePath | None = Field(
        default=None,
        description="a file that says how late visits are reported, as for `check --delays`; the page then says of a "
        "designated time which share of the reports has come",
    )
    texts: dict[Language, dict[str, str]] = Field(
        default_factory=dict, description="texts that replace those of the page, by language and key"
    )
