"""The command line (docs/interface.md, section 2).

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 refused because of the state of the servers.
"""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any, Final

import click

from monitor import __version__
from monitor.command_options import CommandGroup

MODULE_OF_COMMAND: Final = {
    "audit": "monitor.audit.command",
    "check": "monitor.operate.check.command",
    "convert": "monitor.operate.convert.command",
    "dead-letters": "monitor.operate.dead_letters.command",
    "demo": "monitor.operate.demo.command",
    "keygen": "monitor.operate.keygen",
    "page": "monitor.page.command",
    "plan": "monitor.operate.plan.command",
    "register": "monitor.operate.register.command",
    "replay": "monitor.operate.replay.command",
    "run": "monitor.service.run_command",
    "schema": "monitor.operate.schema.command",
    "send": "monitor.operate.send.command",
    "servers": "monitor.operate.servers.command",
    "status": "monitor.operate.status",
    "topics": "monitor.service.topics_command",
    "watch": "monitor.client.command",
}


class Commands(UserDict[str, Any]):
    """The commands by name. Each is imported when it is read, so that no command loads the libraries of the others."""

    def __getitem__(self, name: str) -> click.Command:
        """Return the command, which is the function of this name in its module."""
        command: click.Command = getattr(import_module(MODULE_OF_COMMAND[name]), name.replace("-", "_"))
        return command


@click.group(
    cls=CommandGroup, commands=Commands(MODULE_OF_COMMAND), context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="location-monitor")
def main() -> None:
    """Publish which locations are safe, without revealing where infected people have been."""


if __name__ == "__main__":
    main()
