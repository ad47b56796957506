"""Times of day, on all days or on some days of the week, and their text form: `18:00`, `Tue 18:00`, `Mon-Fri 18:00`."""

from __future__ import annotations

import re
from datetime import time
from typing import Final, NamedTuple

_NAMES: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY: Final = "|".join(_NAMES)
_SPAN: Final = rf"(?:{_DAY})(?:-(?:{_DAY}))?"
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?"
_FORM: Final = re.compile(rf"(?:(?P<days>{_SPAN}(?:,{_SPAN})*) )?(?P<clock>{_CLOCK})", re.ASCII | re.IGNORECASE)

WEEK_DAYS: Final = tuple(range(len(_NAMES)))
"""The days of the week, as in `date.weekday`: Monday is 0."""


class TimeOfDay(NamedTuple):
    """A time of day, and the days of the week on which it occurs, ascending. Monday is 0."""

    at: time
    days: tuple[int, ...] = WEEK_DAYS

    @property
    def text(self) -> str:
        """The form in owner records: `18:00:00`, or with each day in lower case, `tue,sat 18:00:00`.

        An earlier version takes a text with a capital T for an instant. It would count `Tue 18:00` once in a period.
        """
        if self.days == WEEK_DAYS:
            return self.at.isoformat()
        return f"{','.join(_NAMES[day].lower() for day in self.days)} {self.at.isoformat()}"

    def count_most(self, dates: int) -> int:
        """Return the maximum number of its days in this number of consecutive dates."""
        weeks, rest = divmod(dates, len(WEEK_DAYS))
        return weeks * len(self.days) + max(
            sum((first + ahead) % len(WEEK_DAYS) in self.days for ahead in range(rest)) for first in WEEK_DAYS
        )


def read_time_of_day(text: str) -> TimeOfDay | None:
    """Read a time of day, with days of the week before it or without; None if the text has another form.

    Days are separated by commas. `Fri-Mon` is Friday to Monday.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    at = time.fromisoformat(match["clock"])
    if match["days"] is None:
        return TimeOfDay(at)
    days = {day for span in match["days"].split(",") for day in _list_days(*span.split("-"))}
    return TimeOfDay(at, tuple(sorted(days)))


def _list_days(first: str, last: str | None = None) -> list[int]:
    """Return the days of the week from the first to the last one."""
    begin = _NAMES.index(first.capitalize())
    end = begin if last is None else _NAMES.index(last.capitalize())
    length = (end - begin) % len(WEEK_DAYS) + 1
    return [(begin + ahead) % len(WEEK_DAYS) for ahead in range(length)]
