"""What a reader needs of others: where refused visits go, and who counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from monitor.ingest.columns import Refusal


class DeadLetters(Protocol):
    """Where refused visits go, each once, before progress passes them."""

    def put(self, letters: Sequence[DeadLetter]) -> None:
        """Write them all durably. Raises UnreachableError if that can't be done now."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A refused visit or record, and where it was read."""

    refusal: Refusal
    partition: int
    offset: int


class IngestObserver(Protocol):
    """What is counted of the reading."""

    def batch(self, records: int, fates: Mapping[str, int], reasons: Mapping[str, int], seconds: float) -> None:
        """A batch was written: how many records, visits by fate, what was refused by reason, the time it took."""

    def several_places(self, people: int) -> None:
        """So many times a person was reported at more than one place at a designated time."""

    def lag(self, records: Mapping[int, int]) -> None:
        """How far behind the reading is, by partition, in records."""

    def recovery(self, cause: str) -> None:
        """Reading begins anew somewhere, because of `cause`."""
