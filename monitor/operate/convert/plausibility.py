"""What a reader would notice in converted visits: their days, and what often means that a file was misread."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, time, tzinfo
from typing import Final, NamedTuple

from monitor.operate.convert.rows import Stay
from monitor.time.instants import MINUTE, to_datetime

_PLACEHOLDERS: Final = frozenset(
    {"na", "n/a", "#n/a", "#name?", "#null!", "#ref!", "#value!", "nan", "null", "(null)", "<null>", "nil", "none"}
    | {"undefined", "unknown", "missing", "-", "--", "?"}
)
_SCIENTIFIC: Final = re.compile(r"[+-]?\d+(?:[.,]\d*)?e\+?\d+", re.ASCII | re.IGNORECASE)
_KEPT_DIGITS: Final = 15  # a spreadsheet keeps these of a number, and writes zeros for the others
_OFFSETS: Final = 15 * MINUTE  # zones differ from UTC by multiples of this
_MOST_MIDNIGHTS: Final = 20  # one in so many; of times to the hour, one in 24 is midnight if people walk at night

_EMPTY: Final = "end when they begin, so no designated time counts them"
_MIDNIGHT: Final = "begin at exactly midnight: if these are dates, convert them without a time, and they stand for days"
_PLACEHOLDER: Final = "have an id such as NA, NULL or unknown, so that all of them are of one person, or at one place"
_ADDRESS: Final = "name their person by an address, and others do not: one person may be two, so convert one system"
_ROUNDED: Final = "have an id that a spreadsheet has rounded, so that two people may have one id: export ids as text"
_MERGING: Final = frozenset({_PLACEHOLDER, _ROUNDED})
"""What gives several people one id, so that a count is too low and "safe" may be false."""


class _Found(NamedTuple):
    visits: int
    first: str


class Plausibility:
    """Counts of the visits of a conversion. `zone`: that of days and midnights."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone or UTC
        self._visits = self._long_numbers = 0
        self._first: int | None = None
        self._last: int | None = None
        self._found: dict[str, _Found] = {}
        self._zeros = _Found(0, "")

    def add(self, where: str, stay: Stay) -> None:
        """Count a visit. `where` is its line or entry."""
        self._visits += 1
        start, end = stay.arrived_at, stay.left_at
        self._first = start if self._first is None else min(self._first, start)
        self._last = start if self._last is None else max(self._last, start)
        if start == end:
            self._note(_EMPTY, where)
        if self._is_midnight(start) and (end is None or end == start or not self._is_midnight(end)):
            self._note(_MIDNIGHT, where)
        if "://" in stay.person_id:
            self._note(_ADDRESS, where)
        ids = (stay.person_id, stay.location_id)
        if stay.person_id.casefold() in _PLACEHOLDERS or stay.location_id.casefold() in _PLACEHOLDERS:
            self._note(_PLACEHOLDER, where)
        if _SCIENTIFIC.fullmatch(stay.person_id) or _SCIENTIFIC.fullmatch(stay.location_id):
            self._note(_ROUNDED, where)
        for name in ids:
            if len(name) > _KEPT_DIGITS and name.isdigit():
                self._long_numbers += 1
                if not name[_KEPT_DIGITS:].strip("0"):
                    self._zeros = _Found(self._zeros.visits + 1, self._zeros.first or where)

    def describe_days(self) -> str:
        """Return the days on which the visits begin, in the zone."""
        if self._first is None or self._last is None:
            return "no visit"
        first, last = (self._find_local(instant).date().isoformat() for instant in (self._first, self._last))
        return (
            f"visits begin on {first} ({self._zone})"
            if first == last
            else f"visits begin from {first} to {last} ({self._zone})"
        )

    def find_warnings(self) -> Iterator[str]:
        """Yield a sentence for each thing that often means that a file was misread. None quotes an id."""
        for what, (count, first) in self._find_doubts().items():
            yield f"{count:,} of {self._visits:,} visits {what} (the first: {first})"

    def may_merge_people(self) -> bool:
        """Return whether ids look as if several people had one. A count would be too low, and "safe" may be false."""
        return not _MERGING.isdisjoint(self._find_doubts())

    def _find_doubts(self) -> dict[str, _Found]:
        found = dict(self._found)
        if found.get(_MIDNIGHT, _Found(0, "")).visits * _MOST_MIDNIGHTS <= self._visits:
            found.pop(_MIDNIGHT, None)
        if found.get(_ADDRESS, _Found(0, "")).visits == self._visits:
            found.pop(_ADDRESS, None)
        if self._zeros.visits == self._long_numbers > 0:  # of other long numbers, some end in another digit
            found.setdefault(_ROUNDED, self._zeros)
        return found

    def _note(self, what: str, where: str) -> None:
        before = self._found.get(what, _Found(0, where))
        self._found[what] = _Found(before.visits + 1, before.first)

    def _is_midnight(self, instant: int) -> bool:
        return instant % _OFFSETS == 0 and self._find_local(instant).time() == time()

    def _find_local(self, instant: int) -> datetime:
        moment = to_datetime(instant)
        try:
            return moment.astimezone(self._zone)
        except OverflowError:  # in the first or the last year
            return moment
