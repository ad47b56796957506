"""The name of every key in Redis.

    {name:fingerprint:shard}:meta         hash: p<partition> (progress), opened, shown, renewed; complete_from,
                                          evicted_before and times_evicted_until (`facts_and_questions.py`); also
                                          the names (t:<instant>, d:<instant>) of the sets of designated times
    {name:fingerprint:shard}:waiting      sorted set: packed facts by the slot in which their records were stamped
    {name:fingerprint:shard}:w:<row>      sorted set: by person (keyed hash, 16 bytes), the last slot seen at the row
    {name:fingerprint:shard}:r:<row>      sorted set, for monitors with several answers per window: by lead (the last
                                          slot of a visit to the row minus the stamp of its record, 4 bytes) and person
                                          (16 bytes), the latest stamp
    {name:fingerprint:shard}:b:<set>      sorted set, for upper bounds, by number of `Parameters.bucket_sets`: the last
                                          slot of a bucket as text, then the person (16 bytes), by this slot
    {name:fingerprint:shard}:t:<instant>  set, at a designated time: row (4 bytes, big-endian), then person (16 bytes);
                                          with several answers per time, a sorted set of them by the latest stamp
    {name:fingerprint:shard}:d:<instant>  sorted set, at a time with lengths of visits: the same members, by the
                                          length of the visit in seconds
    {name:fingerprint:shard}:never        no key: scripts declare it, so that a cluster refuses them while it moves the
                                          shard (docs/architecture.md, section 3)
    {name:fingerprint:0}:rights           no data: a script uses this key to test whether the user may run each command

Each window, the reports and the buckets of each row, and the waiting facts also contain one member that is no fact: the
empty string, with the score +inf. It exists from the beginning of the shard on, so a script notices if such a key is
lost.

The text in braces is the hash tag. It places all keys of a shard in one slot of Redis Cluster, as scripts require.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final
from urllib.parse import quote

PROGRESS: Final = "p"
"""The prefix of the fields of a meta hash that contain progress; the input partition follows."""


def parse_progress(fields: Mapping[str, str]) -> dict[int, int]:
    """Return the next offset by input partition from the fields of a meta hash."""
    offsets = ((name.removeprefix(PROGRESS), offset) for name, offset in fields.items() if name.startswith(PROGRESS))
    return {int(partition): int(offset) for partition, offset in offsets}


def make_service_pattern(name: str) -> str:
    """Return a pattern for SCAN that matches every key of a service, under any fingerprint."""
    return f"{{{_quote(name)}:*"


@cache
def _quote(name: str) -> str:
    # Braces would end the hash tag, colons separate its parts, and some characters have a meaning in patterns.
    return quote(name, safe="")


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one service with one fingerprint."""

    name: str
    fingerprint: str

    def tag(self, shard: int) -> str:
        """Return the hash tag with which every key of a shard begins."""
        return f"{{{_quote(self.name)}:{self.fingerprint}:{shard}}}"

    def meta(self, shard: int) -> str:
        """Return the key of the hash with a shard's progress and bounds."""
        return f"{self.tag(shard)}:meta"

    def waiting(self, shard: int) -> str:
        """Return the key of the waiting facts, which no tick may count yet."""
        return f"{self.tag(shard)}:waiting"

    def never(self, shard: int) -> str:
        """Return the key that never exists."""
        return f"{self.tag(shard)}:never"

    @property
    def rights(self) -> str:
        """The key that is used to test the permission of commands. No data remains there."""
        return f"{self.tag(0)}:rights"

    def window(self, shard: int, row: int) -> str:
        """Return the key of the people last seen at a watched row."""
        return f"{self.tag(shard)}:w:{row}"

    def reports(self, shard: int, row: int) -> str:
        """Return the key of the reports about a watched row, by their stamps."""
        return f"{self.tag(shard)}:r:{row}"

    def buckets(self, shard: int, number: int) -> str:
        """Return the key of the people by the bucket in which they were reported."""
        return f"{self.tag(shard)}:b:{number}"

    def time(self, shard: int, instant: int) -> str:
        """Return the key of the people present at a designated time."""
        return f"{self.tag(shard)}:t:{instant}"

    def lengths(self, shard: int, instant: int) -> str:
        """Return the key of the lengths of the visits at a designated time."""
        return f"{self.tag(shard)}:d:{instant}"
