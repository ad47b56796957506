"""`location-monitor topics`: the topics that the service needs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from monitor.command_options import add_config_option
from monitor.errors import UsageError
from monitor.kafka.topics import TopicNeeds, check_topics, list_partition_changes, list_risks
from monitor.service.create_topics import Beginning, date_ledger_loss, read_redis_time, set_up
from monitor.service.load_settings import load_settings
from monitor.service.preflight import read_ledger_partitions
from monitor.service.wiring import Settings
from monitor.time.clock import SystemClock


@click.command()
@add_config_option
@click.option("--create", is_flag=True, help="Create the missing topics, with the required settings.")
@click.option("--first-start", is_flag=True, help="With --create: no answer was ever published.")
@click.option("--ledger-lost", is_flag=True, help="With --create: answers were published, but the ledger is lost.")
def topics(config_file: Path, create: bool, first_start: bool, ledger_lost: bool) -> None:  # noqa: FBT001  # by name
    """Check the topics that the service needs, or create them."""
    if first_start and ledger_lost:
        raise UsageError("--first-start and --ledger-lost exclude each other: give only one of them")
    if (first_start or ledger_lost) and not create:
        raise UsageError("--first-start and --ledger-lost require --create")
    settings = load_settings(config_file, bytes(16))
    wanted = settings.needs
    if not create:
        _check_topics(settings, wanted)
        return
    beginning = Beginning.UNSPECIFIED
    if first_start:
        beginning = Beginning.FIRST_START
    elif ledger_lost:
        beginning = Beginning.LEDGER_LOST
    lost_by = None
    if ledger_lost:
        ask_redis = partial(read_redis_time, settings.redis)
        lost_by, explanation = date_ledger_loss(SystemClock(), settings.parameters.tolerance, ask_redis)
        click.echo(f"the ledger counts as lost at {explanation}")
    factor = settings.config.kafka.replication_factor
    done = set_up(settings.kafka, settings.parameters, wanted, beginning, SystemClock().now(), factor, lost_by)
    click.echo(done)
    ledger = wanted[1]
    partitions = read_ledger_partitions(done.ledger_reader.states, ledger.topic) or ledger.partitions
    _warn(list_partition_changes(ledger, partitions))


def _check_topics(settings: Settings, wanted: Sequence[TopicNeeds]) -> None:
    topics = check_topics(settings.kafka, wanted)
    for name, topic in topics.items():
        click.echo(f"{name}: {topic.partitions} partitions, all required settings present")
    ledger = wanted[1]
    _warn([*list_risks(wanted, topics), *list_partition_changes(ledger, topics[ledger.topic].partitions)])


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
