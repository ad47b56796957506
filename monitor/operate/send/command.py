"""`location-monitor send`: send a file of visits to the input topic."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from monitor.command_options import EXISTING, add_config_option
from monitor.config.valid_config import load_valid_config
from monitor.kafka.connections import build_kafka_connections
from monitor.observe.logs import set_up_logging
from monitor.operate.send.send_file import Target, send_file
from monitor.time.clock import SystemClock


@click.command()
@click.argument("visits", type=EXISTING)
@add_config_option
@click.option("--dry-run", is_flag=True, help="Check the file, say what would be sent, and send nothing.")
@click.option(
    "--resume",
    "first_line",
    type=click.IntRange(1),
    default=1,
    metavar="LINE",
    help="Send only the visits from this line on. An interrupted command names it.",
)
@click.option("--despite-warnings", is_flag=True, help="Send the file even if several people seem to have one id.")
def send(visits: Path, config_file: Path, *, dry_run: bool, first_line: int, despite_warnings: bool) -> None:
    """Send a file of visits to the input topic.

    VISITS is CSV as for replay, or has one visit or batch of visits as JSON in each line. A column reported_at is not
    sent: a visit is reported when Kafka has it.

    The command reads the whole file first, and lists the lines that the service would refuse or count nowhere. It sends
    the others and waits until all in-sync replicas have them. A visit that arrives twice counts once.

    The exit code is 0 if all visits of the file were sent, or with --dry-run would be sent. It is 1 if some were not:
    the output has their lines.
    """
    set_up_logging(30)
    valid = load_valid_config(config_file, os.environ)
    kafka = valid.config.kafka
    target = Target(build_kafka_connections(kafka, valid.config.service.name), kafka.topics.visits, visits)
    code = send_file(
        target,
        valid.parameters,
        SystemClock(),
        dry_run=dry_run,
        first_line=first_line,
        despite_warnings=despite_warnings,
    )
    sys.exit(code)
