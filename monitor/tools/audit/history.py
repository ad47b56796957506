"""The history of a run: marks, noisy counts and ticks of earlier records. All configurations share it.

If earlier records are not known, because they have expired or no configuration was given for them, the next record of
the same subject is assumed to be correct about them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from monitor.tools.audit.fields import Fields, FormError
from monitor.tools.audit.findings import TICKS, Findings
from monitor.tools.audit.records import PublishedRecord


class Mark(NamedTuple):
    """A noisy answer whose ε counts as spent at its location up to the tick `until`."""

    tick: int
    noisy_count: int
    epsilon: Fraction
    until: int


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


@dataclass(slots=True)
class Marks:
    """The running marks by monitor and location. If the output is not `whole`, earlier marks are not known."""

    whole: bool = True
    _known: dict[tuple[str, str], list[Mark]] = field(default_factory=dict)
    _doubtful: set[tuple[str, str]] = field(default_factory=set)

    def get(self, monitor: str, location: str) -> list[Mark] | None:
        """Return the marks; None if they are not known."""
        subject = monitor, location
        if subject in self._doubtful:
            return None
        return self._known.get(subject, [] if self.whole else None)

    def set(self, monitor: str, location: str, marks: list[Mark]) -> None:
        """Set the marks after a record."""
        self._doubtful.discard((monitor, location))
        self._known[monitor, location] = marks

    def doubt(self, monitor: str, location: str) -> None:
        """Note that a record was not judged, so the marks after it are not known."""
        self._known.pop((monitor, location), None)
        self._doubtful.add((monitor, location))


@dataclass(slots=True)
class NoisyCounts:
    """The noisy counts of monitors of designated times: (tick, count) by location, for each monitor and time τ.

    Locations can change their shards when the configuration changes, so the counts of all shards are kept together.
    """

    whole: bool = True
    _known: dict[tuple[str, int], dict[str, tuple[int, int]]] = field(default_factory=dict)
    _seen: set[tuple[str, int, int, int]] = field(default_factory=set)

    def get_known(
        self, monitor: str, time: int, shard: tuple[int, int], earlier: dict[str, tuple[int, int]]
    ) -> dict[str, tuple[int, int]]:
        """Return the counts about τ, to which the caller adds new ones.

        Args:
            monitor: the monitor's name.
            time: the designated time τ.
            shard: the shard and the number of shards.
            earlier: the counts of earlier ticks in this record, which are added if earlier records are not known.
        """
        known = self._known.setdefault((monitor, time), {})
        subject = (monitor, time, *shard)
        if subject not in self._seen:
            self._seen.add(subject)
            if not self.whole:
                known.update({name: count for name, count in earlier.items() if name not in known})
        return known

    def doubt(self, monitor: str, time: int, noisy: dict[str, tuple[int, int]]) -> None:
        """Assume that the counts of a record that was not judged are correct."""
        self._known.setdefault((monitor, time), {}).update(noisy)

    def forget(self, time: int) -> None:
        """Forget the designated times before an instant."""
        self._known = {subject: counts for subject, counts in self._known.items() if subject[1] >= time}
        self._seen = {subject for subject in self._seen if subject[1] >= time}


@dataclass(slots=True)
class History:
    """The ticks, marks and noisy counts so far, and which lower bounds, hot spots and dwell times were published.

    `bounds_drawn` has (monitor, τ, shard, number of shards) of lower bounds, and `answered` has (monitor, τ) of hot
    spots and dwell times. `lost_slots` has, by output partition, the latest slot in which an earlier ledger was lost.
    """

    sequence: TickSequence
    marks: Marks = field(default_factory=Marks)
    noisy: NoisyCounts = field(default_factory=NoisyCounts)
    bounds_drawn: set[tuple[str, int, int, int]] = field(default_factory=set)
    answered: set[tuple[str, int]] = field(default_factory=set)
    lost_slots: dict[int, int] = field(default_factory=dict)

    def doubt(self, record: PublishedRecord) -> None:
        """Note an answer that is not judged: what it says about earlier answers is assumed to be correct."""
        with suppress(FormError):
            fields = Fields(record.value)
            monitor = fields.read_text("monitor")
            if record.kind == "over_time":
                self.marks.doubt(monitor, fields.read_text("location_id"))
            elif record.kind == "at_times":
                counts = {name: Fields(count) for name, count in fields.read_table("noisy_counts").items()}
                noisy = {
                    name: (count.read_whole("tick"), count.read_whole("noisy_count")) for name, count in counts.items()
                }
                self.noisy.doubt(monitor, fields.read_instant("time"), noisy)
            else:
                self.answered.add((monitor, fields.read_instant("time")))

    def forget(self, time: int) -> None:
        """Forget the designated times before an instant, about which there will be no more records."""
        self.noisy.forget(time)
        self.bounds_drawn = {subject for subject in self.bounds_drawn if subject[1] >= time}
        self.answered = {subject for subject in self.answered if subject[1] >= time}
        self.sequence.forget(lambda subject: _is_before(subject, time))


def _is_before(subject: Hashable, time: int) -> bool:
    """Return whether a subject is about a designated time before an instant."""
    return isinstance(subject, tuple) and len(subject) > 2 and subject[1] < time  # noqa: PLR2004  # (monitor, τ, shard)


def _format_ticks(first: int, last: int) -> str:
    return f"tick {first} is" if first == last else f"ticks {first} to {last} are"
