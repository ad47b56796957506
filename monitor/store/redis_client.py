"""Connections to Redis or Valkey, and explanations of their failures, without credentials or commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import SecretStr
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import SSLConnection, parse_url
from redis.credentials import CredentialProvider
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ClusterError,
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
from redis.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool

from monitor.errors import ConfigError, FailedError, StoreError, UnreachableError
from monitor.kafka.error_words import explain_tls_error
from monitor.time.instants import SECOND

Client = Redis | RedisCluster
"""A connection pool to one server, or to the nodes of a cluster."""

REDIS_ERRORS: Final = (RedisError, RedisClusterException, OSError, AttributeError)
"""All errors that redis-py raises if a server fails or cannot be reached.

redis-py 8.1 raises an AttributeError if a cluster moves keys to a node that it does not know: one that has just joined
and owns no hash slots yet.
"""

_RESPONSE_SECONDS: Final = 5.0
_CONNECT_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 0.05
_READ_BYTES: Final = 2**18  # a tick reads megabytes of members

_TRANSIENT: Final = {
    "OOM": "it is out of memory (maxmemory): nothing was written. Raise maxmemory",
    "READONLY": "it is a replica and accepts no writes: redis.url must lead to the primary, also after a failover",
    "LOADING": "it is loading its data",
    "BUSY": "it is busy with a script of another client",
    "MISCONF": "it cannot save to disk, so it accepts no writes: see its log",
    "NOREPLICAS": "too few replicas are connected (min-replicas-to-write), so it accepts no writes",
    "MASTERDOWN": "it is a replica that has lost its primary",
    "CLUSTERDOWN": "the cluster is down",
    "TRYAGAIN": "the cluster is moving these keys",
    "LOST": "it lacks keys of a shard, so the facts of this shard are read from the input again",
    "MOVED": "the cluster has moved these keys",
    "ASK": "the cluster is moving these keys",
    "NOPRIMARY": "no Sentinel names a primary: check redis.sentinels, their certificates with rediss://, and that the "
    "host in redis.url is the name of the primary",
    "NOSENTINEL": "a Sentinel requires a user and a password, or refused them: check redis.sentinel_username and "
    "redis.sentinel_password_file",
    "DENIED": "it is in protected mode, in which it refuses programs of other hosts: set a password for its users, and "
    "redis.username and redis.password_file here",
    "WRONGPASS": "it requires a user and a password, or refused them: check redis.username and redis.password_file",
}
_MOVING: Final = frozenset({"TRYAGAIN", "ASK", "MOVED"})
_KINDS: Final[dict[type[Exception], str]] = {  # for these errors, redis-py removes the code from the text
    OutOfMemoryError: "OOM",
    ReadOnlyError: "READONLY",
    BusyLoadingError: "LOADING",
    MasterDownError: "MASTERDOWN",
    ClusterDownError: "CLUSTERDOWN",
    TryAgainError: "TRYAGAIN",
    ClusterError: "TRYAGAIN",  # redis-py was told to try again too often
    MovedError: "MOVED",
    AskError: "ASK",
    MasterNotFoundError: "NOPRIMARY",
    AuthenticationError: "WRONGPASS",
    NoPermissionError: "NOPERM",
}
_REFUSED_BY_SENTINEL: Final = ("AuthenticationError", "PasswordFileError")  # redis-py quotes no more of these errors
_COMMAND: Final = re.compile(r"permissions to run the '([a-z|]{1,30})' command")
_IN_SCRIPT: Final = "user executing the script can't run this command"  # Redis 7 does not name the command
_KEY: Final = re.compile(r"permissions to access (?:a key|one of the keys)")
_CONNECTING: Final = "Timeout connecting"  # a server without TLS waits for the rest of what it takes for a command
_NO_CONNECTION: Final = {
    ("Connection refused", "ECONNREFUSED"): "nothing listens at its address: check redis.url, and start the server",
    ("Name or service not known", "Temporary failure in name resolution", "No address associated"): "no address was "
    "found for its host name: check redis.url, and the DNS of this machine",
    ("No such file or directory",): "there is no such socket: check redis.url, and start the server",
}
_CHECK_PORT: Final = (
    ": if this lasts, check its address and port, and whether the port uses TLS (rediss://) or not (redis://)"
)
_CODE: Final = re.compile(r"(?:.* caused error: )?-?([A-Z]{3,})\b", re.DOTALL)


class PasswordFileError(AuthenticationError):
    """The password file cannot be used now. The connection fails, and the client tries again."""


class RedisUser(CredentialProvider):
    """A user of Redis. The password is read for each connection, so a renewed file is used without a restart."""

    def __init__(self, name: str | None, read_password: Callable[[], SecretStr | None]) -> None:
        self._name, self._read_password = name, read_password

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Return the user's name, if there is one, and the present password.

        Raises:
            PasswordFileError: the password file cannot be read, is empty, or is not UTF-8.
        """
        try:
            secret = self._read_password()
        except ConfigError as error:
            raise PasswordFileError(str(error.problems[0])) from None
        password = secret.get_secret_value() if secret else ""
        return (self._name, password) if self._name else (password,)


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """The address and credentials of Redis; `repr` omits them, because the URL may contain a password."""

    url: str = field(repr=False)
    credentials: CredentialProvider | None = field(default=None, repr=False)
    cluster: bool = False
    sentinels: tuple[str, ...] = ()
    """Addresses as `host:port`. With them, the host in the URL is the name by which they know the primary."""
    tls: Mapping[str, str] = field(default_factory=dict)
    """Settings of redis-py."""
    sentinel_credentials: CredentialProvider | None = field(default=None, repr=False)


def create_client(address: RedisAddress) -> Client:
    """Return a client that connects at its first use. A cluster's client connects at once, to find the nodes.

    The limits are 5 s for a response and 2 s for connecting. If a connection is lost, the client connects and sends the
    command once more, which is safe because every write may be repeated. A command that timed out is not repeated,
    because that would exceed the limits.

    Raises:
        UnreachableError: a cluster cannot be reached.
    """
    options = {
        "credential_provider": address.credentials,
        "socket_timeout": _RESPONSE_SECONDS,
        "socket_connect_timeout": _CONNECT_SECONDS,
        "socket_keepalive": True,
        "socket_read_size": _READ_BYTES,
        "health_check_interval": 30,
        "decode_responses": False,
        "protocol": 2,
        "retry": Retry(ConstantBackoff(_RETRY_SECONDS), 1, (LostError,)),
        **address.tls,
    }
    if address.sentinels:
        return _create_sentinel_client(address, options)
    if address.url.startswith("unix://"):  # redis-py refuses this option for a socket of the file system
        del options["socket_keepalive"]
    if not address.cluster:
        return Redis.from_url(address.url, **options)
    try:
        return RedisCluster.from_url(address.url, **options)
    except REDIS_ERRORS as error:
        raise translate_error(error, "the Redis cluster") from None


def _create_sentinel_client(address: RedisAddress, options: Mapping[str, Any]) -> Redis:
    """Return a client that asks the Sentinels for the primary whenever it connects.

    After a failover, the old primary disconnects its clients or refuses their writes, so that they ask again. The
    Sentinels are asked with the same limits and certificates, and with credentials of their own.
    """
    own: dict[str, Any] = dict(parse_url(address.url))  # type: ignore[no-untyped-call]  # redis-py gives it no types
    name, encrypted = own.pop("host"), own.pop("connection_class", None) is SSLConnection
    settings = {**options, **own, "ssl": encrypted}
    limits = ("socket_timeout", "socket_connect_timeout", "retry")
    asking = {key: settings[key] for key in ("ssl", *limits, *address.tls)}
    asking["credential_provider"] = address.sentinel_credentials
    sentinels = [(host.strip("[]"), int(port)) for host, _, port in (one.rpartition(":") for one in address.sentinels)]
    client: Redis = Sentinel(sentinels, sentinel_kwargs=asking, **settings).master_for(name)  # type: ignore[no-untyped-call]  # redis-py gives it no types
    return client


def list_cluster_nodes(client: RedisCluster) -> list[ClusterNode]:
    """Return all known nodes of a cluster: primaries and replicas."""
    return list(client.get_nodes())  # type: ignore[no-untyped-call]  # redis-py gives it no types


def describe_client(client: Client) -> str:
    """Return the address of a client's server or servers, for messages."""
    if isinstance(client, RedisCluster):
        return f"Redis cluster {', '.join(sorted(node.name for node in list_cluster_nodes(client)))}"
    if isinstance(client.connection_pool, SentinelConnectionPool):
        return f"Redis primary {client.connection_pool.service_name}, by Sentinel"
    options = client.connection_pool.connection_kwargs
    if "path" in options:
        return f"Redis at {options['path']}"
    return f"Redis at {options.get('host', 'localhost')}:{options.get('port', 6379)}"


def read_eviction_policies(client: Client) -> dict[str, str]:
    """Return the `maxmemory-policy` by server (such as `Redis at localhost:6379`)."""
    if isinstance(client, RedisCluster):
        servers = {node.name: client.get_redis_connection(node) for node in list_cluster_nodes(client)}
        return {f"Redis at {name}": server.info("memory")["maxmemory_policy"] for name, server in servers.items()}
    return {describe_client(client): client.info("memory")["maxmemory_policy"]}


def parse_time(reply: Sequence[bytes | int]) -> int:
    """Return the instant of a reply to TIME, which has seconds and microseconds."""
    seconds, microseconds = reply
    return int(seconds) * SECOND + int(microseconds)


def read_server_time(client: Client) -> int:
    """Return the present instant by the server's clock; for a cluster, the latest of its primaries' clocks.

    Raises:
        FailedError: the server does not answer, or refuses the command.
    """
    try:
        if isinstance(client, RedisCluster):
            primaries = client.get_primaries()  # type: ignore[no-untyped-call]  # redis-py gives it no types
            return max(parse_time(client.get_redis_connection(node).time()) for node in primaries)
        return parse_time(client.time())
    except REDIS_ERRORS as error:
        raise translate_error(error, describe_client(client)) from None


def find_error_code(error: Exception) -> str:
    """Return the code at the start of a server's error reply, such as `WRONGTYPE`; empty without a code."""
    if isinstance(error, MasterNotFoundError) and any(name in str(error) for name in _REFUSED_BY_SENTINEL):
        return "NOSENTINEL"
    if type(error) in _KINDS:
        return _KINDS[type(error)]
    match = _CODE.match(str(error)) if isinstance(error, ResponseError) else None
    return match[1] if match else ""


def translate_error(error: Exception, server: str) -> FailedError:
    """Return our error for an error of redis-py. Its text is left out, because it may contain a whole command."""
    while isinstance(error, RedisClusterException) and isinstance(
        cause := error.__cause__ or error.__context__, REDIS_ERRORS
    ):
        error = cause
    refused = _find_refused_permission(error)
    if refused is not None:
        return StoreError(f"{server} refused {refused} (NOPERM): check the permissions of its user")
    code = "ASK" if isinstance(error, AttributeError) else find_error_code(error)
    if code in _TRANSIENT:
        return UnreachableError(f"{server}: {_TRANSIENT[code]}")
    if isinstance(error, SlowError):
        hint = f" while connecting{_CHECK_PORT}" if _CONNECTING in str(error) else ""
        return UnreachableError(f"{server} did not answer within {_RESPONSE_SECONDS:g} s{hint}")
    if isinstance(error, LostError | OSError):
        own = f"the login lacks a password: {error}" if isinstance(error, PasswordFileError) else None
        reason = own or explain_tls_error(str(error), "redis") or _explain_loss(str(error))
        return UnreachableError(f"{server} cannot be reached: {reason}")
    if isinstance(error, ResponseError):
        return StoreError(
            f"{server} refused a command ({code or type(error).__name__}): check the permissions of its user"
        )
    return UnreachableError(f"{server} failed ({type(error).__name__})")


def _explain_loss(text: str) -> str:
    """Return why there is no connection, and what to check. A port that uses TLS resets connections without it."""
    for marks, sentence in _NO_CONNECTION.items():
        if any(mark in text for mark in marks):
            return sentence
    return f"it closed the connection{_CHECK_PORT}, and whether it is in protected mode, without a password"


def _find_refused_permission(error: Exception) -> str | None:
    """Return the command or key that the user may not use; None if the error is not about permissions."""
    text = str(error)
    if _KEY.search(text):
        return "a key of this service"
    if _IN_SCRIPT in text:
        return "a command of a script"
    match = _COMMAND.search(text)
    return f"the command {match[1]}" if match else None


def is_moving(error: Exception) -> bool:
    """Return whether a server's error reply says that a cluster moves the keys of the command."""
    return find_error_code(error) in _MOVING


def is_transient(error: Exception) -> bool:
    """Return whether a server's error reply reports a transient state, rather than a problem with its data."""
    return find_error_code(error) in _TRANSIENT


def parse_fields(flat: Sequence[bytes]) -> dict[str, str]:
    """Return the fields and values of a hash from the flat reply of a script."""
    texts = [text.decode() for text in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))
