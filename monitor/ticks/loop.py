"""The release loop: one thread for each owned ledger partition, and a periodic check of the topics."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from monitor.errors import MonitorError, UnreachableError
from monitor.observe.logs import log_unexpected
from monitor.records.output_records import OutputRecord
from monitor.ticks.hidden_answers import HiddenAnswers
from monitor.ticks.owner import Owner
from monitor.ticks.rollout import DelayedMembership
from monitor.ticks.run_partition import PartitionTicks
from monitor.ticks.shared_by_partitions import TickContext
from monitor.ticks.store_upkeep import Upkeep
from monitor.time.instants import SECOND, format_instant

log = logging.getLogger(__name__)

CYCLE_SECONDS: Final = 1.0
STALL_SECONDS: Final = 120.0  # long, because there is no heartbeat while a takeover reads a long ledger
JOIN_SECONDS: Final = 15.0
READ_EVERY: Final = 6 * SECOND  # how often partitions of other instances are read, unless slots are longer
REPEAT_SECONDS: Final = 60.0  # how long before the same error is logged again


class TickLoop:
    """The runner of the owned partitions, each on a separate thread, so that none blocks another. Used by one thread.

    `take_over` takes a partition over, and returns its owner. `ledger_partitions` (Q) is the number of output
    partitions that have shards. Other partitions are not run.
    """

    def __init__(
        self,
        context: TickContext,
        take_over: Callable[[int], Owner],
        membership: DelayedMembership,
        ledger_partitions: int,
    ) -> None:
        self._context = context
        self._take_over = take_over
        self._membership = membership
        self._ledger_partitions = ledger_partitions
        self._upkeep = Upkeep(context.parameters, context.store)
        self._running: dict[int, _PartitionThread] = {}
        self._stopping: list[_PartitionThread] = []
        self._topic_check: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._wake = threading.Event()
        self._checked_slot: int | None = None
        self._warned_slot: int | None = None
        self._member_since: int | None = None
        self._logged: tuple[float, list[int]] | None = None
        self._undecided = ""
        self._hidden = HiddenAnswers(context.input_topic, ledger_partitions)
        self.decided = context.decided
        self.store_clock = context.store_clock

    @property
    def owners(self) -> Mapping[int, Owner]:
        """The owners of the partitions that this instance has taken over, by partition."""
        owners = {partition: running.release.owner for partition, running in dict(self._running).items()}
        return {partition: owner for partition, owner in owners.items() if owner is not None}

    @property
    def last_tick(self) -> int | None:
        """The last tick that is decided in all partitions of this instance; None if there is none yet."""
        ticks = [running.release.last_tick for running in dict(self._running).values()]
        known = [tick for tick in ticks if tick is not None]
        return min(known) if known and len(known) == len(ticks) else None

    @property
    def last_records(self) -> Sequence[OutputRecord]:
        """The records of the last decided tick, in order of partitions."""
        partitions = [self._running[partition].release for partition in sorted(self._running)]
        return [record for partition in partitions for record in partition.last_records]

    @property
    def trouble(self) -> str:
        """The reasons why partitions do not decide their ticks now, or why nobody sees their answers; empty without."""
        reasons = [running.release.trouble for running in dict(self._running).values()]
        return "; ".join(
            dict.fromkeys(reason for reason in [*reasons, self._undecided, self._hidden.trouble] if reason)
        )

    def run(self, stop: threading.Event, wake: threading.Event, heartbeat: Callable[[str], None]) -> None:
        """Run the owned partitions until `stop` is set; `wake` is set when ownership changes.

        `heartbeat` is called with the current trouble, unless a partition's thread has stalled.

        Raises:
            TopicError, LedgerError, PeriodError, EvictionError: the service must run its checks again.
        """
        self._wake = wake
        try:
            while not stop.is_set():
                wake.clear()
                if stop.is_set():  # check after the clear: `stop` is set before `wake`
                    break
                self.reconcile()
                self._check_topics_in_background()
                if not self._find_stalled():
                    heartbeat(self.trouble)
                wake.wait(CYCLE_SECONDS)
        finally:
            self._request_stop()

    def reconcile(self) -> None:
        """Start the threads of partitions that are owned now, and stop the others.

        If a partition returns while its old thread is still stopping, its new thread starts after the old one ends.

        Raises:
            MonitorError: the failure of a partition's thread; the service must run its checks again.
        """
        if self._failure is not None:
            raise self._failure
        owned = {partition for partition in self._membership.owned if partition < self._ledger_partitions}
        for partition in self._running.keys() - owned:
            self._stopping.append(self._running.pop(partition))
            self._stopping[-1].stop.set()
        self._stopping = [running for running in self._stopping if running.thread.is_alive()]
        stopping = {running.release.partition for running in self._stopping}
        for partition in sorted(owned - self._running.keys() - stopping):
            self._running[partition] = _PartitionThread(
                PartitionTicks(partition, self._context, self._take_over, self._upkeep), self._fail
            )

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._wake.set()

    def _find_stalled(self) -> list[int]:
        now = time.monotonic()
        return [
            partition
            for partition, running in self._running.items()
            if now - running.release.last_heartbeat > STALL_SECONDS
        ]

    def _check_topics_in_background(self) -> None:
        """Check the topics in a separate thread, because a hanging broker must not delay takeovers."""
        is_due = self._is_check_due() or self._hidden.is_due
        if is_due and (self._topic_check is None or not self._topic_check.is_alive()):
            self._topic_check = threading.Thread(target=self._run_topic_check, name="topic-check", daemon=True)
            self._topic_check.start()

    def _run_topic_check(self) -> None:
        try:
            self.check_topics()
            self._hidden.check()
        except BaseException as error:  # noqa: BLE001  # `reconcile` raises it
            self._fail(error)

    def _is_check_due(self) -> bool:
        return self._context.parameters.grid.find_slot(self._context.clock.now()) != self._checked_slot

    def check_topics(self) -> None:
        """Check once per slot that the topics are the same, and that each output partition is being decided.

        Without this check, an instance that owns no partition would not notice a replaced topic, and would keep reading
        in the input group for nothing. A partition that a foreign group member owns would raise no alarm.

        Raises:
            InputChangedError, LedgerChangedError: a topic was replaced.
        """
        if not self._is_check_due():
            return
        grid = self._context.parameters.grid
        slot = grid.find_slot(self._context.clock.now())
        try:
            self._context.input_topic.require_same()
            undecided = self._find_undecided(slot)
        except UnreachableError as error:
            if self._warned_slot != slot:  # the check is repeated in each cycle
                log.warning("could not check whether all partitions are decided: %s", error)
            self._warned_slot = slot
            return
        self._checked_slot = slot
        if not self._membership.joined:
            self._upkeep.evict_while_waiting()
        if undecided is not None:
            self._report_undecided(undecided, grid.as_of(slot - 2))

    def _find_undecided(self, slot: int) -> list[int] | None:
        """Return the partitions whose ledger lacks the tick before the one that is being decided.

        Ticks that closed before this instance joined the group are ignored: they were left to other instances, which
        may have stopped since. The ledger is not read for partitions of which this instance has decided the tick. If
        slots are short and no problem is reported, the ledger is read only in some slots, and None is returned in the
        others.
        """
        if not self._membership.joined:
            self._member_since = None
            return []
        self._member_since = slot if self._member_since is None else self._member_since
        grid, tick, owners = self._context.parameters.grid, slot - 2, self.owners
        if tick < self._member_since:
            return []
        if slot % max(1, READ_EVERY // grid.length) and not self._undecided:
            return None
        doubtful = [
            partition
            for partition in range(self._ledger_partitions)
            if partition not in owners or owners[partition].may_decide(tick)
        ]
        return self._context.input_topic.find_undecided(doubtful, tick, grid.as_of(tick)) if doubtful else []

    def _report_undecided(self, late: list[int], as_of: int) -> None:
        """Report partitions whose ledger lacks the answers of an instant."""
        self._undecided = ""
        if late:
            partitions = ", ".join(map(str, late))
            self._undecided = (
                f"ledger partitions {partitions} have no answers of {format_instant(as_of)}: no instance decides them"
            )
            if self._logged is None or self._logged[1] != late or time.monotonic() - self._logged[0] > REPEAT_SECONDS:
                log.error("%s", self._undecided)
                self._logged = time.monotonic(), late

    def _request_stop(self) -> None:
        """Request every partition's thread to stop. Answers that are due soon are still published."""
        for running in self._running.values():
            running.stop.set()

    def close(self, seconds: float = JOIN_SECONDS) -> None:
        """Stop all partitions, and wait up to `seconds` for answers that are due soon."""
        self._request_stop()
        deadline = time.monotonic() + seconds
        for running in [*self._running.values(), *self._stopping]:
            running.thread.join(max(0.0, deadline - time.monotonic()))
        if self._topic_check is not None:
            self._topic_check.join(max(0.0, deadline - time.monotonic()))
        self._running.clear()
        self._stopping.clear()
        self._context.input_topic.close(max(0.0, deadline - time.monotonic()))


class _PartitionThread:
    """A partition and the thread that runs it, from its creation until `stop` is set."""

    def __init__(self, release: PartitionTicks, fail: Callable[[BaseException], None]) -> None:
        self.release = release
        self.stop = threading.Event()
        self._fail = fail
        self.thread = threading.Thread(target=self._run, name=f"ledger-{release.partition}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.release.run(self.stop)
        except MonitorError as error:
            self._fail(error)
        except BaseException as error:  # noqa: BLE001  # `reconcile` raises it
            log_unexpected(log, "the thread of ledger partition %d failed", self.release.partition, error=error)
            self._fail(error)
