"""Where planted person ids must not be: anywhere but in the input and in the values of dead letters (docs/rules.md, rule 10)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from monitor.tools.audit import find_planted
from tests.faults.facts import client_of
from tests.faults.reading import read_topic
from tests.faults.town import Town

READERS = {b"hash": "hgetall", b"set": "smembers", b"string": "get"}


def leaks(town: Town) -> list[str]:
    """Planted ids in what was logged, measured, told of health, published or kept in Redis."""
    published = read_topic(town.servers, town.topics.alerts, "read_uncommitted")
    letters = read_topic(town.servers, town.topics.dead_letters, "read_uncommitted")
    kept = [
        _kept(town, "redis.txt", dumped(town)),
        _kept(town, "published.txt", (repr((record.key, record.headers, record.value)) for record in published)),
        _kept(town, "letters.txt", (repr((record.key, record.headers)) for record in letters)),
    ]
    told = [path for instance in town.instances for path in (instance.log, instance.pages) if path.exists()]
    return find_planted([*kept, *told], [town.traffic.planted])


def _kept(town: Town, name: str, lines: Iterable[str]) -> Path:
    path = town.folder / name
    path.write_text("\n".join(lines))
    return path


def dumped(town: Town) -> list[str]:
    """Every key of Redis with what it holds."""
    with closing(client_of(town)) as client:
        return [repr((key, _held(client, key))) for key in client.scan_iter(count=1_000)]


def _held(client: Any, key: bytes) -> Any:
    kind = client.type(key)
    return client.zrange(key, 0, -1, withscores=True) if kind == b"zset" else getattr(client, READERS[kind])(key)
