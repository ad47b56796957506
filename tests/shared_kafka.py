"""One Kafka for all processes of a parallel run, in place of one for each: an idle broker also needs processor time.

The process with the highest priority starts it, since the broker inherits it; if that process does not need Kafka for a
while, the first one that does. When its own tests have ended, it waits until no other process uses the
broker, and then stops it. File locks count the users, because the system releases them when a process ends.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final

from monitor.tools.servers import EmbeddedKafka

_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class SharedKafka:
    """A broker that perhaps another process has started: its address, process id and folder. No test may stop it."""

    bootstrap_servers: str
    pid: int
    folder: str


@contextmanager
def use_shared_kafka(
    folder: Path, start: Callable[[], EmbeddedKafka], wait_seconds: float = 0.0
) -> Iterator[SharedKafka]:
    """Use the broker of the processes that name this folder. Start it if there is none after `wait_seconds`."""
    server: EmbeddedKafka | None = None
    described = folder / "kafka.json"
    deadline = time.monotonic() + wait_seconds
    while not described.exists() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    with (folder / "kafka.users").open("w") as users:
        with _lock(folder / "kafka.start", fcntl.LOCK_EX):
            fcntl.flock(users, fcntl.LOCK_SH)
            if not described.exists():
                server = start()
                shared = SharedKafka(server.bootstrap_servers, server.pid, str(server.folder))
                described.write_text(json.dumps(asdict(shared)))
            shared = SharedKafka(**json.loads(described.read_text()))
        try:
            yield shared
        finally:
            if server is not None:
                _wait_for_users(users)
                described.unlink()
                server.stop()


def _wait_for_users(users: IO[str]) -> None:
    """Wait until no other process has the lock. A process that comes later waits until this one has ended."""
    fcntl.flock(users, fcntl.LOCK_UN)
    fcntl.flock(users, fcntl.LOCK_EX)


@contextmanager
def _lock(path: Path, kind: int) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, kind)
        yield
