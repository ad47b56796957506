"""Toxiproxy for the tests of connections: compiled by Go, and controlled by its HTTP API."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Toxiproxy:
    """A client for the HTTP API of a running toxiproxy."""

    def __init__(self, port: int) -> None:
        self._api = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{self._api}{path}", data, method=method)  # noqa: S310  # only http
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310  # only http
            return json.loads(answer.read() or b"null")

    def proxy(self, name: str, listen: int, upstream: tuple[str, int]) -> None:
        host, port = upstream
        self.ask("POST", "/proxies", name=name, listen=f"127.0.0.1:{listen}", upstream=f"{host}:{port}", enabled=True)

    def is_up(self) -> bool:
        try:
            self.ask("GET", "/proxies")
        except (OSError, ValueError):
            return False
        return True

    @contextmanager
    def toxic(self, proxy: str, kind: str, stream: str = "downstream", **attributes: int) -> Iterator[None]:
        """Apply a toxic to all connections of a proxy during the context."""
        self.ask(
            "POST", f"/proxies/{proxy}/toxics", name=kind, type=kind, stream=stream, toxicity=1.0, attributes=attributes
        )
        try:
            yield
        finally:
            self.ask("DELETE", f"/proxies/{proxy}/toxics/{kind}")

    def cut(self, proxy: str) -> None:
        """Cut all connections, and accept new ones at once."""
        self.ask("POST", f"/proxies/{proxy}", enabled=False)
        self.ask("POST", f"/proxies/{proxy}", enabled=True)
