"""The common part of hot spots and dwell times: one record per designated time, drawn at the last tick about it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

from monitor.tools.audit.check import Check, Prove, Scope
from monitor.tools.audit.fields import Fields
from monitor.tools.audit.findings import TICKS
from monitor.tools.audit.records import PublishedRecord, check_envelope, check_facts
from monitor.tools.audit.terms import DwellTerms, HotSpotsTerms
from monitor.tools.audit.text import format_utc


class Drawing(NamedTuple):
    """A record about a designated time. `where` identifies it in findings."""

    time: int
    tick: int
    where: str
    status: str


class DrawnCheck(Check):
    """The check of one monitor's records. A subclass reads and checks what they draw."""

    def __init__(self, monitor: HotSpotsTerms | DwellTerms, scope: Scope) -> None:
        super().__init__(scope)
        self._drawn_by = monitor

    def take(self, record: PublishedRecord) -> Prove | None:
        """Check the next record."""
        fields, grid, monitor = Fields(record.value), self._terms.grid, self._drawn_by
        time, tick = fields.read_instant("time"), fields.read_tick("tick", grid)
        where = f"{monitor.name}/{format_utc(time)}, tick {tick}"
        if not monitor.find_times(time, time + 1) or tick != monitor.find_ticks(time, grid)[1]:
            self._findings.add(TICKS, f"{where}: the time is not designated, or this is not the last tick about it")
            return None
        if (monitor.name, time) in self._history.answered:
            self._findings.add(TICKS, f"{where}: the time is answered a second time")
        self._history.answered.add((monitor.name, time))
        drawing = Drawing(time, tick, where, fields.read_choice("status", "complete", "unknown"))
        prove = self._read(fields, drawing)
        self.statuses[drawing.status] += 1
        key = f"{monitor.name}/{format_utc(time)}"
        check_envelope(record, self._terms, key, tick, self._findings)
        facts = {
            "kind": record.kind,
            "final": True,
            "registry": self._terms.digest,
            "locations": len(self._terms.locations),
            "epsilon": str(monitor.epsilon),
        }
        check_facts(record, key, tick, facts | self._list_facts(), self._findings)
        return prove

    @abstractmethod
    def _read(self, fields: Fields, drawing: Drawing) -> Prove:
        """Read and check what was drawn. Return the comparison with the recount. Raise FormError for another form."""

    @abstractmethod
    def _list_facts(self) -> dict[str, object]:
        """Return the fields that the monitor decides, and their values."""

    def _charge(self, kind: str, drawing: Drawing) -> None:
        """Note that what was drawn charges people."""
        monitor = self._drawn_by
        self._answers.add(kind, monitor.name, (drawing.time,), monitor.epsilon, drawing.tick)

    def _add(self, oracle: str, drawing: Drawing, texts: Iterator[str]) -> None:
        for text in texts:
            self._findings.add(oracle, f"{drawing.where}: {text}")

    def finish(self, first: int, last: int) -> None:
        """Check that every designated time whose last tick is in the range was answered, if every tick must be."""
        if not self._history.sequence.every_tick:
            return
        grid, monitor = self._terms.grid, self._drawn_by
        for time in monitor.find_times(grid.as_of(first) - monitor.horizon, grid.as_of(last + 1) - monitor.horizon):
            if (monitor.name, time) not in self._history.answered:
                tick = monitor.find_ticks(time, grid)[1]
                self._findings.add(TICKS, f"{monitor.name}/{format_utc(time)}: tick {tick} is missing")
