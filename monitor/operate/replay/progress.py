"""Show the progress of long work: a bar with rate and time left on a terminal, otherwise a line every five seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINE_SECONDS: Final = 5.0


class Steps:
    """The steps of long work. `bar` is not shown if its console is not a terminal."""

    def __init__(self, title: str, total: int | None, unit: str, bar: Progress) -> None:
        self._title, self._total, self._unit = title, total, unit
        self._bar, self._task = bar, bar.add_task(title, total=total, rate="")
        self._done = 0
        self._began = self._printed = time.monotonic()

    def advance(self, steps: int = 1) -> None:
        """Count steps as finished."""
        self._done += steps
        self._bar.update(self._task, advance=steps, rate=f"{self._compute_rate():,.0f}/s")
        if self._bar.disable and time.monotonic() - self._printed >= LINE_SECONDS:
            self.print_line()

    def print_line(self) -> None:
        """Print the progress as a line."""
        self._printed, rate = time.monotonic(), self._compute_rate()
        if self._total is None:
            text = f"{self._done:,} {self._unit}, {rate:,.0f}/s"
        else:
            left = (self._total - self._done) / rate if rate else 0.0
            share = self._done / max(self._total, 1)
            text = f"{self._done:,} of {self._total:,} {self._unit} ({share:.0%}), {rate:,.0f}/s, {left:.0f} s left"
        self._bar.console.print(f"{self._title}: {text}", highlight=False, soft_wrap=True)

    def _compute_rate(self) -> float:
        return self._done / max(time.monotonic() - self._began, 1e-9)


@contextmanager
def show_progress(title: str, total: int | None, unit: str, console: Console) -> Iterator[Steps]:
    """Show the progress over `total` steps (None if the number is unknown). `unit` names the steps in the plural."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit)
    times = TextColumn("{task.fields[rate]}"), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, *times, console=console, transient=True, disable=not console.is_terminal) as bar:
        steps = Steps(title, total, unit, bar)
        yield steps
    if bar.disable:
        steps.print_line()
