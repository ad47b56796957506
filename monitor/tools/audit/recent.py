"""The bytes of recent records: a record may be delivered again, but only with the same bytes."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from enum import Enum, auto

from monitor.tools.audit.records import PublishedRecord

TICKS_KEPT = 4
"""The number of remembered ticks per partition. A new owner appends the last tick again, never an older one."""


class Delivery(Enum):
    """Whether a record is new, a repeat with the same bytes, or one with other bytes."""

    NEW = auto()
    REPEAT = auto()
    CHANGED = auto()


class RecentBytes:
    """The digests of the records of the last ticks of each partition, by `ce_id`."""

    def __init__(self) -> None:
        self._ticks: dict[int, OrderedDict[int, dict[bytes, bytes]]] = {}

    def take(self, record: PublishedRecord, tick: int) -> Delivery:
        """Compare a record of a tick with the earlier ones of the same `ce_id`."""
        ticks = self._ticks.setdefault(record.partition, OrderedDict())
        name, digest = _digest(record.ce_id.encode()), _digest(record.written)
        known = next((found[name] for found in ticks.values() if name in found), None)
        if known is not None:
            return Delivery.REPEAT if known == digest else Delivery.CHANGED
        ticks.setdefault(tick, {})[name] = digest
        while len(ticks) > TICKS_KEPT:
            ticks.popitem(last=False)
        return Delivery.NEW


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
