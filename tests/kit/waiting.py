"""Wait for a condition with a deadline: the only loop of the tests that waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

POLL_SECONDS: Final = 0.01
LONGEST_POLL_SECONDS: Final = 0.1

_T = TypeVar("_T")


def until(condition: Callable[[], _T], deadline_seconds: float = 10.0, what: str = "the condition is true") -> _T:
    """Wait for the condition's first true value and return it.

    Raises:
        AssertionError: the condition is not true within the time.
    """
    began = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - began
        if waited > deadline_seconds:
            raise AssertionError(f"{what}: not within {deadline_seconds:g} s; the last value: {value!r}")
        time.sleep(min(max(POLL_SECONDS, waited / 30), LONGEST_POLL_SECONDS))  # a question may be expensive
    return value
