"""`location-monitor servers`: a Kafka and a Valkey to try things out."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path

import click

from monitor.command_options import EXISTING
from monitor.config.load import load_config
from monitor.errors import UsageError
from monitor.observe.logs import set_up_logging
from monitor.operate.servers.secure_servers import list_commands, start_secure_servers
from monitor.operate.servers.start_servers import start_servers
from monitor.stop_signals import stop_on_signals


@click.command()
@click.option("--secure", is_flag=True, help="With TLS, users and access lists, for the service of --config.")
@click.option("--config", "config_file", type=EXISTING, help="With --secure: the configuration file (YAML).")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("secure-servers"),
    show_default=True,
    help="With --secure: a new folder for certificates, passwords and environment files.",
)
def servers(*, secure: bool, config_file: Path | None, out: Path) -> None:
    """Run a Kafka and a Valkey until Ctrl-C.

    The command prints their addresses as variables for a shell. It needs the extra `embedded`. The data is removed at
    the end, and the servers have no password, so that every user of this machine can read it. They are for trying
    things out only.

    With --secure, clients need TLS and a login, and each user has only the rights of docs/operations.md. The command
    writes an environment file for each user, and prints the commands that do the same on real servers. The operator's
    port of Kafka is still open to every user of this machine. The store needs a valkey-server or redis-server with TLS.
    """
    set_up_logging(30)
    report = partial(click.echo, err=True)
    stop = threading.Event()
    signals = partial(stop_on_signals, stop, report)
    if secure != (config_file is not None):
        raise UsageError("--secure and --config belong together: give both, or neither")
    if config_file is None:
        with start_servers(report) as plain, signals():
            click.echo(f"export LOCATION_MONITOR__KAFKA__BOOTSTRAP_SERVERS={plain.kafka.bootstrap_servers}")
            click.echo(f"export LOCATION_MONITOR__REDIS__URL={plain.valkey.url}")
            report("Set these variables in other terminals. The servers run until Ctrl-C. Their data is then removed.")
            stop.wait()
        return
    config = load_config(config_file, os.environ)
    with start_secure_servers(config, out, report) as started, signals():
        for line in list_commands(config, started):
            click.echo(line)
        report(
            f"In other terminals, read the variables of a user with `. {out}/NAME.env`: {', '.join(started.rights)}. "
            "The servers run until Ctrl-C. Their data is then removed; remove the folder, too."
        )
        stop.wait()
