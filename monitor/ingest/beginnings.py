"""Where the reading of a partition begins or goes on, and from which slot on its facts are whole then.

That is decided by the windows' own progress, not by offsets committed to Kafka: facts and progress are written
together, so whatever is lost with one is lost with the other, and read again. Without progress, what was committed
tells what has had its fate already.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from monitor.brokers.groups import CommittedOffsets
from monitor.ingest.accept import DEAD_LETTER
from monitor.ingest.batches import Unreadable
from monitor.ingest.columns import by_reason, unreadable
from monitor.ingest.ports import DeadLetter, DeadLetters, IngestObserver
from monitor.ingest.source import InputLog
from monitor.public.clock import Clock
from monitor.public.parameters import Parameters
from monitor.windows.facts import COMPLETE_FROM_START, Windows

log = logging.getLogger(__name__)


class Beginnings:
    """Decides where partitions begin, and tells the windows. Used by the reader's thread.

    `lost`: by partition that lost records, as this reader saw, the slot from which its facts are whole. `letters_from`:
    by partition, the offset below which what was refused was written by earlier groups.
    """

    def __init__(
        self,
        parameters: Parameters,
        source: InputLog,
        windows: Windows,
        dead_letters: DeadLetters,
        observer: IngestObserver,
        clock: Clock,
    ) -> None:
        self._parameters = parameters
        self._source = source
        self._windows = windows
        self._dead_letters = dead_letters
        self._observer = observer
        self._clock = clock
        self._commits: Mapping[int, CommittedOffsets] | None = None
        self.lost: dict[int, int] = {}
        self.letters_from: dict[int, int] = {}

    def ask_again(self) -> None:
        """Forget what the service's groups have committed: it is asked for when it is needed next."""
        self._commits = None

    def tell_again(self, partition: int, least: int) -> None:
        """Tell the store of a loss again, at the least that any shard has: another one may have fallen back as well."""
        offset = least if least >= 0 else self._source.bounds(partition)[0]
        self._windows.restart(partition, offset, self.lost[partition])
        self._observer.recovery("log_lost_records")

    def of(self, partition: int, progress: Sequence[Mapping[int, int]]) -> int:
        """The offset at which a partition goes on, with what that means for the windows' progress and `since`.

        `progress`: by shard, that of each partition.

        Raises:
            UnreachableError: a server cannot be used now.
            WindowsError: the windows' store holds what is not ours.
        """
        known = [shard.get(partition) for shard in progress]
        # Bounds are asked for after the progress was read, so that progress made meanwhile can't look lost.
        first, end = self._source.bounds(partition)
        reached = [offset for offset in known if offset is not None]
        truncated, unread = self._source.truncated.pop(partition, None), self._source.unread.pop(partition, None)
        if truncated is not None:
            offset = min(max(truncated, first), end)
            self._lost(partition, offset)
            return offset
        if unread is not None and None not in known and unread.first <= min(reached) < unread.end:
            return self._pass(partition, unread, end)
        if reached and max(reached) > end:
            self._lost(partition, end)
            return end
        if reached and min(reached) < first:
            return self._behind(partition, first, end)
        if len(reached) < len(known):
            offset, complete_from = self._whole_from(partition, first, end)
            offset = self._unread_from(partition, offset, first, end)
            self._windows.begin(partition, offset, complete_from)
            self._observer.recovery("no_progress")
            reached.append(offset)
        return min(reached)

    def _whole_from(self, partition: int, first: int, end: int) -> tuple[int, int]:
        """Where to begin without progress, and the slot from which the facts are whole then.

        A visit may be reported F slots before its last slot, so reading begins F slots before the first slot that
        anyone may still ask about. The log's own beginning holds everything; a log that begins later has nothing of
        before to show that it was kept long enough: under a shorter window it may not have been.
        """
        if self._clock.simulated:
            return first, COMPLETE_FROM_START
        grid = self._parameters.grid
        complete_from = grid.slot_of(self._now()) - self._parameters.history_slots
        offset = self._source.offset_at(partition, grid.start(complete_from - self._parameters.max_lead))
        offset = end if offset is None else offset
        # Asked for after the offset, so that what expired meanwhile can't look kept.
        first, end = self._source.bounds(partition)
        if offset > first:
            return offset, complete_from
        return first, COMPLETE_FROM_START if first == 0 else self._whole_after(partition, first, end, complete_from)

    def _whole_after(self, partition: int, first: int, end: int, complete_from: int) -> int:
        """The slot from which facts are whole where records below the log's first one are gone.

        They were stamped no later than it, but for `tolerance`, so their visits lie at most F slots ahead of its slot.
        """
        grid, max_lead = self._parameters.grid, self._parameters.max_lead
        now = grid.slot_of(self._now() + self._parameters.tolerance)
        if first == end:
            return now + 1 + max_lead
        beyond = range(complete_from - max_lead + 1, now + 1)

        def stamped_before(at: int) -> bool:
            # By as much as clocks may differ: another leader before may have stamped later than the first one left.
            return self._source.offset_at(partition, grid.start(at) - self._parameters.tolerance) != first

        passed = bisect_left(beyond, True, key=stamped_before)  # noqa: FBT003  # what is looked for
        return beyond.start + passed + max_lead

    def _behind(self, partition: int, first: int, end: int) -> int:
        """Records were deleted before they were read: by age, or by somebody.

        Where the log still holds older ones than anyone may ask about, those that are gone are older still.
        """
        offset, complete_from = self._whole_from(partition, first, end)
        if offset == first > 0 and not self._clock.simulated:
            self._lost(partition, first)
            return first
        offset = self._unread_from(partition, offset, first, end)
        self._windows.restart(partition, offset, complete_from)
        self._observer.recovery("behind_the_log")
        return offset

    def _unread_from(self, partition: int, offset: int, first: int, end: int) -> int:
        """Where to begin so that nothing is passed by: no later than where all that was ever read here ends.

        What no group of the service has read has no fate yet, however old it is. What all of them have read was
        refused before: their dead letters are not written again.
        """
        if self._clock.simulated:
            return offset
        if self._commits is None:
            self._commits = self._source.read_committed_offsets()
        committed = self._commits.get(partition)
        if committed is None:
            return offset
        if partition not in self.lost:  # else other records may have the offsets that were committed
            self.letters_from[partition] = min(committed.lowest, end)
        return max(first, min(offset, committed.highest))

    def _lost(self, partition: int, offset: int) -> None:
        """Records are gone unread, and with them visits up to F slots ahead of now; reading goes on at an offset."""
        now = self._now() + self._parameters.tolerance
        complete_from = self._parameters.grid.slot_of(now) + self._parameters.max_lead + 1
        self._windows.restart(partition, offset, complete_from)
        self.lost[partition] = complete_from
        self.letters_from.pop(partition, None)
        self._observer.recovery("log_lost_records")
        log.error("records of input partition %d are gone unread: answers are unknown for a window", partition)

    def _pass(self, partition: int, unread: Unreadable, end: int) -> int:
        """Go on behind records that this client can't read, as lost unread: visits may be among them.

        They lie at most F slots ahead of the slot in which their batch was stamped. Where that is not known, and the
        batch's own end may be wrong, all was stamped before now that is passed.
        """
        offset = min(unread.end, end)
        now = self._now() + self._parameters.tolerance
        stamp = now if unread.stamp_ms is None else unread.stamp_ms * 1_000
        began = time.perf_counter()
        letter = DeadLetter(unreadable(0, unread), partition, unread.first)
        self._dead_letters.put([letter])
        self._windows.restart(partition, offset, self._parameters.grid.slot_of(stamp) + self._parameters.max_lead + 1)
        self._observer.recovery("log_lost_records")
        reasons = by_reason([letter.refusal])
        self._observer.batch(0, {DEAD_LETTER: reasons.total()}, reasons, time.perf_counter() - began)
        told = f"records {unread.first} to {offset - 1} of input partition {partition} cannot be read: {unread.why}"
        log.error("%s; they count as lost unread: answers are unknown for a window", told)
        return offset

    def _now(self) -> int:
        """The present by the store's clock, as answers are held to it.

        By this machine's, if it is slow, records that are gone would seem older than they may be.
        """
        return self._windows.time(range(self._parameters.registry.shards))
