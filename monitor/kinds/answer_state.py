"""What the answers of a ledger partition leave for later ones: marks, answers about designated times, and charges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from monitor.privacy.over_time import Mark
from monitor.privacy.published_numbers import TimeNumber

Charged = tuple[str, str, int]
"""The key of an answer about a designated time: the monitor's kind and name, and the time (an instant)."""


@dataclass(frozen=True, slots=True)
class SignedMark(Mark):
    """A spent mark that the key has signed.

    `signed`: the mark as the key has signed it. A record without a signature may give it a larger ε or a later end,
    which count as spent and are not published again.
    """

    signed: Mark


@dataclass(slots=True)
class TimeAnswers:
    """The answers about designated times, by monitor and time. None of them is drawn again."""

    noisy: dict[tuple[str, int], dict[str, tuple[TimeNumber, ...]]] = field(default_factory=dict)
    """The noisy counts of each location that has any, by tick. They are spent."""
    signed: dict[tuple[str, int], dict[str, tuple[TimeNumber, ...]]] = field(default_factory=dict)
    """Those of them that the key has signed, as it has signed them.

    A record without a signature may give one of them a larger ε, which counts as spent and is not published again.
    """
    drawn: set[tuple[str, int]] = field(default_factory=set)
    """The monitors and times whose answer about all places was drawn."""
    bounded: dict[tuple[str, int], set[tuple[int, int]]] = field(default_factory=dict)
    """The (shard, number of shards) pairs whose lower bounds were drawn."""

    def spend(self, monitor: str, time: int, location: str, numbers: Sequence[TimeNumber]) -> bool:
        """Record noisy counts of a location. Return whether one of them is new.

        Of two of one tick, the first noisy count stays, and the larger ε counts. One without its ε spends all.
        """
        noisy = self.noisy.setdefault((monitor, time), {})
        known = {number.tick: number for number in noisy.get(location, ())}
        if any(number.epsilon is None for number in known.values()):
            return False
        new = [number for number in numbers if number.tick not in known]
        known |= {number.tick: number for number in new}
        for number in numbers:
            first = known[number.tick]
            if number.epsilon is None or (first.epsilon is not None and number.epsilon > first.epsilon):
                known[number.tick] = first._replace(epsilon=number.epsilon)
        noisy[location] = tuple(known[tick] for tick in sorted(known))
        return bool(new)

    def sign(self, monitor: str, time: int, location: str, numbers: Iterable[TimeNumber]) -> None:
        """Record that the key has signed these noisy counts, which are spent."""
        signed = self.signed.setdefault((monitor, time), {})
        by_tick = {number.tick: number for number in (*signed.get(location, ()), *numbers)}
        signed[location] = tuple(by_tick[tick] for tick in sorted(by_tick))

    def find_signed(self, monitor: str, time: int, location: str) -> tuple[TimeNumber, ...]:
        """Return the noisy counts of a location that the key has signed, by tick."""
        return self.signed.get((monitor, time), {}).get(location, ())

    def may_draw_bounds(self, monitor: str, time: int, shard: int, shards: int) -> bool:
        """Return whether no location of a shard has had its lower bound drawn.

        Under another number of shards, a location may have been in any shard. So if a shard was drawn under another
        number, the result is False for all shards.
        """
        drawn = self.bounded.get((monitor, time), ())
        return all(number == shards and other != shard for other, number in drawn)

    def record_bounds(self, monitor: str, time: int, shard: int, shards: int) -> None:
        """Record that the lower bounds of a shard were drawn."""
        self.bounded.setdefault((monitor, time), set()).add((shard, shards))

    def forget(self, oldest: int) -> None:
        """Drop designated times before `oldest`."""
        self.noisy = {key: noisy for key, noisy in self.noisy.items() if key[1] >= oldest}
        self.signed = {key: signed for key, signed in self.signed.items() if key[1] >= oldest}
        self.drawn = {key for key in self.drawn if key[1] >= oldest}
        self.bounded = {key: drawn for key, drawn in self.bounded.items() if key[1] >= oldest}


@dataclass(slots=True, kw_only=True)
class AnswerState(ABC):
    """What earlier answers of a ledger partition leave for later ones."""

    marks: dict[tuple[str, str], dict[int, Mark]] = field(default_factory=dict)
    """Every mark that a window may still contain, even if it no longer runs: a longer window may contain the visits
    that it charged.
    """
    past: dict[tuple[str, str], dict[int, Mark]] = field(default_factory=dict)
    """Marks that a period may still contain, but no window."""
    times: TimeAnswers = field(default_factory=TimeAnswers)
    """The answers about designated times."""
    charged: dict[Charged, Fraction] = field(default_factory=dict)
    """The largest ε published about a designated time, among the records that have not expired."""

    @property
    @abstractmethod
    def repeats_only_signed(self) -> bool:
        """Whether answers repeat only the noisy counts that the key has signed. The others are spent all the same."""

    @property
    @abstractmethod
    def lost_at(self) -> int | None:
        """The instant up to which answers may be unreadable. They all count as spent (docs/rules.md, rule 5)."""

    @property
    @abstractmethod
    def input_since(self) -> int:
        """The slot from which facts are complete if an earlier input topic was lost, else one before all others."""

    def find_marks(self, monitor: str, location: str) -> tuple[Mark, ...]:
        """Return a location's marks in order of ticks."""
        marks = self.marks.get((monitor, location))
        return tuple(marks[tick] for tick in sorted(marks)) if marks else ()

    def charge(self, key: Charged, epsilon: Fraction) -> None:
        """Record that ε was published about a designated time."""
        self.charged[key] = max(epsilon, self.charged.get(key, epsilon))

    def spend(self, monitor: str, location: str, marks: tuple[Mark, ...]) -> None:
        """Record marks. Of two marks of one tick, the first noisy count stays; the larger ε and the later end count."""
        if not marks:
            return  # the state does not grow with the places that were never answered
        known = self.marks.setdefault((monitor, location), {})
        for mark in marks:
            before = known.get(mark.tick)
            if before is None:
                known[mark.tick] = mark
            elif mark.until > before.until or mark.epsilon > before.epsilon:
                epsilon, until = max(before.epsilon, mark.epsilon), max(before.until, mark.until)
                known[mark.tick] = replace(before, epsilon=epsilon, until=until)

    def sign(self, monitor: str, location: str, marks: tuple[Mark, ...]) -> None:
        """Record that the key has signed these marks, which are spent. A later tick may sign them with a later end."""
        for mark in marks:
            spent = self.marks[monitor, location][mark.tick]
            signed = SignedMark(spent.tick, spent.noisy_count, spent.epsilon, spent.until, mark)
            self.marks[monitor, location][mark.tick] = signed

    def forget(self, tick: int, mark_lifetime: int, oldest_time: int, kept: int = 0) -> None:
        """Move marks that no window can contain again to `past`, and drop designated times before `oldest_time`.

        A mark stays in `past` for `kept` more slots, because a period may contain the visits that it charged.
        """
        for key, known in list(self.marks.items()):
            gone = [at for at, mark in known.items() if max(mark.until, mark.tick + mark_lifetime - 1) < tick]
            for at in gone:
                self.past.setdefault(key, {})[at] = known.pop(at)
            if not known:
                del self.marks[key]
        for key, past in list(self.past.items()):
            while past and max((first := past[next(iter(past))]).until, first.tick + mark_lifetime - 1) + kept < tick:
                del past[first.tick]
            if not past:
                del self.past[key]
        self.times.forget(oldest_time)
