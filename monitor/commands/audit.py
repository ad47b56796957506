"""`location-monitor audit`: a run, checked against its input."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from rich.console import Console

from monitor.commands.options import EXISTING, config_option, report_errors
from monitor.config import load_config
from monitor.errors import EXIT_FAILED, UsageError
from monitor.ingest.fetcher import FetchState, read_leniently
from monitor.service import kafka_connections
from monitor.tools import audit as recount


@click.command()
@click.argument("visits", type=EXISTING, required=False)
@config_option
@click.option("--alerts", type=EXISTING, help="With VISITS: the alerts file that replay wrote.")
@click.option("--live", is_flag=True, help="The service ran in real time, so ticks may have been skipped.")
@report_errors
def audit(visits: Path | None, config_file: Path, alerts: Path | None, live: bool) -> None:  # noqa: FBT001  # by name
    """Check a run against its input.

    The audit shares no code with the service. It exits with 1 if the run breaks a promise. Without VISITS and --alerts
    it reads the topics of the configuration.
    """
    if (visits is None) != (alerts is None):
        raise UsageError("VISITS and --alerts must be given together; without both, the topics are read")
    try:
        with Console(stderr=True).status("Auditing"):
            if visits is None or alerts is None:
                report = _audit_topics(config_file)
            else:
                report = recount.audit(visits, config_file, alerts, every_tick=not live)
    except recount.AuditError as error:
        raise UsageError(str(error)) from error
    recount.render(report, Console())
    if not report.ok:
        sys.exit(EXIT_FAILED)


def _audit_topics(config_file: Path) -> recount.AuditReport:
    config = load_config(config_file, os.environ)
    kafka = kafka_connections(config)

    def open_input(**settings: str) -> object:
        return read_leniently(kafka.consumer(**settings), FetchState(tries=1))

    with kafka.translate_errors():
        topics = config.kafka.topics
        report, source, output = recount.audit_topics(
            config_file, kafka.consumer, topics.visits, topics.alerts, open_input
        )
    recount.render_kept(source, output, Console())
    return report
