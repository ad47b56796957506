"""What is in a Redis, by plain commands."""

from __future__ import annotations

from typing import Any, Final

READERS: Final = {b"hash": "hgetall", b"set": "smembers", b"string": "get"}


def dump_redis(client: Any) -> list[str]:
    """Return every key with its value, as text."""
    return [repr((key, _read_value(client, key))) for key in client.scan_iter(count=1_000)]


def _read_value(client: Any, key: bytes) -> Any:
    kind = client.type(key)
    return client.zrange(key, 0, -1, withscores=True) if kind == b"zset" else getattr(client, READERS[kind])(key)
