"""`location-monitor replay`: the service on a file of visits."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from monitor.command_options import EXISTING, add_config_option
from monitor.config.secret_values import read_person_key
from monitor.config.valid_config import ValidConfig, load_valid_config
from monitor.errors import TimeError, UsageError
from monitor.observe.logs import set_up_logging
from monitor.operate.replay.driver import ReplayPlan, Summary, plan_replay, start_embedded, write_output
from monitor.operate.replay.driver import replay as run_replay
from monitor.operate.replay.progress import show_progress
from monitor.operate.replay.read_visits import Extent, check_header
from monitor.service.wiring import Settings, prepare_settings
from monitor.time.instants import parse_instant


@click.command()
@click.argument("visits", type=EXISTING)
@add_config_option
@click.option(
    "--alerts", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The file to write the alerts to."
)
@click.option("--embedded", is_flag=True, help="Start Kafka and Valkey from Python packages, and stop them at the end.")
@click.option("--again", is_flag=True, help="Replace the answers of an earlier replay, if they were not published.")
@click.option("--until", help="Stop after the last tick whose as_of is not after this time (RFC 3339).")
def replay(
    visits: Path,
    config_file: Path,
    alerts: Path,
    embedded: bool,  # noqa: FBT001  # by name
    again: bool,  # noqa: FBT001  # by name
    until: str | None,
) -> None:
    """Run the service on a file of visits.

    The clock is simulated, so the run is as fast as possible.

    Each replay draws fresh noise. Publish only one replay of the same visits: the lowest of several noisy counts is
    close to the true count, and each replay costs each person its ε again.

    VISITS is CSV, optionally gzipped (.csv.gz), with the header
    person_id,location_id,arrived_at,left_at,reported_at,consent. The last three columns are optional. Times are RFC
    3339 with an offset, such as 2026-11-20T08:15:00Z. docs/interface.md, section 2, describes the format.
    """
    set_up_logging(30)
    replay_command(visits, config_file, alerts, _parse_until(until), embedded=embedded, again=again)


def _parse_until(text: str | None) -> int | None:
    try:
        return None if text is None else parse_instant(text)
    except TimeError as error:
        raise UsageError(f"--until {text}: {error}") from error


FRESH_NOISE: Final = (
    "Each replay draws fresh noise, and costs each person its ε again. Publish only one replay of the same visits: the "
    "lowest of several noisy counts is close to the true count."
)


def replay_command(
    visits: Path, config_file: Path, alerts: Path, until: int | None, *, embedded: bool, again: bool
) -> None:
    """Replay a file and write the output topic to another file. Progress goes to standard error.

    `again`: whether the file may contain the answers of an earlier replay, which are replaced.

    Raises:
        MonitorError: the replay failed; the error has the exit code.
    """
    stderr = Console(stderr=True)
    check_header(visits)
    _require_writable(alerts)
    if not again:
        _require_first(alerts)
    valid = load_valid_config(config_file, os.environ)
    with _open_settings(valid, stderr, embedded=embedded) as settings:
        planned = _plan(visits, settings, until, stderr)
        try:
            total = max(0, planned.last_tick - planned.first_tick + 1)
            with show_progress("Replaying", total, "ticks", stderr) as steps:
                summary = run_replay(settings, planned, lambda _tick, _records: steps.advance())
        finally:
            planned.lines.close()
        topics = valid.config.kafka.topics
        written = write_output(settings.kafka, topics.alerts, settings.config.kafka.partitions.alerts, alerts)
    print_summary(summary, Console())
    print_warnings(summary, planned.extent, Console())
    Console().print(f"{written:,} records of {topics.alerts} in {alerts}", highlight=False)
    Console().print(FRESH_NOISE, highlight=False, soft_wrap=True)


def _require_first(alerts: Path) -> None:
    """Raise UsageError if the file already has content, which may be the answers of an earlier replay."""
    if alerts.stat().st_size if alerts.exists() else 0:
        raise UsageError(
            f"--alerts {alerts} already has content. {FRESH_NOISE} If it was not published, or is not about the same "
            "visits, replace it with --again"
        )


def _require_writable(alerts: Path) -> None:
    """Raise UsageError unless the file can be written. Its content is kept until the replay has succeeded."""
    existed = alerts.exists()
    try:
        alerts.open("a").close()
        if not existed:
            alerts.unlink()
    except OSError as error:
        raise UsageError(f"--alerts {alerts} cannot be written: {error.strerror or error}") from error


@contextmanager
def _open_settings(valid: ValidConfig, stderr: Console, *, embedded: bool) -> Iterator[Settings]:
    if not embedded:
        yield prepare_settings(valid, read_person_key(valid.config.visits))
        return
    with start_embedded(valid, lambda text: stderr.print(text, highlight=False, soft_wrap=True)) as moved:
        yield moved


def _plan(visits: Path, settings: Settings, until: int | None, stderr: Console) -> ReplayPlan:
    with show_progress(f"Reading {visits.name}", None, "lines", stderr) as steps:
        return plan_replay(visits, settings.parameters, until, steps.advance)


def print_summary(summary: Summary, console: Console) -> None:
    """Print the visits by fate, the answers by status, the number of ticks, the time and the rate."""
    visits = sum(summary.visits.values())
    table = Table(title="Visits by fate", title_justify="left")
    table.add_column("fate")
    table.add_column("visits", justify="right")
    for fate, count in summary.visits.items():
        table.add_row(fate, f"{count:,}")
    console.print(table)
    answers = Table(title="Answers by status", title_justify="left")
    answers.add_column("monitor")
    answers.add_column("status")
    answers.add_column("answers", justify="right")
    for (monitor, status), count in sorted(Counter(summary.answers).items()):
        answers.add_row(monitor, status, f"{count:,}")
    console.print(answers)
    seconds = max(summary.seconds, 1e-9)
    console.print(
        f"{summary.ticks:,} ticks and {visits:,} visits in {summary.seconds:.1f} s: {summary.ticks / seconds:,.0f} "
        f"ticks/s, {visits / seconds:,.0f} visits/s",
        highlight=False,
    )


def print_warnings(summary: Summary, extent: Extent, console: Console) -> None:
    """Print why lines were refused, and how many visits never count at a designated time."""
    if summary.refusals.reasons:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(summary.refusals.reasons.items()))
        texts = [f"Refused lines by reason: {reasons}", *(f"  {text}" for text in summary.refusals.describe())]
    else:
        texts = []
    if extent.empty_stays:
        texts.append(
            f"warning: {extent.empty_stays:,} visits have left_at equal to arrived_at. They count in windows, but never"
            " at a designated time."
        )
    for text in texts:
        console.print(text, markup=False, highlight=False, soft_wrap=True)
