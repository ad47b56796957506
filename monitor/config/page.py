"""The settings of the public page (`location-monitor page`)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from monitor.config.scalars import FilePath, Line, Port, PositiveDuration, Section, WholeNumber
from monitor.public.instants import DAY, MINUTE

Language = Literal["en", "ja", "de"]
LANGUAGES: Final[tuple[Language, ...]] = ("en", "ja", "de")


class PageSettings(Section):
    """The public page: its address, limits and texts. It needs no secret of the service."""

    host: Line = Field(default="localhost", description="the address to listen on; 0.0.0.0 for all IPv4 addresses")
    port: Port = Field(default=8080, description="the port; 0: any free port")
    title: Line | None = Field(default=None, description="the title of the page; absent: a title in each language")
    history: PositiveDuration = Field(default=7 * DAY, description="how far back the page can show what was published")
    history_megabytes: WholeNumber = Field(
        default=256, description="the megabytes of records to keep, in addition to those that are still valid"
    )
    unreachable_after: PositiveDuration = Field(
        default=MINUTE, description="how long the page may be without its source before it shows every place as unknown"
    )
    subscribers: WholeNumber = Field(default=2_000, description="the maximum number of open streams")
    metrics_port: Port | None = Field(
        default=None, description="the port of the page's own metrics; 0: any free port; absent: no metrics"
    )
    metrics_host: Line = Field(
        default="localhost", description="the address of the metrics, which the public should not reach"
    )
    background: FilePath | None = Field(default=None, description="a GeoJSON file to draw below the places of the map")
    audit_file: FilePath | None = Field(
        default=None,
        description="a JSON file with the result of an independent recount, as `audit --follow --result` writes it",
    )
    embed_from: Annotated[tuple[Line, ...], Field(max_length=100)] = Field(
        default_factory=tuple,
        description="the origins of pages that may embed this one, such as https://www.example.org",
    )
    texts: dict[Language, dict[str, str]] = Field(
        default_factory=dict, description="texts that replace those of the page, by language and key"
    )
