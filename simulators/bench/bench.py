"""The environment of a benchmark line: its scale, a folder, real servers, and the Python that has the peers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self, TypeVar

from monitor.errors import FailedError
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey, ValkeySettings

PEER_SECONDS: Final = 240.0
NOT_INSTALLED: Final = 3  # the exit code of a peer if something that it needs is not installed
_LIBRARIES: Final = ("/usr/lib/*/libjemalloc.so.2", "/usr/lib*/libjemalloc.so.2", "/usr/local/lib/libjemalloc.so.2")

T = TypeVar("T")


def find_jemalloc() -> Path | None:
    """Return jemalloc's library; None if it is not installed.

    Valkey and Redis are usually built with jemalloc. The server of the wheel uses the C library's allocator instead,
    which takes a third of the server's time when many small sets grow.
    """
    found = (path for pattern in _LIBRARIES for path in sorted(Path("/").glob(pattern.lstrip("/"))))
    return next(found, None)


class MissingPeerError(FailedError):
    """A peer is not installed. The line reports that it was skipped."""


class Bench:
    """What a line uses: folders, servers and peers. As a context manager, it stops the servers at the end.

    Args:
        quick: measure at a small scale, to test the line. The figures then mean nothing.
        peers: the Python interpreter that has the peers (extra `peers`).
        report: called with each progress message.
        long: run `memory` and `country` for the time that their goals state: half an hour and ten minutes.
    """

    def __init__(self, *, quick: bool, peers: Path, report: Callable[[str], None], long: bool = False) -> None:
        self.quick = quick
        self.long = long
        self.report = report
        self._peers = peers
        self._stack = ExitStack()
        self._kafka: EmbeddedKafka | None = None

    def __enter__(self) -> Self:
        """Create the folder of the run."""
        self._folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="location-monitor-bench-")))
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the servers and remove the folder."""
        self._stack.close()

    def scale(self, full: T, quick: T) -> T:
        """Return the size of the work for this run."""
        return quick if self.quick else full

    def scale_seconds(self, full: float, long: float, quick: float) -> float:
        """Return the number of seconds for which a line samples the service."""
        return quick if self.quick else long if self.long else full

    def folder(self, name: str) -> Path:
        """Create an empty folder and return its path."""
        path = self._folder / name
        path.mkdir()
        return path

    @property
    def kafka(self) -> EmbeddedKafka:
        """One broker for all lines of the run. Use topic names that no other line uses."""
        if self._kafka is None:
            self._kafka = self._stack.enter_context(EmbeddedKafka(report=self.report))
        return self._kafka

    @contextmanager
    def valkey(self, *, binary: Path | None = None) -> Iterator[EmbeddedValkey]:
        """Start a server with the append-only file on, as in production: Valkey with jemalloc, or another program."""
        preload = find_jemalloc() if binary is None else None
        with EmbeddedValkey(ValkeySettings(appendonly=True, binary=binary, preload=preload)) as server:
            yield server

    def run_peer(self, module: str, **values: object) -> dict[str, Any]:
        """Run `simulators.bench.peers.<module>` in the peers' Python, and return the JSON object that it prints.

        Raises:
            MissingPeerError: the peer is not installed.
            FailedError: the peer failed.
        """
        script = Path(__file__).parent / "peers" / f"{module}.py"
        command = [str(self._peers), str(script), json.dumps(values)]
        try:
            done = subprocess.run(  # noqa: S603  # the command is made here
                command, capture_output=True, text=True, timeout=PEER_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise FailedError(f"{module} did not end within {PEER_SECONDS:.0f} s") from error
        if done.returncode == 0:
            found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            return found
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        if done.returncode == NOT_INSTALLED or "ModuleNotFoundError" in last:
            raise MissingPeerError(f"{module} skipped: {last}. Install the extra 'peers', or set --peers-python")
        raise FailedError(f"{module} failed with exit code {done.returncode}: {last}")
