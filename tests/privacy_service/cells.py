"""Visits to a town of three places, the cells that have a budget, and the records of the visits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Final, NamedTuple

from monitor.privacy.over_time import Mark
from monitor.privacy.published_numbers import TimeNumber
from monitor.time.instants import HOUR, MINUTE, SECOND
from tests.builders import ORIGIN, build_visit

Q: Final = Fraction(1, 2)
PEOPLE: Final = 2
PLACES: Final = ("inn", "mill", "farm")
AT_EPSILON: Final = Fraction(1, 2)

Ratio = Fraction | float
Counts = tuple[int, ...]
"""The counts of one cell, tick by tick.

Of a location or time whose rule has k ≥ 2 the count of a tick has several digits to the base `BASE`: first all people
of the cell, then those reported since tick -1, since tick 0, and so on. So the counts of two people still add up.
"""

BASE: Final = 16


def find_digit(since: int | None) -> int:
    """Return the number of the digit of a count since a tick (None: all people of the cell)."""
    return 0 if since is None else since + 2


def read_digit(count: int, since: int | None) -> int:
    """Return the people that were reported since a tick."""
    power: int = BASE ** find_digit(since)
    return count // power % BASE


class Visit(NamedTuple):
    """One reported visit, with times in minutes and slots of 60 minutes.

    `moment` is the time of the report. 2c is in the first seconds of slot c, so the report is processed before tick
    c - 1 is read; 2c + 1 is later in slot c. In both cases tick c is the first that counts it.
    """

    person: str
    place: str
    arrived: int
    left: int | None
    moment: int

    @property
    def first_tick(self) -> int:
        """The first tick that counts the report."""
        return self.moment // 2

    @property
    def first_read(self) -> int:
        """The first tick that is read after the report was processed."""
        return (self.moment - 1) // 2


class Cell(NamedTuple):
    """A unit with a budget: the window of a location (`time` None), or a location at a designated time (its minute)."""

    row: int
    time: int | None = None


HOT: Final = Cell(-1)
"""The draws of hot spots, which are one answer about all locations."""

RANKED: Final = PEOPLE + 1
"""The highest noisy count of hot spots that is enumerated; the law is memoryless, so higher ones have equal ratios."""

State = tuple[Mark, ...] | tuple[TimeNumber, ...]
"""The state of a cell in the ledger: its marks, or its noisy counts about a designated time."""


@cache
def _encode_visit(visit: Visit) -> str:
    left = None if visit.left is None else ORIGIN + visit.left * MINUTE
    return json.dumps(build_visit(visit.person, visit.place, ORIGIN + visit.arrived * MINUTE, left))


def encode_record(visits: Sequence[Visit]) -> bytes:
    texts = [_encode_visit(visit) for visit in visits]
    return (texts[0] if len(texts) == 1 else f'{{"batch_id": "b", "visits": [{", ".join(texts)}]}}').encode()


def stamp_ms(moment: int) -> int:
    within = 15 * SECOND if moment % 2 == 0 else 45 * MINUTE
    return (ORIGIN + moment // 2 * HOUR + within) // 1_000
