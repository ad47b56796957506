"""The bytes of recent records: a record may be delivered again, but only with the same bytes."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from monitor.tools.audit.records import PublishedRecord

TICKS_KEPT = 4
"""The number of remembered ticks per partition. A new owner appends the last tick again, never an older one."""


class RecentBytes:
    """The digests of the records of the last ticks of each partition, by `ce_id`."""

    def __init__(self) -> None:
        self._ticks: dict[int, OrderedDict[int, dict[bytes, bytes]]] = {}

    def take(self, record: PublishedRecord, tick: int) -> bool | None:
        """Return whether a record of a tick has the bytes of the earlier one with its `ce_id`; None if it is new."""
        ticks = self._ticks.setdefault(record.partition, OrderedDict())
        name, digest = _digest(record.ce_id.encode()), _digest(record.written)
        known = next((found[name] for found in ticks.values() if name in found), None)
        if known is not None:
            return known == digest
        ticks.setdefault(tick, {})[name] = digest
        while len(ticks) > TICKS_KEPT:
            ticks.popitem(last=False)
        return None


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
