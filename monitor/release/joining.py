"""When an instance joins the release group: once its facts are whole, and nobody with another configuration answers.

The old instances go on answering until they leave. No promise rests on this order: what makes one writer is the fence,
and what holds the sum is the period check at each takeover.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.groups import list_member_ids
from monitor.brokers.membership import Membership
from monitor.errors import FailedError, UnreachableError, WindowsError
from monitor.ingest.readiness import Readiness
from monitor.release.version import client_id, versions

log = logging.getLogger(__name__)

LONGEST_PAUSE_SECONDS: Final = 1.0
PAUSES_PER_SLOT: Final = 20
LONGEST_BACKOFF_SECONDS: Final = 8.0
CLOSE_SECONDS: Final = 15.0


class JoinPolicy:
    """Whether it is an instance's turn to join (pure but for what it has seen before).

    `version`: that of its configuration. `patience`: for how many seconds the group must have been empty before an
    instance joins that is not ready, and so can only answer "unknown".
    """

    def __init__(self, version: str, patience: float) -> None:
        self._version = version
        self._patience = patience
        self._empty_since: float | None = None

    def come(self, members: Sequence[str] | None, *, ready: bool, now: float) -> bool:
        """Whether to join now. `members`: the versions of the group's members, None if they are not known now.

        `now`: seconds of a monotonic clock.
        """
        if members is None:
            self._empty_since = None  # somebody may have joined and left meanwhile
            return False
        if members:
            self._empty_since = None
            return ready and all(member == self._version for member in members)
        if self._empty_since is None:
            self._empty_since = now
        return ready or now - self._empty_since >= self._patience


@dataclass(frozen=True, slots=True)
class Candidate:
    """Who would join which group: its version, and the length of a slot in seconds."""

    group: str
    version: str
    slot_seconds: float


class DelayedMembership:
    """Waits for its turn on a thread of its own, joins the release group, and stays; before, it owns nothing.

    `wake` is set when ownership changes.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        topic: str,
        candidate: Candidate,
        readiness: Readiness,
        wake: threading.Event,
    ) -> None:
        self._connections = connections
        self._topic = topic
        self._candidate = candidate
        self._readiness = readiness
        self._wake = wake
        self._turn = JoinPolicy(candidate.version, candidate.slot_seconds / 2)
        self._pause = min(LONGEST_PAUSE_SECONDS, candidate.slot_seconds / PAUSES_PER_SLOT)
        self._admin: Any = None
        self._membership: Membership | None = None
        self._failure: Exception | None = None
        self._said = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="release-joining", daemon=True)
        self._thread.start()

    @property
    def owned(self) -> frozenset[int]:
        """The output partitions that this instance owns now.

        Raises:
            FailedError: a thread that membership rests on has ended, by a fault of a program.
        """
        if self._failure is not None:
            raise FailedError(f"joining the release group ended: {self._failure!r}") from self._failure
        return frozenset() if self._membership is None else self._membership.owned

    @property
    def joined(self) -> bool:
        """Whether its turn has come."""
        return self._membership is not None

    def _run(self) -> None:
        backoff = self._pause
        try:
            while not self._stop.is_set() and not (self._membership is not None and self._readiness.ready):
                known = [self._tried(self._readiness.look), self._membership is not None or self._tried(self._look)]
                backoff = self._pause if all(known) else min(2 * backoff, LONGEST_BACKOFF_SECONDS)
                self._stop.wait(backoff)
        except Exception as error:  # it is raised where ownership is asked for
            log.exception("joining the release group ends by a fault of a program")
            self._failure = error
            self._wake.set()
        finally:
            self._close_admin()

    def _tried(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except (UnreachableError, WindowsError):
            return False  # whoever reads, and `/readyz`, say why
        return True

    def _look(self) -> None:
        """Join if it is this instance's turn.

        Raises:
            UnreachableError: the brokers can't be used now.
        """
        try:
            members = self._members()
            if self._turn.come(members, ready=self._readiness.ready, now=time.monotonic()):
                self._join()
            else:
                self._say(logging.INFO, self._reason(members))
        except UnreachableError as error:
            self._turn.come(None, ready=False, now=time.monotonic())
            passes = getattr(error.__cause__, "retriable", False)  # as while a coordinator is being found
            self._say(logging.INFO if passes else logging.WARNING, str(error))
            raise

    def _reason(self, members: Sequence[str]) -> str:
        if any(member != self._candidate.version for member in members):
            return "instances with another configuration answer"
        return "the facts are not whole"

    def _join(self) -> None:
        own = replace(self._connections, client_id=client_id(self._connections.client_id, self._candidate.version))
        self._membership = Membership(own, self._topic, self._candidate.group, self._wake)
        self._close_admin()
        if self._stop.is_set():  # `close` may not have waited for this
            self._membership.close()
        state = "the facts are whole" if self._readiness.ready else "nobody answers, and the facts are not whole yet"
        log.info("joins the release group: %s", state)

    def _members(self) -> list[str]:
        """The versions of the group's members."""
        try:
            with self._connections.translate_errors():
                if self._admin is None:
                    self._admin = self._connections.admin()
                found = list_member_ids(self._admin, self._candidate.group)
        except UnreachableError:
            self._close_admin()
            raise
        return versions(self._connections.client_id, found)

    def _say(self, level: int, text: str) -> None:
        """Log what has changed."""
        if text != self._said:
            log.log(level, "not in the release group yet: %s", text)
        self._said = text

    def _close_admin(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def close(self) -> None:
        """Join no more, or leave the group, so that others take over at once."""
        self._stop.set()
        self._thread.join(timeout=CLOSE_SECONDS)
        if self._membership is not None:
            self._membership.close()
