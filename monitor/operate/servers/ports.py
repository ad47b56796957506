"""Reserve loopback ports, even while no server listens on them."""

from __future__ import annotations

import contextlib
import socket
import sys

LOOPBACK = "127.0.0.1"


class ReservedPort:
    """The given port of 127.0.0.1, or a free one if it is 0, reserved until `release()`.

    On Linux a socket stays bound to the port and never listens. A server that sets SO_REUSEADDR (Java and Valkey do)
    can still listen there. The operating system does not assign the port to any other process, neither for a bind to
    port 0 nor as the local port of a connection. The latter matters while the server is down: a client that retries
    could otherwise get this port as its local port, connect to itself, and prevent the server from restarting. On other
    systems the port is only probed.

    Raises:
        OSError: the port is in use.
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
        """Return whether the port accepts a connection."""
        try:
            socket.create_connection((LOOPBACK, self.number), timeout=1.0).close()
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Release the port."""
        self._socket.close()
