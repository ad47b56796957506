"""The recount of one configuration: the people and visits that its answers count (docs/interface.md, section 1).

Visits may be added in any order, and counts of ticks and designated times that have not been forgotten may be requested
in any order, because a late record changes only ticks from its own slot on. No count is ever printed.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from monitor.audit.configuration import AuditTerms
from monitor.audit.kinds.base.monitor import Counts, Use
from monitor.audit.visits import AcceptedVisit, Line, accept

_FATES: Final = ("applied", "too_late", "not_watched", "expired", "dead_letter")


class Recount:
    """The recount of one configuration.

    `monitors` has the counts of each monitor by name. Person ids are replaced by digests with a random `key`. `first`,
    `last`: the first and the last slot in which an accepted visit was reported or took place; None if there is none.
    """

    def __init__(self, terms: AuditTerms, key: bytes) -> None:
        self.terms = terms
        self.first: int | None = None
        self.last: int | None = None
        self._fates: Counter[tuple[str, int]] = Counter()
        self._key = key
        self.monitors: dict[str, Any] = {monitor.name: monitor.create_counts(terms) for monitor in terms.monitors}
        self._at_all: list[Counts] = []
        self._at_row: dict[int, list[Counts]] = {}
        for monitor in terms.monitors:
            rows, counts = monitor.find_watched_rows(terms), self.monitors[monitor.name]
            if rows is None:
                self._at_all.append(counts)
            for row in rows or ():
                self._at_row.setdefault(row, []).append(counts)

    def note_whole(self, *, whole: bool) -> None:
        """Note whether the recount has every visit that the next answers may count."""
        for counts in self.monitors.values():
            counts.whole = whole

    def take(self, line: Line | int) -> None:
        """Accept or refuse a visit as reported. An invalid one is given as the instant of its report."""
        visit = None
        if not isinstance(line, int):
            digest = hashlib.blake2b(line.person.encode(), key=self._key, digest_size=16)
            visit = accept(line, int.from_bytes(digest.digest()), self.terms)
        current = self.terms.grid.find_slot(line if isinstance(line, int) else line.reported)
        self._fates["dead_letter" if visit is None else self.add(visit), current] += 1
        if visit is not None:
            began, ended = min(self.terms.grid.find_slot(visit.arrived), current), max(visit.last, current)
            self.first = began if self.first is None else min(began, self.first)
            self.last = ended if self.last is None else max(ended, self.last)

    def add(self, visit: AcceptedVisit) -> str:
        """Add a visit, and return its fate.

        It is applied if a tick counts it, or too late if it covers designated times and only windows count it. It is
        expired if only ticks before its report would count it, and otherwise not watched.
        """
        uses = {counts.add(visit) for counts in (*self._at_all, *self._at_row.get(visit.row, ()))}
        if Use.IN_TIME in uses:
            return "applied"
        if Use.IN_WINDOW in uses:
            return "too_late" if Use.TOO_LATE in uses else "applied"
        return "not_watched" if uses <= {Use.NONE} else "expired"

    def count_fates(self, last_tick: int) -> dict[str, int]:
        """Return the number of visits by fate, of those that were reported before the last tick's as_of."""
        fates = dict.fromkeys(_FATES, 0)
        for (fate, slot), number in self._fates.items():
            fates[fate] += number * (slot <= last_tick)
        return fates

    def find_last_tick(self, tick: int) -> int:
        """Return the tick at which every visit has left every window and horizon; `tick` if there is no visit."""
        return tick if self.last is None else self.last + self.terms.lifetime

    @property
    def kept_visits(self) -> int:
        """The number of visits that later answers may count, once for each monitor that counts them."""
        return sum(map(len, self.monitors.values()))

    def forget(self, tick: int) -> None:
        """Forget the counts before a tick, and the fates of visits, which are counted only in a run that ends."""
        self._fates.clear()
        for counts in self.monitors.values():
            counts.forget(tick)


def create_recounts(configs: Sequence[AuditTerms]) -> list[Recount]:
    """Return a recount of each configuration."""
    key = os.urandom(16)
    return [Recount(terms, key) for terms in configs]
