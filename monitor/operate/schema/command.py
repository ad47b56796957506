"""`location-monitor schema`: the published schemas."""

from __future__ import annotations

import json

import click

from monitor.config.whole_config import Config
from monitor.operate.schema.build_schemas import SCHEMAS


@click.command()
@click.argument("what", type=click.Choice(["config", *SCHEMAS]))
def schema(what: str) -> None:
    """Print a JSON Schema, or the AsyncAPI document."""
    build = Config.model_json_schema if what == "config" else SCHEMAS[what]
    click.echo(json.dumps(build(), indent=2, ensure_ascii=False))
