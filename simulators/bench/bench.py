"""The environment of a benchmark line: its scale, folders, and real servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self, TypeVar

from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey, ValkeySettings

_LIBRARIES: Final = ("/usr/lib/*/libjemalloc.so.2", "/usr/lib*/libjemalloc.so.2", "/usr/local/lib/libjemalloc.so.2")

T = TypeVar("T")


def find_jemalloc() -> Path | None:
    """Return jemalloc's library; None if it is not installed.

    Valkey and Redis are usually built with jemalloc. The server of the wheel uses the C library's allocator instead,
    which takes a third of the server's time when many small sets grow.
    """
    found = (path for pattern in _LIBRARIES for path in sorted(Path("/").glob(pattern.lstrip("/"))))
    return next(found, None)


class Bench:
    """What a line uses: folders and servers. As a context manager, it stops the servers at the end.

    Args:
        quick: measure at a small scale, to test the line. The figures then mean nothing.
        report: called with each progress message.
    """

    def __init__(self, *, quick: bool, report: Callable[[str], None]) -> None:
        self.quick = quick
        self.report = report
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
    def valkey(self) -> Iterator[EmbeddedValkey]:
        """Start a Valkey with jemalloc and the append-only file on, as in production."""
        with EmbeddedValkey(ValkeySettings(appendonly=True, preload=find_jemalloc())) as server:
            yield server
