"""`location-monitor register`: what a publisher discloses about a configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from monitor.command_options import add_config_option
from monitor.config.valid_config import load_valid_config
from monitor.errors import FailedError, UsageError
from monitor.new_files import PUBLIC, replace_file
from monitor.operate.register.entry import build_entry, to_yaml
from monitor.operate.register.figures import CURATOR_TYPES, OPEN, SECTORS, Figures, Publisher, collect_figures
from monitor.operate.register.pages import write_assessment, write_notice
from monitor.time.clock import SystemClock
from monitor.time.instants import to_datetime


@click.command()
@add_config_option
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder to write to.")
@click.option("--json", "as_json", is_flag=True, help="Write the registry entry as JSON.")
@click.option("--overwrite", is_flag=True, help="Replace files that exist.")
@click.option("--curator", help="The name of the body that publishes the answers.")
@click.option(
    "--curator-type",
    type=click.Choice(CURATOR_TYPES),
    default=CURATOR_TYPES[0],
    show_default=True,
    help="The kind of this body, as the registry names it.",
)
@click.option(
    "--sector",
    type=click.Choice(SECTORS),
    default=SECTORS[1],
    show_default=True,
    help="The sector, as the registry names it.",
)
@click.option("--region", help="Where the places are, and whose law applies.")
@click.option("--contact", help="Where people can ask questions.")
@click.option("--author", help="Who files the registry entry.")
@click.option(
    "--published", type=click.DateTime(["%Y-%m-%d"]), help="The day of the first publication; today by default."
)
def register(
    config_file: Path,
    out: Path,
    published: datetime | None,
    *,
    as_json: bool,
    overwrite: bool,
    **publisher: Any,
) -> None:
    """Write what a publisher discloses about a configuration.

    The files are an entry for a registry of differential privacy deployments, a notice to the public, and a draft of a
    data protection impact assessment. They contain the figures of `check`.
    """
    figures = collect_figures(load_valid_config(config_file, os.environ))
    day = to_datetime(SystemClock().now()) if published is None else published
    files = compose(figures, Publisher(day.date(), **publisher), as_json=as_json)
    existing = [name for name in files if (out / name).exists()]
    if existing and not overwrite:
        raise UsageError(
            f"--out {out} contains {', '.join(existing)}, which somebody may have edited: name another folder, or add "
            "--overwrite."
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with replace_file(out / name, mode=PUBLIC) as file:
                file.write(text.encode())
    except OSError as error:
        raise FailedError(f"--out: {error.filename} cannot be written ({error.strerror}).") from error
    for name, text in files.items():
        number = text.count(OPEN)
        left = f'{number} places to fill in ("{OPEN}")' if number else "complete; read it before you publish it"
        click.echo(f"{out / name}: {left}")


def compose(figures: Figures, publisher: Publisher, *, as_json: bool) -> Mapping[str, str]:
    """Return the text of each file by its name."""
    entry = build_entry(figures, publisher)
    written = json.dumps(entry, ensure_ascii=False, indent=2) + "\n" if as_json else to_yaml(entry)
    return {
        f"registry-entry.{'json' if as_json else 'yaml'}": written,
        "notice.md": write_notice(figures, publisher),
        "assessment.md": write_assessment(figures, publisher),
    }
