"""Join the release group once the facts are complete and no instance with another configuration answers.

Instances compare the versions of their configurations: digests of everything that decides answers. Until an instance
joins, the old instances answer. No guarantee depends on this order: the fence ensures that there is one writer, and the
period check at each takeover limits what one person may pay.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from monitor.errors import FailedError, StoreError, UnreachableError
from monitor.ingest.startup_readiness import Readiness
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.groups import list_member_ids
from monitor.kafka.membership import Membership
from monitor.kinds.parameters import Parameters
from monitor.observe.logs import log_unexpected

_DIGITS: Final = 16


def compute_version(parameters: Parameters, fingerprint: str) -> str:
    """Return 16 hexadecimal digits that change whenever the answers or their charges would change.

    Args:
        parameters: the parameters of the service.
        fingerprint: the fingerprint of the facts.
    """
    deciding: dict[str, object] = {
        "facts": fingerprint,
        "over_time": [monitor.list_deciding() for monitor in parameters.monitors if monitor.needed.times is None],
        "timed": [monitor.list_deciding() for monitor in parameters.monitors if monitor.needed.times is not None],
    }
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def make_member_client_id(base: str, version: str) -> str:
    """Return the client id of an instance in the release group. `base`: the client id of its other clients."""
    return f"{base}-{version}"


def read_member_versions(base: str, client_ids: Iterable[str]) -> list[str]:
    """Return the versions of the members with these client ids. Other clients are left out."""
    pattern = re.compile(rf"{re.escape(base)}-([0-9a-f]{{{_DIGITS}}})")
    return [match[1] for client_id in client_ids if (match := pattern.fullmatch(client_id))]


log = logging.getLogger(__name__)

LONGEST_PAUSE_SECONDS: Final = 1.0
PAUSES_PER_SLOT: Final = 20
LONGEST_BACKOFF_SECONDS: Final = 8.0
CLOSE_SECONDS: Final = 15.0


class JoinPolicy:
    """The rule by which an instance joins the release group. It remembers since when the group has been empty.

    `version` is the version of the instance's configuration. An instance that is not ready can only answer "unknown",
    so it joins only after the group has been empty for `patience` seconds.
    """

    def __init__(self, version: str, patience: float) -> None:
        self._version = version
        self._patience = patience
        self._empty_since: float | None = None

    def may_join(self, members: Sequence[str] | None, *, ready: bool, now: float) -> bool:
        """Return whether to join now.

        Args:
            members: the versions of the group's members; None if unknown.
            ready: whether the instance's facts are complete.
            now: seconds of a monotonic clock.
        """
        if members is None:
            self._empty_since = None  # a member may have joined and left in the meantime
            return False
        if members:
            self._empty_since = None
            return ready and all(member == self._version for member in members)
        if self._empty_since is None:
            self._empty_since = now
        return ready or now - self._empty_since >= self._patience


@dataclass(frozen=True, slots=True)
class Candidate:
    """An instance that waits to join a group: the group, the instance's version, and the slot length in seconds."""

    group: str
    version: str
    slot_seconds: float


class DelayedMembership:
    """A membership of the release group that begins when `JoinPolicy` allows it. A separate thread waits until then.

    It owns no partitions before it joins. `wake` is set when ownership changes.
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
        self._policy = JoinPolicy(candidate.version, candidate.slot_seconds / 2)
        self._pause = min(LONGEST_PAUSE_SECONDS, candidate.slot_seconds / PAUSES_PER_SLOT)
        self._admin: Any = None
        self._membership: Membership | None = None
        self._failure: Exception | None = None
        self._logged = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="release-joining", daemon=True)
        self._thread.start()

    @property
    def owned(self) -> frozenset[int]:
        """The output partitions that this instance owns now.

        Raises:
            FailedError: a thread of the membership has ended because of a bug.
        """
        if self._failure is not None:
            raise FailedError(
                f"the thread that joins the release group failed ({type(self._failure).__name__}): the log says where"
            ) from self._failure
        return frozenset() if self._membership is None else self._membership.owned

    @property
    def joined(self) -> bool:
        """Whether this instance has joined the group."""
        return self._membership is not None

    def _run(self) -> None:
        backoff = self._pause
        try:
            while not self._stop.is_set() and not (self._membership is not None and self._readiness.ready):
                successes = [self._try(self._readiness.look), self._membership is not None or self._try(self._try_join)]
                backoff = self._pause if all(successes) else min(2 * backoff, LONGEST_BACKOFF_SECONDS)
                self._stop.wait(backoff)
        except Exception as error:  # noqa: BLE001  # `owned` raises it
            log_unexpected(log, "the thread that joins the release group failed", error=error)
            self._failure = error
            self._wake.set()
        finally:
            self._close_admin()

    def _try(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except (UnreachableError, StoreError):
            return False  # the reader and `/readyz` report the reason
        return True

    def _try_join(self) -> None:
        """Join if the policy allows it.

        Raises:
            UnreachableError: the brokers cannot be used now.
        """
        try:
            members = self._list_versions()
            if self._policy.may_join(members, ready=self._readiness.ready, now=time.monotonic()):
                self._join()
            else:
                self._log_waiting(logging.INFO, self._explain_waiting(members))
        except UnreachableError as error:
            self._policy.may_join(None, ready=False, now=time.monotonic())
            transient = getattr(error.__cause__, "retriable", False)  # for example while a coordinator is being found
            self._log_waiting(logging.INFO if transient else logging.WARNING, str(error))
            raise

    def _explain_waiting(self, members: Sequence[str]) -> str:
        if any(member != self._candidate.version for member in members):
            return "instances with another configuration or another person key answer"
        return "the facts are not complete"

    def _join(self) -> None:
        client_id = make_member_client_id(self._connections.client_id, self._candidate.version)
        connections = replace(self._connections, client_id=client_id)
        self._membership = Membership(connections, self._topic, self._candidate.group, self._wake)
        self._close_admin()
        if self._stop.is_set():  # `close` may have returned before this thread ended
            self._membership.close()
        state = "the facts are complete" if self._readiness.ready else "no instance answers; the facts are not complete"
        log.info("joining the release group: %s", state)

    def _list_versions(self) -> list[str]:
        """Return the versions of the group's members."""
        try:
            with self._connections.translate_errors():
                if self._admin is None:
                    self._admin = self._connections.create_admin()
                client_ids = list_member_ids(self._admin, self._candidate.group)
        except UnreachableError:
            self._close_admin()
            raise
        return read_member_versions(self._connections.client_id, client_ids)

    def _log_waiting(self, level: int, reason: str) -> None:
        """Log why the instance waits, if the reason has changed."""
        if reason != self._logged:
            log.log(level, "not in the release group yet: %s", reason)
        self._logged = reason

    def _close_admin(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def close(self) -> None:
        """Stop waiting, or leave the group so that other instances take over at once."""
        self._stop.set()
        self._thread.join(timeout=CLOSE_SECONDS)
        if self._membership is not None:
            self._membership.close()
