"""Read the input for the recounts, as far as a tick needs it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from monitor.tools.audit.reader import PATIENCE_SECONDS, HiddenRecordsError, TopicReader
from monitor.tools.audit.recount import Recount
from monitor.tools.audit.visits import decode

_UNKNOWN: Final = 2**62


class Input:
    """The input topic, and the recounts that it feeds.

    `ahead`: each partition is read only until a record is stamped so many microseconds after the as_of of the tick that
    is judged, so that visits of later windows need no memory.
    """

    def __init__(self, reader: TopicReader, recounts: Sequence[Recount], ahead: int) -> None:
        self.reader = reader
        self.records = 0
        self._recounts = recounts
        self._ahead = ahead
        self._newest: dict[int, int] = {}
        self._complete_from: dict[int, int] = {}
        self._ends: Mapping[int, int] = {}

    @property
    def complete_from(self) -> int | None:
        """The instant since which the input is complete; None if nothing has expired."""
        unread = self.reader.skipped | {partition for partition, first in self.reader.first.items() if first}
        return max((self._complete_from.get(partition, _UNKNOWN) for partition in unread), default=None)

    @property
    def lag(self) -> int:
        """The number of offsets between the positions and the end offsets of the last request."""
        return self.reader.compute_lag(self._ends)

    @property
    def ends(self) -> Mapping[int, int]:
        """The end offsets of the last request."""
        return self._ends

    def ask_ends(self) -> None:
        """Request the end offsets. Every visit that is counted by an answer read so far is before them.

        Raises:
            UnreadableTopicError: the topic cannot be read.
        """
        self._ends = self.reader.ask_ends()

    def read_to(self, as_of: int, ends: Mapping[int, int]) -> None:
        """Read what the counts of a tick need, at most to these ends.

        Raises:
            HiddenRecordsError: an open transaction, or a lagging follower, hides records that the counts need.
            UnreadableTopicError: the topic cannot be read, or returns no records.
        """
        self.reader.read_while(lambda: self._find_wanted(as_of + self._ahead, ends), self._feed, waits=False)

    def read_rest(self) -> None:
        """Read to the end offsets of the last request, also what no tick counts. Raises as `read_to` does."""
        began = time.monotonic()
        while True:
            try:
                self.read_to(_UNKNOWN, self._ends)
            except HiddenRecordsError:
                if time.monotonic() - began > PATIENCE_SECONDS:
                    raise
            else:
                return

    def _find_wanted(self, until: int, ends: Mapping[int, int]) -> Mapping[int, int]:
        return {
            partition: end
            for partition, end in ends.items()
            if self.reader.positions.get(partition, 0) < end and self._newest.get(partition, 0) < until
        }

    def _feed(self, partition: int, record: Any) -> None:
        self.records += 1
        stamped = record.timestamp * 1_000
        self._newest[partition] = max(stamped, self._newest.get(partition, stamped))
        if partition in self.reader.skipped:
            self.reader.skipped.discard(partition)
            self._complete_from[partition] = stamped
        self._complete_from.setdefault(partition, stamped)
        for recount in self._recounts:
            for line in decode(record.value, stamped, recount.terms):
                recount.take(line)
