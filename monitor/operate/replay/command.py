"""`location-monitor replay`: the service on a file of visits."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.command_options import EXISTING, add_config_option
from monitor.errors import TimeError, UsageError
from monitor.observe.logs import set_up_logging
from monitor.operate.replay.replay_file import replay_command
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
