"""Find the offset at which a reader starts a partition, and the slot from which the facts are then complete.

The progress in the store decides, rather than offsets committed to Kafka. Facts and progress are written together, so
if facts are lost, their progress is lost too, and they are read again. Without progress, the committed offsets show
which records were read before.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from monitor.errors import UnreachableError
from monitor.ingest.accept_visits import DEAD_LETTER
from monitor.ingest.dead_letters import DeadLetter, DeadLetterTopic, count_by_reason, refuse_unreadable
from monitor.ingest.offsets import InputOffsets
from monitor.kafka.groups import CommittedOffsets
from monitor.kafka.kafka_python_3_0.batches import Unreadable
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START
from monitor.kinds.parameters import Parameters
from monitor.observe.service_metrics import Recovery
from monitor.observe.update_service_metrics import Metrics
from monitor.store.redis_store import RedisStore

log = logging.getLogger(__name__)


CONTINUES: Final = ""
"""The cause of a start at which reading continues where the facts end."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where to start a partition, and what has to be recorded in the store before."""

    partition: int
    offset: int
    cause: Recovery | Literal[""] = CONTINUES
    """The label of `recoveries_total`, or `CONTINUES`, which changes nothing. Otherwise `progress` becomes the progress
    of all shards (with the cause `no_progress`, of those that have none), and the facts are complete from the slot
    `complete_from` on.
    """
    progress: int = 0
    complete_from: int = COMPLETE_FROM_START
    loses: bool = False
    """Unread records were lost."""
    unread: Unreadable | None = None
    """The records that this client cannot read."""


class StartOffsets:
    """The start offsets of partitions. `find` only reads, and `record` updates the store. Used by one thread.

    `lost`: for each partition in which this reader found lost records, the slot from which the facts are complete.
    `dead_letters_from`: by partition, the offset below which earlier groups have written the dead letters.
    """

    def __init__(self, parameters: Parameters, source: InputOffsets, store: RedisStore) -> None:
        self._parameters = parameters
        self._source = source
        self._store = store
        self._commits: Mapping[int, CommittedOffsets] | None = None
        self.lost: dict[int, int] = {}
        self.dead_letters_from: dict[int, int] = {}

    def forget_commits(self) -> None:
        """Forget the committed offsets of the service's groups. They are read again when they are needed."""
        self._commits = None

    def repeat_loss(self, partition: int, lowest: int, metrics: Metrics) -> None:
        """Record a loss in the store again, at the lowest progress of all shards (some may have lost progress)."""
        offset = lowest if lowest >= 0 else self._source.read_bounds(partition)[0]
        self._store.restart(partition, offset, self.lost[partition])
        metrics.count_recovery("log_lost_records")

    def record(self, start: Start, dead_letters: DeadLetterTopic, metrics: Metrics) -> None:
        """Set the store's progress and `complete_from`, after the dead letter of records that cannot be read.

        Raises:
            UnreachableError: a server cannot be used now.
            StoreError: a key of the store has unexpected content, or the store cannot answer.
        """
        partition, began = start.partition, time.perf_counter()
        if start.unread is not None:
            letter = DeadLetter(refuse_unreadable(0, start.unread), partition, start.unread.first)
            dead_letters.put([letter])
        if start.cause == "no_progress":
            self._store.begin(partition, start.progress, start.complete_from)
        elif start.cause != CONTINUES:
            self._store.restart(partition, start.progress, start.complete_from)
        # A loss is forgotten only when it is recorded in the store: until then, an error may have interrupted it.
        self._source.truncated.pop(partition, None)
        self._source.unread.pop(partition, None)
        if start.cause != CONTINUES:
            metrics.count_recovery(start.cause)
        if start.loses:
            self.lost[partition] = start.complete_from
            self.dead_letters_from.pop(partition, None)
        if start.unread is not None:
            reasons = count_by_reason([letter.refusal])
            metrics.count_batch(0, {DEAD_LETTER: reasons.total()}, reasons, time.perf_counter() - began)
        _log(start)

    def find(self, partition: int, progress: Sequence[Mapping[int, int]]) -> Start:
        """Return where to start a partition. This changes nothing but, at the service's first start, commits.

        `progress`: by shard, the progress of each partition.

        Raises:
            UnreachableError: a server cannot be used now.
            StoreError: a key of the store has unexpected content, or the store cannot answer.
        """
        known = [shard.get(partition) for shard in progress]
        # Bounds are read after the progress, so that concurrent progress cannot seem to be beyond the log.
        first, end = self._source.read_bounds(partition)
        reached = [offset for offset in known if offset is not None]
        truncated, unread = self._source.truncated.get(partition), self._source.unread.get(partition)
        if truncated is not None:
            return self._restart_after_loss(partition, min(max(truncated, first), end))
        if unread is not None and None not in known and unread.first <= min(reached) < unread.end:
            return self._skip_unreadable(partition, unread, end)
        if reached and max(reached) > end:
            return self._restart_after_loss(partition, end)
        if reached and min(reached) < first:
            return self._restart_behind_log(partition, first, end)
        if len(reached) < len(known):
            offset, complete_from = self._find_without_progress(partition, first, end)
            offset = self._include_unread(partition, offset, first, end)
            return Start(partition, min([*reached, offset]), "no_progress", offset, complete_from)
        return Start(partition, min(reached))

    def _find_without_progress(self, partition: int, first: int, end: int) -> tuple[int, int]:
        """Return the start offset if there is no progress, and the slot from which the facts are then complete.

        A visit may be reported F slots before its last slot, so reading starts F slots before the first slot that can
        still be counted. A log that starts at offset 0 is complete. Any other log may not reach back far enough,
        because the retention may have been set for a shorter window.
        """
        grid = self._parameters.grid
        complete_from = grid.find_slot(self._now()) - self._parameters.history_slots
        since = grid.start(complete_from - self._parameters.max_lead)
        offset = self._find_first_since(partition, since, first, end)
        # The bounds are read after the offset, so that records that expire meanwhile do not seem to exist.
        first, end = self._source.read_bounds(partition)
        if offset > first:
            return offset, complete_from
        if first == 0:
            return first, COMPLETE_FROM_START
        return first, self._find_complete_from(partition, first, end)

    def _find_first_since(self, partition: int, since: int, first: int, end: int) -> int:
        """Return an offset in [first, end] such that all earlier records were appended before an instant.

        Stamps need not rise along the log: an earlier leader's clock may have been ahead, and a record without a stamp
        counts as later than any instant, wherever it is. The result is right nevertheless. The search has read the
        record before the returned offset, and a broker stamped it more than the tolerance before `since`. A log is in
        the order of appends, so the records before that one were appended even earlier. Their stamps are before
        `since`, because a clock is ahead by at most the tolerance. Without a stamp, their visits are lost, and they end
        too early to be needed, as if a broker had stamped them. So a record without a stamp can only make the search
        return an earlier offset than necessary.
        """
        since -= self._parameters.tolerance

        def is_later(offset: int) -> bool:
            stamp = self._source.read_stamp(partition, offset, end)
            return stamp is None or stamp >= since

        return first + bisect_left(range(first, end), True, key=is_later)  # noqa: FBT003  # the value to find

    def _find_complete_from(self, partition: int, first: int, end: int) -> int:
        """Return the slot from which facts are complete if records before the log's first one were deleted.

        The deleted records were stamped at most `tolerance` after the first remaining one, because an earlier leader's
        clock may be ahead, and before now. Their visits end at most F slots after that. If the first remaining record
        has no stamp, only "before now" is known.
        """
        grid, now = self._parameters.grid, self._now()
        stamp = self._source.read_stamp(partition, first, end)
        latest = now if stamp is None else min(stamp, now)
        return grid.find_slot(latest + self._parameters.tolerance) + 1 + self._parameters.max_lead

    def _restart_behind_log(self, partition: int, first: int, end: int) -> Start:
        """Return the start of a partition whose next records were deleted, by retention or by an operator.

        If the log still has records that are too old to count, the deleted records are even older, and nothing is lost.
        """
        offset, complete_from = self._find_without_progress(partition, first, end)
        if offset == first > 0:
            return self._restart_after_loss(partition, first)
        offset = self._include_unread(partition, offset, first, end)
        return Start(partition, offset, "behind_the_log", offset, complete_from)

    def _include_unread(self, partition: int, offset: int, first: int, end: int) -> int:
        """Return a start offset that skips no unread record: at most the highest committed offset.

        A record that no group of the service has read must be read, however old it is. Dead letters of records that all
        groups have read are not written again. A partition that was added after the service's first start is read from
        its beginning: it may have been noticed late, and Redis may be emptied before its first records are written.
        So are all partitions if brokers have deleted the offsets because no instance ran for too long.
        """
        if self._commits is None:
            self._commits = self._source.read_committed_offsets()
            if not self._commits and not self._source.read_before:
                self._commits = self._commit_first_starts()
        committed = self._commits.get(partition)
        if committed is None:
            return first
        if partition not in self.lost:  # after a loss, other records may have the committed offsets
            self.dead_letters_from[partition] = min(committed.lowest, end)
        return max(first, min(offset, committed.highest))

    def _commit_first_starts(self) -> dict[int, CommittedOffsets]:
        """Commit the offset at which the service's first start begins to read each partition, and return the offsets.

        Earlier records belong to the time before the service. All partitions are included, because other instances may
        start theirs later, and a partition without a commit counts as added after the first start.
        """
        starts = {}
        for partition in self._source.list_partitions():
            with suppress(UnreachableError):  # it is then read from its beginning
                starts[partition] = self._find_without_progress(partition, *self._source.read_bounds(partition))[0]
        self._source.commit_starts(starts)
        return {partition: CommittedOffsets(offset, offset) for partition, offset in starts.items()}

    def _restart_after_loss(self, partition: int, offset: int) -> Start:
        """Return a start after a loss of unread records, whose visits may end up to F slots from now."""
        now = self._now() + self._parameters.tolerance
        complete_from = self._parameters.grid.find_slot(now) + self._parameters.max_lead + 1
        return Start(partition, offset, "log_lost_records", offset, complete_from, loses=True)

    def _skip_unreadable(self, partition: int, unread: Unreadable, end: int) -> Start:
        """Return a start after records that this client cannot read. They may contain visits, so they count as lost.

        The visits end at most F slots after the slot in which the batch was stamped. If the timestamp is unknown, the
        end of the batch may be wrong too, but all skipped records were stamped before now.
        """
        offset = min(unread.end, end)
        now = self._now() + self._parameters.tolerance
        stamp = now if unread.stamp_ms is None else unread.stamp_ms * 1_000
        complete_from = self._parameters.grid.find_slot(stamp) + self._parameters.max_lead + 1
        return Start(partition, offset, "log_lost_records", offset, complete_from, unread=unread)

    def _now(self) -> int:
        """Return the present instant by the store's clock, which also decides when ticks close.

        If a slow clock of this machine were used, deleted records would seem older than they are.
        """
        return self._store.time(range(self._parameters.registry.shards))


def _log(start: Start) -> None:
    """Log the loss of records, if any."""
    if start.unread is not None:
        unread, where = start.unread, f"input partition {start.partition}"
        skipped = f"records {unread.first} to {start.offset - 1} of {where} cannot be read: {unread.why}"
        log.error("%s; they count as lost unread: answers are unknown for a window", skipped)
    elif start.loses:
        log.error(
            "records of input partition %d were lost before they were read: answers are unknown for a window",
            start.partition,
        )
