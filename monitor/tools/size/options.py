"""The options of `location-monitor size`. `Options` has their defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from monitor.tools.size.load import Options

_COUNT: Final = click.IntRange(1)
_NUMBER: Final = click.FloatRange(0, min_open=True)
_DEFAULTS: Final = Options(visits_per_hour=1, people=1)

_R = TypeVar("_R")


def add_size_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Add the options to a command."""
    options = (
        _add("visits_per_hour", _COUNT, "Visits reported in the busiest hour.", required=True),
        _add("people", _COUNT, "Different people reported within a window.", required=True),
        _add("places", _COUNT, "Registered places.  [default: those of the registry]"),
        _add("watched", click.IntRange(0), "Places watched over time.  [default: as configured]"),
        _add("places_per_person", _NUMBER, "Watched places that a person visits within a window."),
        _add("busy_factor", _NUMBER, "Visits of the busiest hour, divided by those of a mean hour."),
        _add("catch_up", _NUMBER, "The rate at which a backlog is read, divided by that of the busiest hour."),
        _add("visit_bytes", _COUNT, "Bytes of a visit in the input, after compression."),
        _add("kafka_replicas", _COUNT, "Replicas of each topic.  [default: as configured, or 3]"),
        _add("redis_replicas", click.IntRange(0), "Replicas of each Redis server."),
        _add("redis_gib", _NUMBER, "Memory of a Redis server, in GiB."),
        _add("broker_tib", _NUMBER, "Disk of a broker, in TiB."),
        _add("broker_mib_per_second", _NUMBER, "MiB that a broker writes and reads per second."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _add(name: str, kind: click.ParamType[Any], text: str, *, required: bool = False) -> Callable[..., Any]:
    default = None if required else getattr(_DEFAULTS, name)
    flag = f"--{name.replace('_', '-')}"
    return click.option(
        flag, type=kind, required=required, default=default, show_default=default is not None, help=text
    )
