"""Read the fields of output records strictly (docs/interface.md, section 4).

Anybody who may write to the output topic can forge a record. So a check uses only values whose type and range have been
checked here. JSON that only resembles a number, such as `true`, `3.0` or `"3"`, is not a number of the interface.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeVar

from monitor.tools.audit.terms import Grid
from monitor.tools.audit.text import format_utc, parse_instant

MOST: Final = 2**63 - 1
"""The largest whole number in a record."""

_EPSILON: Final = re.compile(r"[1-9][0-9]*(/[1-9][0-9]*)?", re.ASCII)
_LONGEST_EPSILON: Final = 400

_T = TypeVar("_T")


class FormError(Exception):
    """A record is not in the form of docs/interface.md. The message names a field, and quotes nothing of the record."""


class Fields:
    """The fields of a JSON object.

    Raises:
        FormError: the value is not an object (constructor); a field is missing or has another form (methods).
    """

    def __init__(self, value: object) -> None:
        if not isinstance(value, dict):
            raise FormError("expected a JSON object")
        self._value = value

    def __contains__(self, name: str) -> bool:
        return name in self._value

    def get(self, name: str) -> Any:
        """Return a field of any form."""
        if name not in self._value:
            raise FormError(f"{name} is missing")
        return self._value[name]

    def read_text(self, name: str) -> str:
        """Return a text."""
        text = self.get(name)
        if not isinstance(text, str):
            raise FormError(f"{name}: expected a text")
        return text

    def read_choice(self, name: str, *texts: str) -> str:
        """Return a text that is one of these."""
        text = self.get(name)
        if not isinstance(text, str) or text not in texts:
            raise FormError(f"{name}: expected {' or '.join(texts)}")
        return text

    def read_flag(self, name: str) -> bool:
        """Return true or false."""
        flag = self.get(name)
        if not isinstance(flag, bool):
            raise FormError(f"{name}: expected true or false")
        return flag

    def read_whole(self, name: str, least: int = -MOST, most: int = MOST) -> int:
        """Return a whole number within these limits, which are included."""
        return check_whole(self.get(name), name, least, most)

    def read_number(self, name: str) -> float:
        """Return a finite number."""
        number = self.get(name)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise FormError(f"{name}: expected a number")
        if not (math.isfinite(number) if isinstance(number, float) else abs(number) <= MOST):
            raise FormError(f"{name}: the number is out of range")
        return float(number)

    def read_tick(self, name: str, grid: Grid) -> int:
        """Return a tick whose as_of is within the years in which times can be written."""
        tick = self.read_whole(name)
        if not grid.has(tick):
            raise FormError(f"{name}: the tick is out of range")
        return tick

    def read_instant(self, name: str) -> int:
        """Return a time in UTC with Z, as an instant."""
        text = self.read_text(name)
        try:
            at = parse_instant(text)
            if text == format_utc(at):
                return at
        except (ValueError, OverflowError):
            pass
        raise FormError(f"{name}: expected a time in UTC with Z")

    def read_epsilon(self, name: str) -> Fraction:
        """Return an ε, a whole number or a reduced fraction."""
        return parse_recorded_epsilon(self.read_text(name), name)

    def read_objects(self, name: str) -> list[Fields]:
        """Return the fields of each object of an array."""
        items = self.read_array(name)
        if not all(isinstance(item, dict) for item in items):
            raise FormError(f"{name}: expected an array of JSON objects")
        return [Fields(item) for item in items]

    def read_texts(self, name: str) -> list[str]:
        """Return an array of texts."""
        return check_texts(self.read_array(name), name)

    def read_object(self, name: str) -> Fields:
        """Return the fields of an object."""
        return Fields(self.read_table(name))

    def read_array(self, name: str) -> list[Any]:
        """Return an array with elements of any form."""
        items = self.get(name)
        if not isinstance(items, list):
            raise FormError(f"{name}: expected an array")
        return items

    def read_table(self, name: str) -> dict[str, Any]:
        """Return an object with names that the record chooses, such as location ids, and values of any form."""
        table = self.get(name)
        if not isinstance(table, dict):
            raise FormError(f"{name}: expected a JSON object")
        return table

    def read_optional(self, name: str, read: Callable[[str], _T]) -> _T | None:
        """Return a field, or None if it is missing or null."""
        return None if self._value.get(name) is None else read(name)


def check_texts(texts: object, name: str) -> list[str]:
    """Return a value if it is an array of texts.

    Raises:
        FormError: it is not. The message has this name.
    """
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise FormError(f"{name}: expected an array of texts")
    return texts


def check_whole(number: object, name: str, least: int = -MOST, most: int = MOST) -> int:
    """Return a value if it is a whole number within these limits.

    Raises:
        FormError: it is not. The message has this name.
    """
    if isinstance(number, bool) or not isinstance(number, int):
        raise FormError(f"{name}: expected a whole number")
    if not least <= number <= most:
        raise FormError(f"{name}: the number is out of range")
    return number


@lru_cache(maxsize=4096)
def parse_recorded_epsilon(text: str, name: str) -> Fraction:
    """Parse an ε as records have it, `3` or `1/2`.

    Raises:
        FormError: it has another form. The message has this name.
    """
    if len(text) <= _LONGEST_EPSILON and _EPSILON.fullmatch(text) and str(Fraction(text)) == text:
        return Fraction(text)
    raise FormError(f"{name}: expected an ε, a whole number or a reduced fraction")
