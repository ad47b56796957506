"""Run `location-monitor convert`, and write and read its files."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

from click.testing import CliRunner, Result

from monitor.cli import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["convert", *(str(argument) for argument in arguments)])


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read(path: Path) -> list[list[str]]:
    data = path.read_bytes()
    return list(csv.reader((gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()))


def ignore(read: int) -> None:
    """Show no progress."""
