"""The name of every key in Redis.

    {name:fingerprint:shard}:meta         hash: p<partition> (progress), since, trimmed, dropped, opened, shown
    {name:fingerprint:shard}:waiting      sorted set: packed facts by the slot that their records were stamped in
    {name:fingerprint:shard}:w:<row>      sorted set: by person (keyed hash, 16 bytes), the last slot seen at the row
    {name:fingerprint:shard}:t:<instant>  set, at a designated time: row (4 bytes, big-endian), then person (16 bytes)
    {name:fingerprint:0}:rights           nothing: a script tries here whether its user may run each command

What is in braces is the hash tag: a shard's keys lie in one slot of Redis Cluster, so that they share transactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

PROGRESS: Final = "p"
"""What the fields of a meta hash that hold progress begin with; the input partition follows."""


def service_pattern(name: str) -> str:
    """What matches every key of a service, under any fingerprint, as SCAN has it."""
    return f"{{{_quoted(name)}:*"


def _quoted(name: str) -> str:
    # Without braces, which would end the hash tag, colons, and the letters of a pattern.
    return quote(name, safe="")


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one service with one fingerprint."""

    name: str
    fingerprint: str

    def tag(self, shard: int) -> str:
        """What every key of a shard begins with."""
        return f"{{{_quoted(self.name)}:{self.fingerprint}:{shard}}}"

    def meta(self, shard: int) -> str:
        """The hash that tells how far a shard's facts reach."""
        return f"{self.tag(shard)}:meta"

    def waiting(self, shard: int) -> str:
        """The sorted set of facts that no tick may count yet."""
        return f"{self.tag(shard)}:waiting"

    @property
    def rights(self) -> str:
        """Where commands are tried; nothing is left there."""
        return f"{self.tag(0)}:rights"

    def window(self, shard: int, row: int) -> str:
        """The sorted set of who was last seen when at a watched row."""
        return f"{self.tag(shard)}:w:{row}"

    def time(self, shard: int, instant: int) -> str:
        """The set of who was where at a designated time."""
        return f"{self.tag(shard)}:t:{instant}"
