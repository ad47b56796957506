"""The destination of dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from monitor.ingest.columns import Refusal


class DeadLetters(Protocol):
    """The destination of refused visits. Each is written before progress passes it."""

    def put(self, letters: Sequence[DeadLetter]) -> None:
        """Write dead letters durably. Raises UnreachableError if that is not possible now."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A refused visit or record, with its position in the input."""

    refusal: Refusal
    partition: int
    offset: int
