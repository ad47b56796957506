"""The options of `location-monitor register` that say who publishes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any, TypeVar

import click

from monitor.tools.register.publisher import CURATOR_TYPES, SECTORS, Publisher

_R = TypeVar("_R")


def add_publisher_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Add the options to a command."""
    options = (
        click.option("--curator", help="The name of the body that publishes the answers."),
        click.option(
            "--curator-type",
            type=click.Choice(CURATOR_TYPES),
            default=CURATOR_TYPES[0],
            show_default=True,
            help="The kind of this body, as the registry names it.",
        ),
        click.option(
            "--sector",
            type=click.Choice(SECTORS),
            default=SECTORS[1],
            show_default=True,
            help="The sector, as the registry names it.",
        ),
        click.option("--region", help="Where the places are, and whose law applies."),
        click.option("--contact", help="Where people can ask questions."),
        click.option("--author", help="Who files the registry entry."),
        click.option(
            "--published", type=click.DateTime(["%Y-%m-%d"]), help="The day of the first publication; today by default."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_publisher(options: dict[str, Any], today: date) -> Publisher:
    """Return the publisher from the options' values by name."""
    published: datetime | None = options.pop("published")
    return Publisher(published=today if published is None else published.date(), **options)
