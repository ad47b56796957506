"""What the commands share: the option --config, and the way in which errors end a command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Final, NoReturn, ParamSpec, TypeVar

import click

from monitor.contracts.instants import parse_duration
from monitor.errors import EXIT_FAILED, DurationError, MonitorError

EXISTING: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW: Final = click.Path(dir_okay=False, writable=True, path_type=Path)

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _fail(error: MonitorError) -> NoReturn:
    click.echo(f"location-monitor: {error}", err=True)
    sys.exit(error.exit_code)


def report_errors(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Turn an error into one message on standard error and the error's exit code."""

    @wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return command(*args, **kwargs)
        except MonitorError as error:
            _fail(error)
        except KeyboardInterrupt:
            click.echo("location-monitor: interrupted", err=True)
            sys.exit(EXIT_FAILED)

    return wrapped


def add_config_option(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Add the option --config, whose parameter is `config_file`."""
    return click.option("--config", "config_file", type=EXISTING, required=True, help="The configuration file (YAML).")(
        command
    )


def read_duration(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """Return the duration of an option in microseconds; None if the option is not given.

    Raises:
        BadParameter: the value is not a duration.
    """
    try:
        return None if value is None else parse_duration(value)
    except DurationError as error:
        raise click.BadParameter(str(error)) from error
