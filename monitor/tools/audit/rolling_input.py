"""Read the input for the recounts, as far as a tick needs it."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from monitor.tools.audit.reader import TopicReader, UnreadableTopicError
from monitor.tools.audit.rolling import RollingRecount
from monitor.tools.audit.topics import decode
from monitor.tools.audit.visits import accept

PATIENCE_SECONDS: Final = 30.0
_MARGIN: Final = 60 * 1_000_000
_UNKNOWN: Final = 2**62


class RollingInput:
    """The input topic, and the recounts that it feeds.

    While it catches up it reads each partition only until a record is stamped a slot and a minute after the as_of, so
    that visits of later windows need no memory. This assumes that the brokers' clocks differ by less. Person ids are
    replaced by digests with a random key, which are forgotten with the visits.
    """

    def __init__(self, reader: TopicReader, recounts: Sequence[RollingRecount], slot: int) -> None:
        self.reader = reader
        self.records = 0
        self._recounts = recounts
        self._slot = slot
        self._newest: dict[int, int] = {}
        self._complete_from: dict[int, int] = {}
        self._ends: Mapping[int, int] = {}
        self._key = os.urandom(16)

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
        heard = time.monotonic()
        while wanted := self._find_wanted(as_of + self._slot + _MARGIN, ends):
            before = dict(self.reader.positions)
            for partition, records in self.reader.poll(wanted).items():
                for record in records:
                    self._feed(partition, record)
            if self.reader.positions != before:
                heard = time.monotonic()
                continue
            self.reader.require_readable(wanted)
            if time.monotonic() - heard > PATIENCE_SECONDS:
                self.reader.close()
                raise UnreadableTopicError(f"the topic {self.reader.name} returned no records for half a minute")

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
                if not isinstance(line, int):
                    visit = accept(line, self._digest_person(line.person), recount.terms)
                    if visit is not None:
                        recount.add(visit)

    def _digest_person(self, person: str) -> int:
        return int.from_bytes(hashlib.blake2b(person.encode(), key=self._key, digest_size=16).digest())
