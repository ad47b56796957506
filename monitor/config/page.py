"""The settings of the public page (`location-monitor page`)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from monitor.config.scalars import FilePath, Line, Origin, Port, PositiveDuration, Section, WholeNumber
from monitor.contracts.instants import DAY, MINUTE

Language = Literal["en", "ja", "de"]
LANGUAGES: Final[tuple[Language, ...]] = ("en", "ja", "de")

_MOST_FROM_AN_ADDRESS: Final = 200
_HOST_ITSELF: Final = ("localhost", "127.0.0.1", "::1")


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
    connections_per_address: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="the maximum number of connections from one address; 0: no limit, for a proxy; absent: 200, or no "
        "limit if page.host is the host itself, because then only a proxy connects",
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
    embed_from: Annotated[tuple[Origin, ...], Field(max_length=100)] = Field(
        default_factory=tuple,
        description="the origins of pages that may embed this one, such as https://www.example.org",
    )
    texts: dict[Language, dict[str, str]] = Field(
        default_factory=dict, description="texts that replace those of the page, by language and key"
    )

    @property
    def most_from_an_address(self) -> int | None:
        """The maximum number of connections from one address; None: no limit."""
        if self.connections_per_address is None:
            return None if self.host in _HOST_ITSELF else _MOST_FROM_AN_ADDRESS
        return self.connections_per_address or None
