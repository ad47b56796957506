"""`location-monitor dead-letters`: refused visits, shown, exported for correction, and sent again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from monitor.commands.options import EXISTING, add_config_option, report_errors
from monitor.commands.settings import load_settings
from monitor.contracts.clock import SystemClock
from monitor.errors import UsageError
from monitor.observe.logs import set_up_logging
from monitor.tools.dead_letters.command import ShowOptions, export_command, list_reasons, resend_command, show_command


@click.command("dead-letters")
@add_config_option
@click.option(
    "--reason", "reason", multiple=True, type=click.Choice(list_reasons()), help="Only this reason; repeatable."
)
@click.option("--since", help="Only since this time (RFC 3339), or within this duration before now, such as 2h.")
@click.option("--latest", type=click.IntRange(0), default=20, show_default=True, help="How many to list.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--export", type=click.Path(path_type=Path), help="Write them to a new file, for correction.")
@click.option("--resend", type=EXISTING, help="Send the corrected visits of an exported file to the input topic.")
@click.option("--dry-run", is_flag=True, help="With --resend: check the file and send nothing.")
@report_errors
def dead_letters(config_file: Path, export: Path | None, resend: Path | None, **options: Any) -> None:
    """Show refused visits by reason, or send corrected ones again.

    Values are never shown, because they name people. A visit that is sent again counts like a visit that is reported
    now: from the next tick on, and only if a window or horizon still contains it.
    """
    set_up_logging(30)
    if (export is not None and resend is not None) or (options["dry_run"] and resend is None):
        raise UsageError("--export and --resend exclude each other, and --dry-run requires --resend")
    settings, clock = load_settings(config_file, bytes(16)), SystemClock()
    show = ShowOptions(options["reason"], options["since"], options["latest"])
    if resend is not None:
        sys.exit(resend_command(settings, resend, clock, click.echo, dry_run=options["dry_run"]))
    elif export is not None:
        export_command(settings, show, clock, export, click.echo)
    else:
        show_command(settings, show, clock, Console(), as_json=options["as_json"])
