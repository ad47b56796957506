"""Connections to Redis or Valkey, and what their failures mean: in plain words, without credentials or commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from redis import Redis
from redis.backoff import ConstantBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ExecAbortError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as LostError
from redis.exceptions import TimeoutError as SlowError
from redis.retry import Retry

from monitor.brokers.tls import tls_reason
from monitor.errors import FailedError, UnreachableError, WindowsError
from monitor.public.instants import SECOND

Client = Redis | RedisCluster
"""A connection pool to one server, or to the nodes of a cluster."""

REFUSALS: Final = (RedisError, RedisClusterException, OSError)
"""All that redis-py raises where a server fails or cannot be had."""

_ANSWER_SECONDS: Final = 5.0
_CONNECT_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 0.05
_READ_BYTES: Final = 2**18  # a tick reads megabytes of members

_PASSING: Final = {
    "OOM": "it is out of memory (maxmemory): nothing was written. Raise maxmemory",
    "READONLY": "it is a replica and takes no writes: after a failover the address should lead to the primary",
    "LOADING": "it is loading its data",
    "BUSY": "a script of someone else keeps it busy",
    "MISCONF": "it cannot save to disk, so it takes no writes: see its log",
    "NOREPLICAS": "too few replicas are in reach (min-replicas-to-write), so it takes no writes",
    "MASTERDOWN": "it is a replica that has lost its primary",
    "CLUSTERDOWN": "the cluster is down",
    "TRYAGAIN": "the cluster is moving these keys",
    "MOVED": "the cluster has moved these keys",
    "ASK": "the cluster is moving these keys",
    "EXECABORT": "it refused the transaction as a whole",
    "WRONGPASS": "it wants a user and a password, or refused these: check both, and the password file",
}
_KINDS: Final[dict[type[Exception], str]] = {  # redis-py takes the code off the errors that it has a class for
    OutOfMemoryError: "OOM",
    ReadOnlyError: "READONLY",
    BusyLoadingError: "LOADING",
    MasterDownError: "MASTERDOWN",
    ClusterDownError: "CLUSTERDOWN",
    TryAgainError: "TRYAGAIN",
    MovedError: "MOVED",
    AskError: "ASK",
    ExecAbortError: "EXECABORT",
    AuthenticationError: "WRONGPASS",
    NoPermissionError: "NOPERM",
}
_COMMAND: Final = re.compile(r"permissions to run the '([a-z|]{1,30})' command")
_IN_SCRIPT: Final = "user executing the script can't run this command"  # Redis 7 does not say which
_NO_MULTI: Final = "EXEC without MULTI"  # what redis-py passes on where MULTI was refused
_KEY: Final = re.compile(r"permissions to access (?:a key|one of the keys)")
_CODE: Final = re.compile(r"(?:.* caused error: )?-?([A-Z]{3,})\b", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where Redis is, and how to be let in. The password shows in no text."""

    url: str = field(repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    cluster: bool = False


def redis_client(address: RedisAddress) -> Client:
    """Make a client: connections are made when needed (a cluster's nodes are asked for at once).

    An answer is waited for 5 s, a connection 2 s. A lost connection is made again and the command sent again once
    (every write may be repeated); a time-out is not, so that nobody waits longer than is said here.

    Raises:
        UnreachableError: if a cluster cannot be reached.
    """
    options = {
        "username": address.username,
        "password": address.password,
        "socket_timeout": _ANSWER_SECONDS,
        "socket_connect_timeout": _CONNECT_SECONDS,
        "socket_keepalive": True,
        "socket_read_size": _READ_BYTES,
        "health_check_interval": 30,
        "decode_responses": False,
        "protocol": 2,
        "retry": Retry(ConstantBackoff(_RETRY_SECONDS), 1, (LostError,)),
    }
    if address.ca_file is not None and address.url.startswith("rediss:"):
        options["ssl_ca_certs"] = address.ca_file
    if not address.cluster:
        return Redis.from_url(address.url, **options)
    try:
        return RedisCluster.from_url(address.url, **options)
    except REFUSALS as error:
        raise failure(error, "the Redis cluster") from None


def cluster_nodes(client: RedisCluster) -> list[ClusterNode]:
    """All nodes of a cluster that are known: primaries and replicas."""
    return list(client.get_nodes())  # type: ignore[no-untyped-call]  # redis-py gives it no types


def where(client: Client) -> str:
    """The host and port that a client talks to, for messages."""
    if isinstance(client, RedisCluster):
        return f"Redis cluster {', '.join(sorted(node.name for node in cluster_nodes(client)))}"
    options = client.connection_pool.connection_kwargs
    if "path" in options:
        return f"Redis at {options['path']}"
    return f"Redis at {options.get('host', 'localhost')}:{options.get('port', 6379)}"


def instant_of(reply: Sequence[bytes | int]) -> int:
    """Return the instant of a reply to TIME, which has seconds and microseconds."""
    seconds, microseconds = reply
    return int(seconds) * SECOND + int(microseconds)


def server_time(client: Client) -> int:
    """Return the present instant by the server's clock; for a cluster, the latest of its primaries' clocks.

    Raises:
        FailedError: the server does not answer, or refuses the command.
    """
    try:
        if isinstance(client, RedisCluster):
            primaries = client.get_primaries()  # type: ignore[no-untyped-call]  # redis-py gives it no types
            return max(instant_of(client.get_redis_connection(node).time()) for node in primaries)
        return instant_of(client.time())
    except REFUSALS as error:
        raise failure(error, where(client)) from None


def error_code(error: Exception) -> str:
    """The code that a server's error reply begins with, such as `WRONGTYPE`; empty if there is none."""
    if type(error) in _KINDS:
        return _KINDS[type(error)]
    match = _CODE.match(str(error)) if isinstance(error, ResponseError) else None
    return match[1] if match else ""


def failure(error: Exception, place: str) -> FailedError:
    """What an error of redis-py means: its own text may hold a whole command, so none of it is passed on."""
    while isinstance(error, RedisClusterException) and isinstance(of := error.__cause__ or error.__context__, REFUSALS):
        error = of
    refused = _refused(error)
    if refused is not None:
        return WindowsError(f"{place} refused {refused} (NOPERM): see that its user may use it")
    code = error_code(error)
    if code in _PASSING:
        return UnreachableError(f"{place}: {_PASSING[code]}")
    if isinstance(error, SlowError):
        return UnreachableError(f"{place} did not answer within {_ANSWER_SECONDS:g} s")
    if isinstance(error, LostError | OSError):
        reason = tls_reason(str(error), "redis") or "the connection was refused or lost"
        return UnreachableError(f"{place} cannot be reached: {reason}")
    if isinstance(error, ResponseError):
        return WindowsError(f"{place} refused a command ({code or type(error).__name__}): see that its user may use it")
    return UnreachableError(f"{place} failed ({type(error).__name__})")


def _refused(error: Exception) -> str | None:
    """What the server's user has no right to, if that is what an error tells of."""
    text = str(error)
    if _KEY.search(text):
        return "a key of this service"
    if _IN_SCRIPT in text:
        return "a command of a script"
    command = "multi" if _NO_MULTI in text else (found := _COMMAND.search(text)) and found[1]
    return f"the command {command}" if command else None


def passes(error: Exception) -> bool:
    """Whether a server's error reply tells of a state that passes, rather than of what it holds."""
    return error_code(error) in _PASSING
