"""Whose clock stamped a record: a visit's fate depends on the broker's (docs/rules.md, rule 7)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final, Protocol

LOG_APPEND_TIME: Final = 1
"""Kafka's type of a timestamp that the broker gave; 0 is the producer's."""


class Stamped(Protocol):
    """A record, as kafka-python gives it."""

    @property
    def timestamp_type(self) -> int:
        """0: the producer's time; 1: the broker's."""


def first_run(records: Sequence[Stamped]) -> tuple[int, int] | None:
    """The first run [begin, end) of records that the broker did not stamp; None if it stamped all."""
    if all(record.timestamp_type == LOG_APPEND_TIME for record in records):
        return None
    begin = sum(1 for _ in takewhile(lambda record: record.timestamp_type == LOG_APPEND_TIME, records))
    run = takewhile(lambda record: record.timestamp_type != LOG_APPEND_TIME, records[begin:])
    return begin, begin + sum(1 for _ in run)
