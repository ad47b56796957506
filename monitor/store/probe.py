"""Read the progress of facts in Redis without changing anything, for `check --live`.

The commands are plain reads. The scripts of the service are not used, because some of them write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from monitor.errors import WindowsError
from monitor.store.eviction_policy import read_eviction_policies, require_no_eviction
from monitor.store.facts import COMPLETE_FROM_START
from monitor.store.keys import PROGRESS, Keys
from monitor.store.redis_client import REDIS_ERRORS, Client, describe_client, read_server_time, translate_error

_SINCE: Final = b"since"


@dataclass(frozen=True, slots=True)
class StoredShard:
    """The progress of one shard by input partition, and the slot from which its facts are complete."""

    progress: Mapping[int, int]
    complete_from: int


class StoreProbe:
    """A reader of the progress of facts. `clock` replaces the clock of Redis, for a replay.

    Raises:
        UnreachableError: (any method) Redis does not answer.
        WindowsError: (any method) Redis refuses a command, or a key has data of another program.
    """

    def __init__(self, client: Client, clock: Callable[[], int] | None = None) -> None:
        self._client = client
        self._clock = clock

    def require_no_eviction(self) -> None:
        """Check that Redis evicts nothing.

        Raises:
            EvictionError: the `maxmemory-policy` of a server is not `noeviction`.
        """
        try:
            policies = read_eviction_policies(self._client)
        except REDIS_ERRORS as error:
            raise translate_error(error, describe_client(self._client)) from None
        require_no_eviction(policies)

    def time(self) -> int:
        """Return the present instant by Redis's clock."""
        return read_server_time(self._client) if self._clock is None else self._clock()

    def read(self, name: str, fingerprint: str, shards: int) -> list[StoredShard]:
        """Return the progress of the facts of a service with this fingerprint, by shard."""
        keys = Keys(name, fingerprint)
        try:
            replies = [self._client.hgetall(keys.meta(shard)) for shard in range(shards)]
        except REDIS_ERRORS as error:
            raise translate_error(error, describe_client(self._client)) from None
        return [_parse(reply) for reply in replies]

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _parse(reply: Any) -> StoredShard:
    if not isinstance(reply, dict):
        raise WindowsError("the progress in Redis cannot be read: expected a hash")
    prefix = PROGRESS.encode()
    progress = {
        int(name.removeprefix(prefix)): int(offset)
        for name, offset in reply.items()
        if name.startswith(prefix) and name.removeprefix(prefix).isdigit()
    }
    return StoredShard(progress, int(reply.get(_SINCE, COMPLETE_FROM_START)))
