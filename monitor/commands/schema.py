"""`location-monitor schema`: the published schemas."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from monitor.commands.options import report_errors
from monitor.config import Config
from monitor.contracts import schemas


@click.command()
@click.argument("what", type=click.Choice(["config", "visits", "alerts", "asyncapi"]))
@report_errors
def schema(what: str) -> None:
    """Print a JSON Schema, or the AsyncAPI document."""
    documents: dict[str, Callable[[], Any]] = {
        "config": Config.model_json_schema,
        "visits": schemas.build_visits_schema,
        "alerts": schemas.build_alerts_schema,
        "asyncapi": schemas.build_asyncapi,
    }
    click.echo(json.dumps(documents[what](), indent=2, ensure_ascii=False))
