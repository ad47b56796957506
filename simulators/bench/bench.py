"""A benchmark line with its targets, its result with the verdict, and its environment: scale, folders, real servers.

To add a line, list a `Line` in `simulators.bench.run_bench`. A line names its figures with their unit, such as
"even (visits/s)", and its targets refer to these names. So the verdict is computed only from the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Target:
    """A limit on one figure: `figure` is at least `least` and at most `most`, if given."""

    figure: str
    least: float | None = None
    most: float | None = None

    def is_met(self, value: float) -> bool:
        """Return whether a value is within the limits. NaN is not."""
        above = self.least is None or value >= self.least
        below = self.most is None or value <= self.most
        return value == value and above and below  # noqa: PLR0124  # NaN differs from itself

    def __str__(self) -> str:
        """Return the figure with its limits."""
        least = "" if self.least is None else f" ≥ {self.least:,g}"
        most = "" if self.most is None else f" ≤ {self.most:,g}"
        return f"{self.figure}{least}{most}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its name on the command line, what it measures, its goal in words and in numbers.

    `measure` returns the figures by name. With `bench.quick` it takes less than 20 seconds.
    """

    name: str
    work: str
    goal: str
    targets: tuple[Target, ...]
    measure: Callable[[Bench], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of a line after its run. `error` is the message if it could not be measured."""

    figures: Mapping[str, float]
    seconds: float
    error: str = ""

    def list_missed(self, line: Line) -> list[str]:
        """Return the targets that are not met. A target without a figure is not one of them."""
        figures = self.figures
        known = (target for target in line.targets if target.figure in figures)
        return [str(target) for target in known if not target.is_met(figures[target.figure])]

    def judge(self, line: Line) -> str:
        """Return the verdict: "met", "missed", "incomplete" if a figure is missing, or "failed"."""
        if self.error:
            return "failed"
        if self.list_missed(line):
            return "missed"
        return "met" if all(target.figure in self.figures for target in line.targets) else "incomplete"
