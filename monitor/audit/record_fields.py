"""The parts of output records that all kinds share (docs/interface.md, section 4).

Anybody who may write to the output topic can forge a record. So msgspec checks the type and the range of every field
that the audit uses. These types share nothing with the contracts of the service.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from monitor.audit.history import History
from monitor.audit.parse_values import format_utc, parse_instant

_MOST: Final = 2**63 - 1
_LONGEST_EPSILON: Final = 400

Whole = Annotated[int, Meta(ge=-_MOST, le=_MOST)]
People = Annotated[int, Meta(ge=0, le=_MOST)]
Positive = Annotated[int, Meta(ge=1, le=_MOST)]
Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
Status = Literal["complete", "unknown"]


class FormError(Exception):
    """A record is not in the form of docs/interface.md. The message names a field, and quotes nothing of the record."""


class Instant(int):
    """An instant in microseconds, written as a time in UTC with Z."""


class Answer(Struct, frozen=True, kw_only=True):
    """The fields of every answer."""

    monitor: str
    kind: str
    tick: Whole
    as_of: Instant
    epsilon: Fraction

    @property
    def subject(self) -> str:
        """What the answer is about, after the monitor in its key."""
        raise NotImplementedError

    @property
    def watched(self) -> str:
        """The location whose public values differ from those of other answers; empty if all have equal ones."""
        return ""

    def note_unjudged(self, history: History) -> None:
        """Note in the history that this answer is not judged: what it says about earlier ones counts as correct."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the output topic, which may have any form."""

    position: str
    """Where it was read, in words."""
    partition: int
    key: str
    headers: Mapping[str, str]
    written: bytes
    """All its bytes."""
    form: Any
    """Its fields; None if they do not have the form of its kind, and `fault` is then the reason."""
    fault: str
    tick: int | None
    monitor: str
    """`tick`, `monitor`: those of the value, also if it has another form."""

    @property
    def kind(self) -> str:
        """The last part of its ce_type; empty if it has none."""
        return self.headers.get("ce_type", "").rpartition(".")[2]

    @property
    def ce_id(self) -> str:
        """Its ce_id; empty if it has none."""
        return self.headers.get("ce_id", "")


@lru_cache(maxsize=4096)
def parse_utc(text: str) -> Instant:
    """Parse a time as records have it, in UTC with Z. Raise ValueError for another form."""
    try:
        at = parse_instant(text)
        if format_utc(at) == text:
            return Instant(at)
    except (ValueError, OverflowError):
        pass
    raise ValueError("Expected a time in UTC with Z")


@lru_cache(maxsize=4096)
def parse_recorded_epsilon(text: str) -> Fraction:
    """Parse an ε as records have it, `3` or `1/2`. Raise ValueError for another form."""
    try:
        if len(text) <= _LONGEST_EPSILON and str(Fraction(text)) == text and text[:1] not in ("-", "0"):
            return Fraction(text)
    except (ValueError, ZeroDivisionError):
        pass
    raise ValueError("Expected an ε, a whole number or a reduced fraction")
