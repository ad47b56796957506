"""Report unexpected errors without their text, which may quote a visit or contain a count (docs/rules.md, rule 10)."""

from __future__ import annotations

import logging
import traceback


def describe_unexpected(error: BaseException) -> str:
    """Return the lines of code that an error left, one call after the other, and the class of the error."""
    return "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__


def log_unexpected(log: logging.Logger, message: str, *arguments: object, error: BaseException) -> None:
    """Log a message at level ERROR, followed by the lines of code and the class of an error."""
    log.error(f"{message}:\n%s", *arguments, describe_unexpected(error))  # noqa: G004  # `message` is a format itself
