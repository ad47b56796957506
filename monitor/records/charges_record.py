"""The charges of a configuration: the ε that it may charge one person (docs/rules.md, section 6).

Owner records contain the charges, so that the owners of other partitions can add them up. All of their content is
public: the watched places, the designated times, and the ε of each.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from monitor.records.fields import Digest, Epsilon, Positive, Whole, read_epsilon


class PlaceCharges(Struct, frozen=True, omit_defaults=True):
    """The charges of one monitor of listed places."""

    monitor: str
    answers: Annotated[Positive, Meta(description="Noisy answers per window; of kind upper_bound, numbers per window.")]
    window: Annotated[Positive, Meta(description="In slots.")]
    shares: Annotated[dict[str, tuple[str, ...]], Meta(description="Location ids by their ε.")]
    bucket: Annotated[Positive | None, Meta(description="Only of kind upper_bound: the slots of a bucket.")] = None

    def __post_init__(self) -> None:
        """Raise EpsilonError if a key of `shares` is not an ε."""
        for epsilon in self.shares:
            read_epsilon(epsilon)


class TimeCharges(Struct, frozen=True):
    """The charges of one monitor of designated times."""

    monitor: str
    kind: Annotated[
        str,
        # A later version may charge another kind, and its charges count too. The published schema lists those of now.
        Meta(description="at_least: the lower bounds of a monitor of kind at_times, which are charged separately."),
    ]
    epsilon: Annotated[Epsilon, Meta(description="The ε of each designated time.")]
    horizon: Annotated[str, Meta(description='How long a time is evaluated, for example "2d".')]
    at: Annotated[tuple[str, ...], Meta(description="Times of day and instants, as configured.")]
    timezone: str | None
    instants: Annotated[Digest, Meta(description="Digest of the instants: equal digests mean equal instants.")]


class Charges(Struct, frozen=True):
    """What the owner's configuration may charge one person. The period check of other owners reads it."""

    digest: Annotated[Digest, Meta(description="Equal digests mean equal charges.")]
    max_lead: Annotated[Whole, Meta(description="How many slots after the current slot a visit may end (F).")]
    places: Annotated[tuple[PlaceCharges, ...] | None, Meta(description="null if too long for a record.")]
    times: Annotated[tuple[TimeCharges, ...] | None, Meta(description="null if too long for a record.")]
