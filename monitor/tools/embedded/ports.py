"""Loopback ports that stay reserved while no server listens on them."""

from __future__ import annotations

import contextlib
import socket
import sys

LOOPBACK = "127.0.0.1"


class ReservedPort:
    """A free port of 127.0.0.1, or the one that is asked for, reserved until `release()`.

    On Linux a socket stays bound to it and never listens: a server that sets SO_REUSEADDR (Java's and Valkey's do) may
    listen there all the same, but the operating system gives the port to nobody else, neither to another bind to
    port 0 nor as the local end of a connection. The latter matters while the server is down: a client that tries again
    and again could otherwise be given that very port, connect to itself, and keep the server from coming back.
    Elsewhere the port is only probed.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, port: int = 0) -> None:
        with contextlib.ExitStack() as on_error:
            self._socket = on_error.enter_context(socket.socket())
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((LOOPBACK, port))
            self.number: int = self._socket.getsockname()[1]
            on_error.pop_all()
        if sys.platform != "linux":
            self._socket.close()

    @property
    def address(self) -> str:
        """`127.0.0.1:port`."""
        return f"{LOOPBACK}:{self.number}"

    def accepts(self) -> bool:
        """Whether something listens there and takes a connection."""
        try:
            socket.create_connection((LOOPBACK, self.number), timeout=1.0).close()
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Let anybody have the port."""
        self._socket.close()
