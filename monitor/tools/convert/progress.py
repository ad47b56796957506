"""Show the progress of long commands on standard error: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES: Final = 5.0


class Meter:
    """A counter of the work done, out of `total`, and of the visits written."""

    def __init__(self, total: int, now: Callable[[], float]) -> None:
        self.total = total
        self.done = 0
        self.visits = 0
        self._now = now
        self._began = now()

    def advance(self, done: int, visits: int) -> None:
        """Set the work done and the visits written so far, and show them."""
        self.done, self.visits = done, visits

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self._now() - self._began

    @property
    def rate(self) -> float:
        """Visits per second since the start."""
        return self.visits / max(self.seconds, 1e-9)


class _Bar(Meter):
    def __init__(self, total: int, now: Callable[[], float], bar: Progress, title: str) -> None:
        super().__init__(total, now)
        self._bar = bar
        self._task = bar.add_task(title, total=total, rate="")

    def advance(self, done: int, visits: int) -> None:
        super().advance(done, visits)
        self._bar.update(self._task, completed=done, rate=f"{visits:,} visits, {self.rate:,.0f}/s")


class _Lines(Meter):
    def __init__(self, total: int, now: Callable[[], float], console: Console, title: str) -> None:
        super().__init__(total, now)
        self._console = console
        self._title = title
        self._next = _SECONDS_BETWEEN_LINES

    def advance(self, done: int, visits: int) -> None:
        super().advance(done, visits)
        if self.seconds < self._next or not done:
            return
        self._next = self.seconds + _SECONDS_BETWEEN_LINES
        left = self.seconds * (self.total - done) / done
        self._console.print(
            f"{self._title}: {done / self.total:.0%}, {visits:,} visits, {self.rate:,.0f}/s, {left:.0f} s left"
        )


@contextmanager
def show_progress(
    title: str, total: int, console: Console, now: Callable[[], float] = time.monotonic
) -> Iterator[Meter]:
    """Show the progress of `total` units of work on a console. Yield the meter to advance."""
    if not console.is_terminal:
        yield _Lines(total, now, console, title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Bar(total, now, bar, title)
