"""`location-monitor keygen`: create the key that person ids are hashed with."""

from __future__ import annotations

import os
from pathlib import Path

import click

from monitor.commands.options import report_errors
from monitor.config.key_form import create_key
from monitor.errors import UsageError


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@report_errors
def keygen(file: Path) -> None:
    """Write a new key for hashing person ids to FILE.

    Only its owner can read the file. The key is 32 random bytes of the operating system, in base64. An existing file is
    never replaced: with another key, all facts are read again.
    """
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as out:
            out.write(create_key() + "\n")
    except FileExistsError:
        raise UsageError(f"{file} exists: expected a new file, because a key that is in use must not be lost") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error
