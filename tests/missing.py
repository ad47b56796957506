"""What a test does if a server or a program that it needs is not available on this machine."""

from __future__ import annotations

import os
from typing import Final, NoReturn

import pytest

MISSING: Final = "server missing: "


def report_missing(what: str, remedy: str) -> NoReturn:
    """Skip the test, or fail it in CI. The summary of the run names what is missing, and the remedy."""
    message = f"{MISSING}{what}. To run these tests: {remedy}"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
