"""`location-monitor size`: print the calculation as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

from monitor.config import ValidConfig
from monitor.tools.size.calculate import calculate
from monitor.tools.size.load import Options, read_load

NOTE = "* checked against the benchmark. Other constants are assumptions or options: see the help text."


def size_command(valid: ValidConfig, options: Options, echo: Callable[[str], None], *, as_json: bool) -> None:
    """Print how many processes, partitions, shards and servers a load needs, with the arithmetic."""
    sheet = calculate(read_load(valid, options))
    if as_json:
        echo(json.dumps({row.key: row.value for row in sheet.list_rows()}, indent=2))
        return
    for line in sheet.to_text():
        echo(line)
    echo(NOTE)
