"""The page of all errors and exit codes, from `monitor/errors.py`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Final

from monitor import errors
from monitor.errors import EXIT_DONE, EXIT_FAILED, EXIT_REFUSED, EXIT_USAGE, MonitorError
from tests.docs.reference.markdown import paragraphs

_HEAD: Final = """# Errors and exit codes

A command that fails prints one message on standard error: the key, its value, what was expected, and what to do. Its
exit code is that of the error. This page is generated from `monitor/errors.py`.
"""

_CODES: Final = {
    EXIT_DONE: "The command is done. `run` was stopped with SIGTERM.",
    EXIT_FAILED: "The command failed while running, or `audit` found a broken promise. A supervisor may restart `run`. "
    "Unreachable servers do not end `run`: it waits for them.",
    EXIT_USAGE: "The command or its configuration is wrong. All problems are listed, and nothing was started.",
    EXIT_REFUSED: "The service refuses to start because of the state of the servers. Restarting does not help: the "
    "message names the remedy.",
}

_MORE: Final = {
    "ConfigError": "../configuration.md",
    "ContradictionError": "../planning.md",
    "DurationError": "../configuration.md#how-values-are-written",
    "TimeError": "../configuration.md#how-values-are-written",
    "EpsilonError": "../configuration.md#how-values-are-written",
    "OverspentError": "../privacy.md#what-one-person-pays",
    "RefusedError": "../operations.md#exit-codes",
    "TopicError": "../operations.md#topics",
    "InputChangedError": "../operations.md#what-to-do-when-",
    "LedgerChangedError": "../operations.md#what-to-do-when-",
    "EvictionError": "../operations.md#redis-or-valkey",
    "LedgerError": "../operations.md#what-to-do-when-",
    "PeriodError": "../operations.md#what-to-do-when-",
    "NotEmptyError": "../interface.md#2-commands",
    "UnreachableError": "../operations.md#metrics-and-health",
    "EmbeddedError": "../../README.md#install",
    "ClockError": "../operations.md#what-to-do-when-",
    "ReplayError": "../interface.md#2-commands",
}
"""Where a page says more about an error."""


def list_errors() -> dict[str, type[MonitorError]]:
    """Return every error of the product by its name, a base before what derives from it."""
    found = dict(inspect.getmembers(errors, lambda each: inspect.isclass(each) and issubclass(each, MonitorError)))
    return {each.__name__: each for each in _walk(MonitorError) if each.__name__ in found}


def render() -> str:
    """Return the page."""
    unknown = _MORE.keys() - list_errors().keys()
    if unknown:
        raise ValueError(f"pages for errors that do not exist: {sorted(unknown)}")
    codes = "".join(f"\n## Exit code {code}\n\n{text}\n{_list_raised(code)}" for code, text in _CODES.items())
    return _HEAD + codes + "\n## Errors\n" + "".join(_describe(error) for error in list_errors().values())


def _walk(error: type[MonitorError]) -> Iterator[type[MonitorError]]:
    yield error
    for derived in error.__subclasses__():
        yield from _walk(derived)


def _list_raised(code: int) -> str:
    names = [name for name, error in list_errors().items() if error.exit_code == code and error is not MonitorError]
    return f"\nErrors: {', '.join(map(_link, names))}.\n" if names else ""


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _describe(error: type[MonitorError]) -> str:
    name, base = error.__name__, error.__bases__[0]
    text = f"\n### {name}\n\n{paragraphs(inspect.cleandoc(error.__doc__ or ''))}\n\n"
    kind = f"A {_link(base.__name__)}, exit code" if error is not MonitorError else "Exit code"
    text += f"{kind} [{error.exit_code}](#exit-code-{error.exit_code}).\n"
    return text if name not in _MORE else f"{text}\n[More]({_MORE[name]})\n"
