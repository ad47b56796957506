"""The charges of a configuration: the ε that it may charge one person (docs/rules.md, section 6).

Owner records contain the charges, so that the owners of other partitions can add them up. All of their content is
public: the watched places, the designated times, and the ε of each.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct
from pydantic import BaseModel, ConfigDict, Field

EPSILON_PATTERN = r"^[1-9][0-9]*(/[1-9][0-9]*)?$"


class PlaceCharges(Struct, frozen=True):
    """One `over_time` monitor: k, W (in slots), and the places grouped by their ε_l."""

    monitor: str
    answers: Annotated[int, Meta(ge=1)]
    window: Annotated[int, Meta(ge=1)]
    shares: dict[str, tuple[str, ...]]


class TimeCharges(Struct, frozen=True):
    """One monitor of designated times: ε per time, the horizon as a duration, the times as configured, and a digest."""

    monitor: str
    kind: str
    epsilon: str
    horizon: str
    at: tuple[str, ...]
    timezone: str | None
    instants: str


class Charges(Struct, frozen=True):
    """The charges of a configuration. Equal digests mean equal charges.

    `max_lead` is F, in slots. `places` or `times` is None if it would be too long for a record.
    """

    digest: str
    max_lead: int
    places: tuple[PlaceCharges, ...] | None = None
    times: tuple[TimeCharges, ...] | None = None


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class PlaceChargesRecord(_Model):
    """The charges of one `over_time` monitor."""

    monitor: str
    answers: int = Field(ge=1, description="Noisy answers per window.")
    window: int = Field(ge=1, description="In slots.")
    shares: dict[str, list[str]] = Field(description="Location ids by their ε.")


class TimeChargesRecord(_Model):
    """The charges of one monitor of designated times."""

    monitor: str
    kind: Literal["at_times", "hot_spots", "at_least", "dwell"] = Field(
        description="at_least: the lower bounds of a monitor of kind at_times, which are charged separately."
    )
    epsilon: str = Field(pattern=EPSILON_PATTERN, description="The ε of each designated time.")
    horizon: str = Field(description='How long a time is evaluated, for example "2d".')
    at: list[str] = Field(description="Times of day and instants, as configured.")
    timezone: str | None
    instants: str = Field(
        pattern="^[0-9a-f]{16}$", description="Digest of the instants: equal digests mean equal instants."
    )


class ChargesRecord(_Model):
    """What the owner's configuration may charge one person. The period check of other owners reads it."""

    digest: str = Field(pattern="^[0-9a-f]{16}$", description="Equal digests mean equal charges.")
    max_lead: int = Field(ge=0, description="How many slots after the current slot a visit may end (F).")
    places: list[PlaceChargesRecord] | None = Field(description="null if too long for a record.")
    times: list[TimeChargesRecord] | None = Field(description="null if too long for a record.")
