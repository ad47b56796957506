"""Interfaces that the reader uses: the destination of dead letters, and the observer of its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


class IngestObserver(Protocol):
    """A receiver of the reader's metrics."""

    def count_batch(self, records: int, fates: Mapping[str, int], reasons: Mapping[str, int], seconds: float) -> None:
        """Count a written batch: its records, visits by fate, refusals by reason, and the time it took."""

    def record_timestamps(self, oldest_seconds: float | None, newest_seconds: Mapping[int, float]) -> None:
        """Record the timestamps of a written batch: the oldest one, and the newest one by input partition."""

    def count_several_places(self, people: int) -> None:
        """Count people reported at more than one place at a designated time."""

    def count_cut(self, visits: int) -> None:
        """Count visits whose departure was cut."""

    def count_late_records(self, records: int) -> None:
        """Count records that were stamped before a tick closed, but are not below its end offsets."""

    def set_lag(self, records: Mapping[int, int]) -> None:
        """Set the lag by partition, in records."""

    def count_recovery(self, cause: str) -> None:
        """Count a re-read of a partition because of `cause`."""
