"""The command line (docs/interface.md, section 2).

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 refused because of the state of the servers.

A command's module is imported when the command is called. So `run` starts without the libraries of the other commands.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Final

import click

from monitor import __version__

COMMANDS: Final = (
    "audit",
    "check",
    "convert",
    "dead-letters",
    "demo",
    "keygen",
    "page",
    "plan",
    "register",
    "replay",
    "run",
    "schema",
    "servers",
    "size",
    "topics",
    "watch",
)
"""The names of the commands. `dead-letters` is the function `dead_letters` in `monitor.commands.dead_letters`."""


class LazyCommands(MutableMapping[str, click.Command]):
    """The click commands by name. Each is imported when it is read for the first time."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._commands: dict[str, click.Command | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> click.Command:
        if (command := self._commands[name]) is None:
            module = name.replace("-", "_")
            command = self._commands[name] = getattr(import_module(f"monitor.commands.{module}"), module)
        return command

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._commands[name] = command

    def __delitem__(self, name: str) -> None:
        del self._commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)


@click.group(commands=LazyCommands(COMMANDS), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="location-monitor")
def main() -> None:
    """Publish which locations are safe, without revealing where infected people have been."""


if __name__ == "__main__":
    main()
