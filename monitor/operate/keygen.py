"""`location-monitor keygen`: create the key that person ids are hashed with, or the one that signs answers."""

from __future__ import annotations

from pathlib import Path

import click

from monitor.errors import UsageError
from monitor.new_files import create_file
from monitor.records.signed_notes import create_signing_key, read_signing_key
from monitor.values.person_key import create_key


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--signing",
    "name",
    metavar="NAME",
    help="Write a key that signs answers instead, with this name, such as example.org/safety. Print its public key.",
)
def keygen(file: Path, name: str | None) -> None:
    """Write a new key for hashing person ids to FILE.

    Only its owner can read the file. The key is 32 random bytes of the operating system, in base64. An existing file is
    never replaced: with another key, all facts are read again.
    """
    key = create_key() if name is None else _create_signing_key(name)
    try:
        with create_file(file) as out:
            out.write(f"{key}\n".encode())
    except FileExistsError:
        raise UsageError(f"{file} exists: expected a new file, because a key that is in use must not be lost") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error
    if name is not None:
        click.echo(read_signing_key(key).verifier)


def _create_signing_key(name: str) -> str:
    try:
        return create_signing_key(name)
    except ValueError:
        raise UsageError(
            f"--signing is {name!r}: expected a name of 1 to 200 characters without spaces and +, such as "
            "example.org/safety"
        ) from None
