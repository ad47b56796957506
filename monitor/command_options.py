"""What the commands share: options, and how an error ends a command."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import click

from monitor.errors import EXIT_FAILED, DurationError, MonitorError, escape_controls
from monitor.time.instants import parse_duration

EXISTING: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW: Final = click.Path(dir_okay=False, writable=True, path_type=Path)

_OBJECTS_BETWEEN_COLLECTIONS: Final = 70_000

_P = ParamSpec("_P")
_R = TypeVar("_R")


class CommandGroup(click.Group):
    """The commands. An error ends each of them with one message on standard error and the error's exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that the arguments name."""
        collect_garbage_rarely()
        try:
            return super().invoke(ctx)
        except MonitorError as error:
            message, code = str(error), error.exit_code
        except KeyboardInterrupt:
            message, code = "interrupted", EXIT_FAILED
        lines = map(escape_controls, f"location-monitor: {message}".split("\n"))
        click.echo("\n".join(lines), err=True)
        sys.exit(code)


def collect_garbage_rarely() -> None:
    """Let Python look for cycles of objects a hundred times less often.

    A registry, a tick and a batch of visits are many objects without cycles, so each search visits them in vain.
    """
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)


def add_config_option(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Add the option --config, whose parameter is `config_file`."""
    return click.option("--config", "config_file", type=EXISTING, required=True, help="The configuration file (YAML).")(
        command
    )


def add_delays_option(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Add the option --delays, whose parameter is `delays_file`."""
    text = "How late visits are reported: the metric report_delay_seconds as text or JSON, or CSV (delay,share)."
    return click.option("--delays", "delays_file", type=EXISTING, help=text)(command)


def add_since_option(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Add the option --since of the commands that show answers, whose parameter is `since`."""
    text = "Believe no answer, and report no wrong signature, until this time (RFC 3339). Needs signing.public_key."
    return click.option("--since", help=text)(command)


def read_duration(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """Return the duration of an option in microseconds; None if the option is not given.

    Raises:
        BadParameter: the value is not a duration.
    """
    try:
        return None if value is None else parse_duration(value)
    except DurationError as error:
        raise click.BadParameter(str(error)) from error
