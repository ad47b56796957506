"""What a configuration may charge, as owner records carry it: so that others count with it (docs/rules.md, section 6).

All of it is public: which places are watched at which ε, and which times are asked about.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

EPSILON_PATTERN = r"^[1-9][0-9]*(/[1-9][0-9]*)?$"


class PlaceCharges(Struct, frozen=True):
    """One `over_time` monitor: k, W (in slots), and by ε_l the places that have it."""

    monitor: str
    answers: int
    window: int
    shares: dict[str, tuple[str, ...]]


class TimeCharges(Struct, frozen=True):
    """One monitor of designated times: ε of each, the horizon as a duration, the times as configured, and a digest."""

    monitor: str
    kind: str
    epsilon: str
    horizon: str
    at: tuple[str, ...]
    timezone: str | None
    instants: str


class Charges(Struct, frozen=True):
    """What a configuration may charge. Equal digests: equal charges, whether or not the rest is told.

    `ahead`: F, in slots. `places` and `times` are None where they would be too long for a record.
    """

    digest: str
    ahead: int
    places: tuple[PlaceCharges, ...] | None = None
    times: tuple[TimeCharges, ...] | None = None


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class PlaceChargesRecord(_Model):
    """What one monitor of places over time may charge."""

    monitor: str
    answers: int = Field(ge=1, description="Noisy answers a window.")
    window: int = Field(ge=1, description="In slots.")
    shares: dict[str, list[str]] = Field(description="By a place's ε, the places that have it.")


class TimeChargesRecord(_Model):
    """What one monitor of designated times may charge."""

    monitor: str
    kind: Literal["at_times", "hot_spots"]
    epsilon: str = Field(pattern=EPSILON_PATTERN, description="Of each designated time.")
    horizon: str = Field(description='How long a time is asked about: "2d".')
    at: list[str] = Field(description="Times of day, and instants.")
    timezone: str | None
    instants: str = Field(pattern="^[0-9a-f]{16}$", description="Equal digests: the same instants.")


class ChargesRecord(_Model):
    """What the owner's configuration may charge one person; counted by those who run another one."""

    digest: str = Field(pattern="^[0-9a-f]{16}$", description="Equal digests: equal charges.")
    ahead: int = Field(ge=0, description="How many slots ahead a visit may lie.")
    places: list[PlaceChargesRecord] | None = Field(description="null: too long for a record.")
    times: list[TimeChargesRecord] | None = Field(description="null: too long for a record.")
