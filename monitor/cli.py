"""The command line (docs/interface.md, section 2).

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 refused because of the state of the servers.
"""

from __future__ import annotations

from typing import Final

import click

from monitor import __version__
from monitor.audit.command import audit
from monitor.client.command import watch
from monitor.command_options import CommandGroup
from monitor.operate.check.command import check
from monitor.operate.convert.command import convert
from monitor.operate.dead_letters.command import dead_letters
from monitor.operate.demo.command import demo
from monitor.operate.keygen import keygen
from monitor.operate.plan.command import plan
from monitor.operate.register.command import register
from monitor.operate.replay.command import replay
from monitor.operate.schema.command import schema
from monitor.operate.send.command import send
from monitor.operate.servers.command import servers
from monitor.operate.status import status
from monitor.page.command import page
from monitor.service.run_command import run
from monitor.service.topics_command import topics

COMMANDS: Final[tuple[click.Command, ...]] = (
    audit, check, convert, dead_letters, demo, keygen, page, plan, register, replay, run, schema, send, servers,
    status, topics, watch,
)  # fmt: skip


@click.group(cls=CommandGroup, commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="location-monitor")
def main() -> None:
    """Publish which locations are safe, without revealing where infected people have been."""


if __name__ == "__main__":
    main()
