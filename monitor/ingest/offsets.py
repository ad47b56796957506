"""Offsets of an input partition that both the reader and `check --live` ask for."""

from __future__ import annotations

from typing import Any, Final

TIMEOUT_MS: Final = 10_000


def read_bounds(consumer: Any, place: Any) -> tuple[int, int]:
    """Return the first offset of a partition, and the offset after the last record that the consumer can read.

    Raises:
        KafkaError: Kafka does not answer.
    """
    first = consumer.beginning_offsets([place], timeout_ms=TIMEOUT_MS)[place]
    return int(first), int(consumer.end_offsets([place], timeout_ms=TIMEOUT_MS)[place])


def find_offset_at(consumer: Any, place: Any, instant: int) -> int | None:
    """Return the offset of the first record stamped at or after an instant; None if there is no such record.

    Raises:
        KafkaError: Kafka does not answer.
    """
    found = consumer.offsets_for_times({place: max(0, instant // 1_000)}, timeout_ms=TIMEOUT_MS)[place]
    return None if found is None else int(found.offset)
