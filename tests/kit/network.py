"""Free ports, and a small TCP forwarder that a test can point to another server, like a virtual IP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from typing import Final
from urllib.parse import urlsplit

BLOCK: Final = 65_536


def find_free_ports(count: int) -> list[int]:
    """Return different free ports."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for bound in sockets:
            bound.bind(("127.0.0.1", 0))
        return [int(bound.getsockname()[1]) for bound in sockets]


def parse_address(url: str) -> tuple[str, int]:
    """Return host and port of a URL."""
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or 6379


class Forwarder:
    """A forwarder that listens on a free loopback port, or on a given one, and connects clients to its target.

    `edit` changes what the target sends, block by block.
    """

    def __init__(self, target: tuple[str, int], port: int = 0, edit: Callable[[bytes], bytes] = bytes) -> None:
        self._target = target
        self._edit = edit
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="forwarder", daemon=True).start()

    def turn(self, target: tuple[str, int]) -> None:
        """Forward new connections to another target, and cut the open ones."""
        self._target = target
        self.cut()

    def cut(self) -> None:
        """Cut every open connection."""
        with self._lock:
            cut, self._open = self._open, set()
        for connection in cut:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def close(self) -> None:
        """Stop listening and cut every open connection."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target, timeout=2)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._open |= {client, server}
            for way in ((client, server, bytes), (server, client, self._edit)):
                threading.Thread(target=self._pump, args=way, name="forwarder", daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, edit: Callable[[bytes], bytes]) -> None:
        with suppress(OSError):
            while data := source.recv(BLOCK):
                sink.sendall(edit(data))
        for connection in (source, sink):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        with self._lock:
            self._open -= {source, sink}
