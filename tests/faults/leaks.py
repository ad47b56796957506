"""The search for planted person ids, which only the input and the values of dead letters may contain.

See docs/rules.md, rule 10.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.faults.facts import connect_redis
from tests.faults.town import FaultTown
from tests.kit.topics import read_topic

READERS = {b"hash": "hgetall", b"set": "smembers", b"string": "get"}


def find_leaks(town: FaultTown) -> list[str]:
    """Return the places with a planted id among logs, metrics, health pages, published records and keys of Redis."""
    published = read_topic(town.servers, town.topics.alerts, "read_uncommitted")
    letters = read_topic(town.servers, town.topics.dead_letters, "read_uncommitted")
    dumps = [
        _write(town, "redis.txt", dump_redis(town)),
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


def dump_redis(town: FaultTown) -> list[str]:
    """Return every key of Redis with its value."""
    with closing(connect_redis(town)) as client:
        return [repr((key, _read_value(client, key))) for key in client.scan_iter(count=1_000)]


def _read_value(client: Any, key: bytes) -> Any:
    kind = client.type(key)
    return client.zrange(key, 0, -1, withscores=True) if kind == b"zset" else getattr(client, READERS[kind])(key)
