"""The command line (docs/interface.md, section 2).

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 refused because of the state of the servers.
"""

from __future__ import annotations

from typing import Final

import click

from monitor import __version__
from monitor.commands.audit import audit
from monitor.commands.check import check
from monitor.commands.convert import convert
from monitor.commands.dead_letters import dead_letters
from monitor.commands.demo import demo
from monitor.commands.keygen import keygen
from monitor.commands.options import CommandGroup
from monitor.commands.page import page
from monitor.commands.plan import plan
from monitor.commands.register import register
from monitor.commands.replay import replay
from monitor.commands.run import run
from monitor.commands.schema import schema
from monitor.commands.servers import servers
from monitor.commands.status import status
from monitor.commands.topics import topics
from monitor.commands.watch import watch

COMMANDS: Final[tuple[click.Command, ...]] = (
    audit, check, convert, dead_letters, demo, keygen, page, plan, register, replay, run, schema, servers, status,
    topics, watch,
)  # fmt: skip


@click.group(cls=CommandGroup, commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="location-monitor")
def main() -> None:
    """Publish which locations are safe, without revealing where infected people have been."""


if __name__ == "__main__":
    main()
