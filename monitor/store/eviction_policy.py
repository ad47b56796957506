"""The eviction policy of Redis, which has to keep all facts: an evicted fact would make a count too low."""

from __future__ import annotations

from collections.abc import Mapping

from redis.cluster import RedisCluster

from monitor.errors import EvictionError
from monitor.store.redis_client import Client, describe_client, list_cluster_nodes


def read_eviction_policies(client: Client) -> dict[str, str]:
    """Return the `maxmemory-policy` by server (such as `Redis at localhost:6379`)."""
    if isinstance(client, RedisCluster):
        servers = {node.name: client.get_redis_connection(node) for node in list_cluster_nodes(client)}
        return {f"Redis at {name}": server.info("memory")["maxmemory_policy"] for name, server in servers.items()}
    return {describe_client(client): client.info("memory")["maxmemory_policy"]}


def require_no_eviction(policies: Mapping[str, str]) -> None:
    """Check the eviction policy of each server.

    Raises:
        EvictionError: a policy is not `noeviction`.
    """
    for place, policy in policies.items():
        if policy != "noeviction":
            raise EvictionError(
                f"{place}: maxmemory-policy is {policy}: expected noeviction, because evicted facts could cause a "
                'false "safe". Run `CONFIG SET maxmemory-policy noeviction` there, and set it in the server\'s '
                "configuration file."
            )
