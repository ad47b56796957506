"""Sort more lines than fit in memory: write sorted runs to temporary files, and merge them."""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from monitor.operate.replay.read_visits import Line

RUN_LINES: Final = 500_000
_BLOCK: Final = 2_000


class SortedLines:
    """Lines sorted by time of report, then by their order in the file.

    `on_line` is called for each line read. `run_lines` lines are sorted in memory at once. `close` removes the
    temporary files.
    """

    def __init__(self, lines: Iterable[Line], on_line: Callable[[], None], run_lines: int = RUN_LINES) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._runs: list[Path] = []
        self._last: list[Line] = []
        try:
            self._sort(iter(lines), on_line, run_lines)
        except BaseException:
            self.close()
            raise

    def _sort(self, source: Iterator[Line], on_line: Callable[[], None], run_lines: int) -> None:
        while run := list(islice(source, run_lines)):
            run.sort()
            for _ in run:
                on_line()
            if len(run) < run_lines and not self._runs:
                self._last = run
            else:
                self._spill(run)

    def _spill(self, run: list[Line]) -> None:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="location-monitor-replay-")
        path = Path(self._folder.name) / str(len(self._runs))
        with path.open("wb") as file:
            for start in range(0, len(run), _BLOCK):
                pickle.dump(run[start : start + _BLOCK], file)
        self._runs.append(path)

    def __iter__(self) -> Iterator[Line]:
        """Yield all lines, in order."""
        return heapq.merge(self._last, *(_read_run(path) for path in self._runs))

    def close(self) -> None:
        """Remove the temporary files."""
        if self._folder is not None:
            self._folder.cleanup()


def _read_run(path: Path) -> Iterator[Line]:
    with path.open("rb") as file, suppress(EOFError):
        while True:
            yield from pickle.load(file)  # noqa: S301  # this process wrote it
