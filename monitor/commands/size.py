"""`location-monitor size`: the number of processes and servers for a load."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from monitor.commands.options import add_config_option
from monitor.config import load_valid_config
from monitor.tools.size.calculate import calculate
from monitor.tools.size.load import Options, read_load
from monitor.tools.size.render import render

_COUNT: Final = click.IntRange(1)
_NUMBER: Final = click.FloatRange(0, min_open=True)
_DEFAULTS: Final = Options(visits_per_hour=1, people=1)


def _add(flag: str, kind: click.ParamType[Any], text: str) -> Callable[..., Any]:
    default = getattr(_DEFAULTS, flag.removeprefix("--").replace("-", "_"))
    return click.option(flag, type=kind, default=default, show_default=default is not None, help=text)


@click.command()
@add_config_option
@click.option("--visits-per-hour", type=_COUNT, required=True, help="Visits reported in the busiest hour.")
@click.option("--people", type=_COUNT, required=True, help="Different people reported within a window.")
@_add("--places", _COUNT, "Registered places.  [default: those of the registry]")
@_add("--watched", click.IntRange(0), "Places watched over time.  [default: as configured]")
@_add("--places-per-person", _NUMBER, "Watched places that a person visits within a window.")
@_add("--busy-factor", _NUMBER, "Visits of the busiest hour, divided by those of a mean hour.")
@_add("--catch-up", _NUMBER, "The rate at which a backlog is read, divided by that of the busiest hour.")
@_add("--visit-bytes", _COUNT, "Bytes of a visit in the input, after compression.")
@_add("--kafka-replicas", _COUNT, "Replicas of each topic.  [default: as configured, or 3]")
@_add("--redis-replicas", click.IntRange(0), "Replicas of each Redis server.")
@_add("--redis-gib", _NUMBER, "Memory of a Redis server, in GiB.")
@_add("--broker-tib", _NUMBER, "Disk of a broker, in TiB.")
@_add("--broker-mib-per-second", _NUMBER, "MiB that a broker writes and reads per second.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def size(config_file: Path, as_json: bool, **options: Any) -> None:  # noqa: FBT001  # click passes options by name
    """Compute how many processes and servers a load needs.

    It also computes the numbers of partitions and shards. The output shows the arithmetic. Windows, slots and retention
    come from the configuration.
    """
    load = read_load(load_valid_config(config_file, os.environ), Options(**options))
    found = calculate(load)
    click.echo(json.dumps(found, indent=2) if as_json else "\n".join(render(load, found)))
