"""`location-monitor audit`: a run, checked against its input."""

from __future__ import annotations

import os
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from monitor import audit as recount
from monitor.audit.configuration import refuse_variables
from monitor.audit.live.config_files import list_configs
from monitor.audit.live.start_audit import FollowOptions, audit_topics, follow_topics
from monitor.command_options import EXISTING, NEW
from monitor.errors import EXIT_FAILED, EXIT_USAGE, UsageError
from monitor.observe.logs import set_up_logging
from monitor.stop_signals import stop_on_signals


@click.command()
@click.argument("visits", type=EXISTING, required=False)
@click.option(
    "--config",
    "config_files",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    multiple=True,
    help="The configuration file (YAML). Repeat it for earlier configurations that were in force, newest first. Or "
    "give a folder of configurations, of which the last name is the newest.",
)
@click.option("--alerts", type=EXISTING, help="With VISITS: the alerts file that replay wrote.")
@click.option("--live", is_flag=True, help="With VISITS: files of a run in real time, so ticks may have been skipped.")
@click.option("--follow", is_flag=True, help="Follow the topics until SIGTERM, with metrics and health.")
@click.option("--output-only", is_flag=True, help="With --follow: do not read the input, check only the output.")
@click.option(
    "--metrics-port",
    "port",
    type=click.IntRange(0, 65535),
    help="With --follow: the port of metrics and health, instead of auditor.port.",
)
@click.option("--since", help="With --follow: report no findings about ticks until this time (RFC 3339).")
@click.option("--result", type=NEW, help="With --follow: keep the result for the public page in this file (JSON).")
def audit(
    visits: Path | None,
    config_files: tuple[Path, ...],
    alerts: Path | None,
    live: bool,  # noqa: FBT001  # click passes options by name
    follow: bool,  # noqa: FBT001  # as above
    **follow_options: Any,
) -> None:
    """Check a run against its input.

    The audit shares no code with the service. It exits with 1 if the run breaks a promise, and otherwise with 2 if some
    records were not judged, because their configuration was not given. Without VISITS and --alerts it reads the topics
    of the configuration, which is how to audit a running service: once, or continuously with --follow. No file of
    visits is needed then.
    """
    options = FollowOptions(**follow_options)
    if (visits is None) != (alerts is None):
        raise UsageError("VISITS and --alerts must be given together; leave out both to read the topics")
    if live and visits is None:
        raise UsageError("--live requires VISITS and --alerts: leave it out, because in topics ticks may be skipped")
    if follow and visits is not None:
        raise UsageError("--follow reads the topics: leave out VISITS and --alerts")
    if not follow and options != FollowOptions():
        raise UsageError("--output-only, --metrics-port, --since and --result require --follow")
    try:
        refuse_variables(os.environ)
        if follow:
            set_up_logging(20)
            stop = threading.Event()
            signals = partial(stop_on_signals, stop, lambda text: click.echo(text, err=True))
            follow_topics(config_files, os.environ, options, stop, signals)
            return
        with Console(stderr=True).status("Auditing"):
            if visits is None or alerts is None:
                report = audit_topics(config_files, os.environ)
            else:
                report = recount.audit(visits, list_configs(config_files), alerts, every_tick=not live)
    except recount.AuditError as error:
        raise UsageError(str(error)) from error
    recount.render(report, Console())
    if not report.ok:
        sys.exit(EXIT_FAILED)
    if report.unjudged:
        sys.exit(EXIT_USAGE)
