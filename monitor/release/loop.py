"""The release loop: a thread for each ledger partition that this instance owns, and a look at all of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from monitor.errors import MonitorError, UnreachableError
from monitor.public.instants import format_instant
from monitor.release.context import ReleaseContext
from monitor.release.ledger import LedgerRecord
from monitor.release.owner import Owner
from monitor.release.partition import PartitionRelease, shown_records
from monitor.release.upkeep import Upkeep

log = logging.getLogger(__name__)

TURN_SECONDS: Final = 1.0
STALL_SECONDS: Final = 120.0  # a long ledger is read in one turn
JOIN_SECONDS: Final = 15.0
SAY_SECONDS: Final = 60.0  # how long before the same is logged again


class Ownership(Protocol):
    """Which output partitions are this instance's at the moment."""

    @property
    def owned(self) -> frozenset[int]:
        """The partitions."""

    @property
    def joined(self) -> bool:
        """Whether it shares the partitions out with others; before, it waits for others to leave."""


class ReleaseLoop:
    """Runs the partitions that are owned, each on a thread, so that none holds another up. Used by one thread.

    `queues`: Q, over how many output partitions the shards are spread; those beyond hold no shards.
    """

    def __init__(self, parts: ReleaseContext, ownership: Ownership, ledger_partitions: int) -> None:
        self._parts = parts
        self._ownership = ownership
        self._queues = ledger_partitions
        self._upkeep = Upkeep(parts.parameters, parts.windows)
        self._running: dict[int, _Running] = {}
        self._leaving: list[_Running] = []
        self._looking: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._wake = threading.Event()
        self._looked: int | None = None
        self._member_since: int | None = None
        self._said: tuple[float, list[int]] | None = None
        self._warned: int | None = None
        self._undecided = ""
        self.decided = parts.decided
        self.store_clock = parts.store_clock

    @property
    def owners(self) -> Mapping[int, Owner]:
        """The partitions that were taken over and not lost since."""
        known = {partition: running.release.owner for partition, running in dict(self._running).items()}
        return {partition: owner for partition, owner in known.items() if owner is not None}

    @property
    def last_tick(self) -> int | None:
        """The last tick that was decided in all partitions that this instance runs; None if there is none yet."""
        ticks = [running.release.last_tick for running in dict(self._running).values()]
        known = [tick for tick in ticks if tick is not None]
        return min(known) if known and len(known) == len(ticks) else None

    @property
    def last_records(self) -> tuple[LedgerRecord, ...]:
        """What was decided last, in order of partitions."""
        return shown_records([self._running[partition].release for partition in sorted(self._running)])

    @property
    def trouble(self) -> str:
        """Why some partition's ticks are not decided now; empty if all are."""
        reasons = [running.release.trouble for running in dict(self._running).values()]
        return "; ".join(dict.fromkeys(reason for reason in [*reasons, self._undecided] if reason))

    def run(self, stop: threading.Event, wake: threading.Event, alive: Callable[[str], None]) -> None:
        """Run what is owned until told to stop; `wake` is set when ownership changes. `alive` is told of trouble.

        Raises:
            TopicError, LedgerError, PeriodError, EvictionError: everything must be looked at again.
        """
        self._wake = wake
        try:
            while not stop.is_set():
                wake.clear()
                if stop.is_set():  # it was set before `wake`, so clearing `wake` can't have hidden it
                    break
                self.reconcile()
                self._look_aside()
                if not self._stalled():
                    alive(self.trouble)
                wake.wait(TURN_SECONDS)
        finally:
            self._leave()

    def reconcile(self) -> None:
        """Start the partitions that are owned now, and stop the others.

        One that came back while its thread is still leaving is started once that has ended.

        Raises:
            MonitorError: what ended a partition's thread: everything must be looked at again.
        """
        if self._failure is not None:
            raise self._failure
        owned = {partition for partition in self._ownership.owned if partition < self._queues}
        for partition in self._running.keys() - owned:
            self._leaving.append(self._running.pop(partition))
            self._leaving[-1].stop.set()
        self._leaving = [leaving for leaving in self._leaving if leaving.thread.is_alive()]
        still_there = {leaving.release.partition for leaving in self._leaving}
        for partition in sorted(owned - self._running.keys() - still_there):
            self._running[partition] = _Running(PartitionRelease(partition, self._parts, self._upkeep), self._failed)

    def _failed(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._wake.set()

    def _stalled(self) -> list[int]:
        now = time.monotonic()
        return [
            partition
            for partition, running in self._running.items()
            if now - running.release.last_heartbeat > STALL_SECONDS
        ]

    def _look_aside(self) -> None:
        """Look around on a thread of its own: a broker that hangs must not keep partitions from being taken over."""
        if self._looks_due() and (self._looking is None or not self._looking.is_alive()):
            self._looking = threading.Thread(target=self._look, name="looking", daemon=True)
            self._looking.start()

    def _look(self) -> None:
        try:
            self.look()
        except BaseException as error:  # noqa: BLE001  # it is raised where the loop runs
            self._failed(error)

    def _looks_due(self) -> bool:
        clock = self._parts.clock
        return not clock.simulated and self._parts.parameters.grid.slot_of(clock.now()) != self._looked

    def look(self) -> None:
        """Once in a slot, see that the topics are the same and that each output partition is decided by somebody.

        An instance that owns nothing would stay in the input's group, reading for nobody; and a partition that is held
        by a stranger to the service raises no other alarm.

        Raises:
            InputChangedError, LedgerChangedError: a topic is another one.
        """
        if not self._looks_due():
            return
        grid = self._parts.parameters.grid
        slot = grid.slot_of(self._parts.clock.now())
        try:
            self._parts.input_topic.require_same()
            newest = self._parts.input_topic.newest(self._queues)
        except UnreachableError as error:
            if self._warned != slot:  # it is asked again at each turn
                log.warning("whether all partitions are decided is not known now: %s", error)
            self._warned = slot
            return
        self._looked = slot
        self._note_undecided(newest, slot)

    def _note_undecided(self, newest: Mapping[int, int], slot: int) -> None:
        """The tick before the one that is being decided should be in the ledger by now.

        Not if it closed before this instance was a member: who waits to join leaves it to others, who may have ended.
        """
        if not self._ownership.joined:
            self._member_since = None
            return
        self._member_since = slot if self._member_since is None else self._member_since
        self._undecided = ""
        if slot < self._member_since + 2:
            return
        as_of = self._parts.parameters.grid.as_of(slot - 2)
        late = [partition for partition in range(self._queues) if newest.get(partition, as_of) < as_of]
        if late:
            named = ", ".join(map(str, late))
            self._undecided = (
                f"ledger partitions {named} have no answers of {format_instant(as_of)}: no instance decides them"
            )
            if self._said is None or self._said[1] != late or time.monotonic() - self._said[0] > SAY_SECONDS:
                log.error("%s", self._undecided)
                self._said = time.monotonic(), late

    def _leave(self) -> None:
        """Tell every partition's thread to end; a release that is near is not given up."""
        for running in self._running.values():
            running.stop.set()

    def close(self) -> None:
        """Let go of every partition; a release that is near is waited for."""
        self._leave()
        deadline = time.monotonic() + JOIN_SECONDS
        for running in [*self._running.values(), *self._leaving]:
            running.thread.join(max(0.0, deadline - time.monotonic()))
        if self._looking is not None:
            self._looking.join(max(0.0, deadline - time.monotonic()))
        self._running.clear()
        self._leaving.clear()
        self._parts.input_topic.close()


class _Running:
    """A partition and the thread that runs it, from when it is made until `stop` is set."""

    def __init__(self, release: PartitionRelease, failed: Callable[[BaseException], None]) -> None:
        self.release = release
        self.stop = threading.Event()
        self._failed = failed
        self.thread = threading.Thread(target=self._run, name=f"ledger-{release.partition}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.release.run(self.stop)
        except MonitorError as error:
            self._failed(error)
        except BaseException as error:
            log.exception("ledger partition %d ends by a fault of this program", self.release.partition)
            self._failed(error)
            raise
