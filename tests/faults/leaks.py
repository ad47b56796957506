"""The search for planted person ids, which only the input and the values of dead letters may contain.

See docs/rules.md, rule 10.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from tests.faults.facts import connect_redis
from tests.faults.town import FaultTown
from tests.kit.stores import dump_redis
from tests.kit.topics import read_topic


def find_leaks(town: FaultTown) -> list[str]:
    """Return the places with a planted id among logs, metrics, health pages, published records and keys of Redis."""
    published = read_topic(town.servers, town.topics.alerts, "read_uncommitted")
    letters = read_topic(town.servers, town.topics.dead_letters, "read_uncommitted")
    dumps = [
        _write(town, "redis.txt", _dump(town)),
        _write(town, "published.txt", (repr((record.key, record.headers, record.value)) for record in published)),
        _write(town, "letters.txt", (repr((record.key, record.headers)) for record in letters)),
    ]
    outputs = [path for instance in town.instances for path in (instance.log, instance.pages) if path.exists()]
    planted = town.traffic.planted.encode()
    return [f"{path}: a planted id" for path in (*dumps, *outputs) if planted in path.read_bytes()]


def _write(town: FaultTown, name: str, lines: Iterable[str]) -> Path:
    path = town.folder / name
    path.write_text("\n".join(lines))
    return path


def _dump(town: FaultTown) -> list[str]:
    with closing(connect_redis(town)) as client:
        return dump_redis(client)
