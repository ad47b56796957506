"""Parse JSON, and say whether it is strict.

Strict JSON has no NaN, no infinite number, no text that UTF-8 cannot encode, and at most 200 levels.
"""

from __future__ import annotations

import json
import math
import re
from itertools import accumulate
from typing import Any, Final, NoReturn

_DEEPEST: Final = 200
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')


def parse_json(text: str) -> tuple[Any, bool]:
    """Return the value of a JSON text, and whether it is strict. The value is None if the text is too deep to parse.

    Raises:
        ValueError: the text is not JSON, also with NaN and infinite numbers allowed.
    """
    loose: list[str] = []

    def parse_float(digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            loose.append(digits)
        return number

    try:
        value = json.loads(text, parse_constant=loose.append, parse_float=parse_float)
    except RecursionError:
        return None, False
    too_deep = is_too_deep(text.encode("utf-8", "surrogatepass"))
    return value, not loose and not too_deep and ("\\u" not in text or _can_be_encoded(value))


def _can_be_encoded(value: Any) -> bool:
    """Return whether UTF-8 can encode all texts of a value. The escape of a lone surrogate prevents it."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def refuse_constant(constant: str) -> NoReturn:
    """Refuse NaN and Infinity, as the `parse_constant` of `json.loads`."""
    raise ValueError(f"{constant} is not JSON")


def is_too_deep(text: bytes) -> bool:
    """Return whether arrays and objects are nested more than 200 deep in a JSON text."""
    if text.count(b"[") + text.count(b"{") <= _DEEPEST:
        return False
    brackets = re.findall(rb"[\[\]{}]", _STRING.sub(b"", text))
    return max(accumulate(1 if bracket in b"[{" else -1 for bracket in brackets), default=0) > _DEEPEST
