"""`location-monitor page`: the public page."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path
from typing import Final

import click

from monitor.command_options import add_config_option, add_since_option
from monitor.errors import UsageError
from monitor.observe.logs import set_up_logging
from monitor.page import require_page
from monitor.stop_signals import stop_on_signals

_USUAL: Final = "localhost:8080"
_MOST_PORT: Final = 65_535


def read_address(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Return host and port of an option such as `localhost:8080` or `[::1]:8080`; None if the option is not given.

    Raises:
        UsageError: the value has another form.
    """
    if value is None:
        return None
    host, _colon, port = value.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > _MOST_PORT:
        raise UsageError(f"--serve is {value!r}: expected HOST:PORT, such as {_USUAL}; port 0 is any free one")
    return host.removeprefix("[").removesuffix("]"), int(port)


@click.command()
@add_config_option
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="The folder to write the page into.")
@click.option(
    "--serve",
    "address",
    is_flag=False,
    flag_value=_USUAL,
    callback=read_address,
    metavar="[HOST:PORT]",
    help=f"Serve the page, for a look at it. Default: {_USUAL}.",
)
@add_since_option
def page(config_file: Path, out: Path | None, address: tuple[str, int] | None, since: str | None) -> None:
    """Write the public page as files until SIGTERM or SIGINT.

    The page shows what is published about each place, as a list and on a map, and updates itself. Any web server can
    serve its folder. It reads the output topic and the registry only, and needs no secret of the service. It needs the
    extra `page`. Give --out, --serve or both.
    """
    if out is None and address is None:
        raise UsageError("page needs --out FOLDER, for a web server, or --serve, for a look at it")
    require_page()
    from monitor.page.run_page import Target, page_command  # noqa: PLC0415  # the extra may be absent

    set_up_logging(30)
    stop = threading.Event()
    signals = partial(stop_on_signals, stop, partial(click.echo, err=True))
    page_command(config_file, os.environ, Target(out, address), stop, signals, click.echo, since=since)
