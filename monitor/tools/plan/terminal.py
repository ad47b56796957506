"""Draw the curves as text, for any terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from monitor.tools.plan.curves import Curves

_WIDTH = 60
_ROWS = 10
_MARGIN = 9


def draw_text(curves: Curves) -> str:
    """Return two panels by count, with lines of at most 72 characters, and a timeline of the silence after alarms."""
    return "\n".join(
        (curves.title, *_draw_false_alarms(curves), "", *_draw_misses(curves), "", *_draw_timeline(curves))
    )


def _draw_false_alarms(curves: Curves) -> Iterator[str]:
    yield "chance of an alarm per update, by people there: * false, = certain (from T on), - target"
    floor = min(*curves.alarm, curves.limit or 1.0)
    decades = max(1, math.ceil(-math.log10(max(floor, 1e-12))))
    each = max(1, round(_ROWS / decades))
    panel = _Panel(len(curves.alarm), each * decades, lambda chance: 1 + math.log10(max(chance, 1e-300)) / decades)
    if curves.limit is not None:
        panel.draw_line(curves.limit, "-")
    for people, chance in enumerate(curves.alarm):
        panel.mark(people, chance, "*" if people < curves.threshold else "=")
    yield from panel.render_lines(lambda row: "1" if row == 0 else f"1e-{row // each}", each, curves.threshold)


def _draw_misses(curves: Curves) -> Iterator[str]:
    yield "o no alarm at an update that answers (a miss); s share of the time silent"
    panel = _Panel(len(curves.miss), _ROWS, lambda share: share)
    for people, (miss, silent) in enumerate(zip(curves.miss, curves.silent, strict=True)):
        if curves.mark_lifetime:
            panel.mark(people, silent, "s")
        panel.mark(people, miss, "o")
    yield from panel.render_lines(lambda row: f"{100 - 100 * row // _ROWS} %", 2, curves.threshold)


def _draw_timeline(curves: Curves) -> Iterator[str]:
    if curves.silence:
        alarms = "!" * min(curves.answers, _WIDTH // 3)
        yield f"{'':>{_MARGIN}} {alarms}{'.' * (_WIDTH - 2 * len(alarms))}?   ! alarm   . silent   ? answers again"
    yield curves.timeline


class _Panel:
    """A grid of characters over the counts 0 … n - 1. A later mark overwrites an earlier one."""

    def __init__(self, counts: int, rows: int, height: Callable[[float], float]) -> None:
        self._counts = counts
        self._rows = rows
        self._height = height
        self._cells = [[" "] * min(counts * self._stretch, _WIDTH) for _ in range(rows + 1)]

    @property
    def _stretch(self) -> int:
        return max(1, _WIDTH // self._counts)

    def _find_column(self, people: int) -> int:
        if self._counts <= _WIDTH:
            return people * self._stretch
        return people * (_WIDTH - 1) // (self._counts - 1)

    def _find_row(self, value: float) -> int:
        return self._rows - round(self._rows * min(max(self._height(value), 0.0), 1.0))

    def mark(self, people: int, value: float, sign: str) -> None:
        self._cells[self._find_row(value)][self._find_column(people)] = sign

    def draw_line(self, value: float, sign: str) -> None:
        row = self._cells[self._find_row(value)]
        row[:] = [sign] * len(row)

    def render_lines(self, label: Callable[[int], str], each: int, threshold: int) -> Iterator[str]:
        for number, row in enumerate(self._cells):
            name = label(number) if number % each == 0 else ""
            yield f"{name:>{_MARGIN}} |{''.join(row)}".rstrip()
        width = len(self._cells[0])
        yield f"{'':>{_MARGIN}} +{'-' * width}"
        column = self._find_column(threshold)
        yield f"{'people':>{_MARGIN}}  0{'T = ' + str(threshold):>{column + 4 if column > 4 else 9}}"  # noqa: PLR2004  # room for the 0
