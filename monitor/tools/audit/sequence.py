"""Check that every tick was answered once, in order."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from monitor.tools.audit.findings import TICKS, Findings


@dataclass(slots=True)
class TickSequence:
    """The ticks of each subject (a location, or a designated time and shard) in the order of their records."""

    findings: Findings
    every_tick: bool
    _seen: dict[Hashable, tuple[int, int]] = field(default_factory=dict)

    def see(self, subject: Hashable, name: str, tick: int) -> bool:
        """Add the next tick of a subject. Return False if it is not later than the previous one."""
        first, last = self._seen.get(subject, (tick, tick - 1))
        if tick <= last:
            again = "a second time" if tick == last else f"after tick {last}"
            self.findings.add(TICKS, f"{name}: tick {tick} is answered {again}")
            return False
        if self.every_tick and tick != last + 1:
            self.findings.add(TICKS, f"{name}: {_format_ticks(last + 1, tick - 1)} missing")
        self._seen[subject] = first, tick
        return True

    def forget(self, is_over: Callable[[Hashable], bool]) -> None:
        """Forget the subjects about which there will be no more records."""
        for subject in [subject for subject in self._seen if is_over(subject)]:
            del self._seen[subject]

    def expect(self, subject: Hashable, name: str, first: int, last: int) -> None:
        """After the last record, check that a subject was answered from the first tick to the last."""
        if not self.every_tick or first > last:
            return
        if subject not in self._seen:
            self.findings.add(TICKS, f"{name}: {_format_ticks(first, last)} missing")
            return
        began, ended = self._seen[subject]
        if began > first:
            self.findings.add(TICKS, f"{name}: {_format_ticks(first, began - 1)} missing")
        if ended < last:
            self.findings.add(TICKS, f"{name}: {_format_ticks(ended + 1, last)} missing")


def _format_ticks(first: int, last: int) -> str:
    return f"tick {first} is" if first == last else f"ticks {first} to {last} are"
