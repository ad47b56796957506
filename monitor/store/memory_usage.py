"""The memory of Redis: what its servers use, and what the keys of one configuration take, estimated from a sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import numpy as np
from numpy.typing import NDArray
from redis.cluster import RedisCluster

from monitor.contracts.parameters import Parameters
from monitor.store.keys import Keys
from monitor.store.redis_client import (
    REDIS_ERRORS,
    Client,
    describe_client,
    list_cluster_nodes,
    read_server_time,
    translate_error,
)
from monitor.store.scripts import make_eval

MOST_SHARDS: Final = 64
MOST_KEYS: Final = 1_024
"""How many shards are measured at a time, and about how many keys of each kind in all of them together."""

_OWN_KEYS: Final = 2  # meta, waiting


@dataclass(frozen=True, slots=True)
class ServerMemory:
    """The bytes that a server uses, and the bytes that it may use; 0: without a limit."""

    used: int
    limit: int


class MemoryProbe:
    """A reader of the memory of Redis. An estimate sends at most `MOST_SHARDS` short scripts, which write nothing.

    For each shard and kind of key, the estimate is the mean size of the sampled keys times the number of keys. It is
    exact if all keys are in the sample. The samples of two estimates are independent.

    Raises:
        UnreachableError: (any method) Redis does not answer.
        WindowsError: (any method) Redis refuses a command.
    """

    def __init__(self, parameters: Parameters, fingerprint: str, client: Client, random: Random | None = None) -> None:
        self._parameters, self._client = parameters, client
        self._keys = Keys(parameters.name, fingerprint)
        self._random = random or Random()  # noqa: S311  # only chooses the sample
        shards = parameters.registry.shard[parameters.watched_rows]
        self._rows = parameters.watched_rows[np.argsort(shards, kind="stable")]
        self._first = np.searchsorted(np.sort(shards), np.arange(parameters.registry.shards + 1))

    def read_servers(self) -> dict[str, ServerMemory]:
        """Return the memory of each server by its address."""
        client = self._client
        try:
            if isinstance(client, RedisCluster):
                nodes = {node.name: client.get_redis_connection(node) for node in list_cluster_nodes(client)}
                found = {name: node.info("memory") for name, node in nodes.items()}
            else:
                found = {describe_client(client).removeprefix("Redis at "): client.info("memory")}
        except REDIS_ERRORS as error:
            raise translate_error(error, describe_client(client)) from None
        return {name: ServerMemory(int(info["used_memory"]), int(info["maxmemory"])) for name, info in found.items()}

    def estimate_keys(self) -> float:
        """Return the bytes of the keys of this configuration."""
        every = range(self._parameters.registry.shards)
        shards = self._random.sample(every, min(len(every), MOST_SHARDS))
        times = self._find_live_times()
        most = max(1, MOST_KEYS // len(shards))
        return sum(self._measure(shard, times, most) for shard in shards) * len(every) / len(shards)

    def _find_live_times(self) -> list[int]:
        """Return the designated times that may have facts."""
        parameters, grid = self._parameters, self._parameters.grid
        now = read_server_time(self._client)
        low = now - (parameters.history_slots + 1) * grid.length
        high = now + (parameters.max_lead + 2) * grid.length
        return sorted({int(at) for timed in parameters.timed for at in timed.times.find_between(low, high)})

    def _measure(self, shard: int, times: Sequence[int], most: int) -> float:
        """Return the bytes of a shard's keys, from at most `most` rows and designated times."""
        keys = self._keys
        rows = self._find_rows(shard)
        chosen_rows = self._random.sample(range(len(rows)), min(len(rows), most))
        chosen_times = self._random.sample(times, min(len(times), most))
        names = [keys.meta(shard), keys.waiting(shard)]
        names += [name(shard, at) for at in chosen_times for name in (keys.time, keys.lengths)]
        first_row = len(names)
        names += [keys.window(shard, int(rows[index])) for index in chosen_rows]
        command = make_eval("usage", names)
        try:
            sizes: list[int] = self._client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py
        except REDIS_ERRORS as error:
            raise translate_error(error, describe_client(self._client)) from None
        own, of_times, of_rows = sizes[:_OWN_KEYS], sizes[_OWN_KEYS:first_row], sizes[first_row:]
        return sum(own) + _scale(of_times, len(times), len(chosen_times)) + _scale(of_rows, len(rows), len(chosen_rows))

    def _find_rows(self, shard: int) -> NDArray[np.int64]:
        return self._rows[self._first[shard] : self._first[shard + 1]]

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _scale(sizes: Sequence[int], total: int, chosen: int) -> float:
    return sum(sizes) * total / chosen if chosen else 0.0
