"""A program that connects clients at once, and prints the error of each: JSON on standard input and output.

It is a separate process, because kafka-python leaves the sockets of failed TLS handshakes to the garbage collector.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from monitor.errors import UnreachableError
from monitor.kafka.connections import KafkaConnections


def connect(client: tuple[str, dict[str, Any]]) -> str:
    """Return the message with which a client fails to connect."""
    server, security = client
    try:
        KafkaConnections((server,), security).create_admin().close()
    except UnreachableError as error:
        return str(error)
    return "it connected"


if __name__ == "__main__":
    clients: dict[str, tuple[str, dict[str, Any]]] = json.load(sys.stdin)
    with ThreadPoolExecutor(len(clients)) as pool:
        print(json.dumps(dict(zip(clients, pool.map(connect, clients.values()), strict=True))))
