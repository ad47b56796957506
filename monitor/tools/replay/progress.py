"""Show the progress of long work: a bar with rate and time left on a terminal, otherwise a line every five seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINE_SECONDS: Final = 5.0


class Steps(Protocol):
    """The steps of long work."""

    def advance(self, steps: int = 1) -> None:
        """Count steps as finished."""


class _Bar:
    def __init__(self, title: str, total: int | None, unit: str, console: Console) -> None:
        rate = TextColumn("{task.fields[rate]}")
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            rate,
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task(title, total=total, rate="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, steps: int = 1) -> None:
        task = self._progress.tasks[0]
        rate = f"{task.speed:,.0f}/s" if task.speed else ""
        self._progress.update(self._task, advance=steps, rate=rate)


class _Lines:
    def __init__(self, title: str, total: int | None, unit: str, console: Console) -> None:
        self._title, self._total, self._unit, self._console = title, total, unit, console
        self._done = 0
        self._began = self._printed = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._print()

    def advance(self, steps: int = 1) -> None:
        self._done += steps
        if time.monotonic() - self._printed >= LINE_SECONDS:
            self._print()

    def _print(self) -> None:
        self._printed = time.monotonic()
        rate = self._done / max(self._printed - self._began, 1e-9)
        if self._total is None:
            text = f"{self._done:,} {self._unit}, {rate:,.0f}/s"
        else:
            left = (self._total - self._done) / rate if rate else 0.0
            share = self._done / max(self._total, 1)
            text = f"{self._done:,} of {self._total:,} {self._unit} ({share:.0%}), {rate:,.0f}/s, {left:.0f} s left"
        self._console.print(f"{self._title}: {text}", highlight=False, soft_wrap=True)


@contextmanager
def show_progress(title: str, total: int | None, unit: str, console: Console) -> Iterator[Steps]:
    """Show the progress over `total` steps (None if the number is unknown). `unit` names the steps in the plural."""
    with (_Bar if console.is_terminal else _Lines)(title, total, unit, console) as steps:
        yield steps
