"""Serves the folder of the page, for a look at it: `page --serve` and `demo --page`."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from pathlib import Path
from typing import Final, Self

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import NotModifiedResponse, PathLike, StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.errors import FailedError

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "geolocation=(self), camera=(), microphone=(), browsing-topics=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": "frame-ancestors 'self'",
    "Access-Control-Allow-Origin": "*",
}
"""The headers of every file. The policy of a page about what it may load is in the page itself."""
BRIEF: Final = "public, max-age=5, must-revalidate, stale-if-error=0"
"""How long a file may be kept: never an old "safe", not even in an outage."""
FOREVER: Final = "public, max-age=31536000, immutable"
"""How long a file in `static/` may be kept. Its address changes with its content."""


class FolderServer:
    """Serves a folder from `__enter__` to `__exit__`. `url` is its address.

    Raises:
        FailedError: the address cannot be used (constructor).
    """

    def __init__(self, folder: Path, host: str, port: int) -> None:
        self._listening = _listen(host, port)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._listening.getsockname()[1]}/"
        files = _WholeFiles(directory=folder, html=True, check_dir=False)
        app = Starlette(routes=[Mount("/", files)])
        config = uvicorn.Config(
            _add_headers(app),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.ERROR,
            access_log=False,  # nobody's searches and addresses are kept
            server_header=False,
            proxy_headers=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="HTTP server", daemon=True)

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Finish the responses in progress, and close the connections. Further calls do nothing."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._listening.close()

    @property
    def has_ended(self) -> bool:
        """Whether the server has ended."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._listening]))


class _WholeFiles(StaticFiles):
    """Sends a file from one opening of it: between two openings, the page may have replaced it by another length."""

    def file_response(
        self, full_path: PathLike, stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return the content of a file, or 304 if the client has it."""
        try:
            with open(full_path, "rb") as file:  # noqa: PTH123  # starlette gives it as text or as a path
                content, stat_result = file.read(), os.fstat(file.fileno())
        except FileNotFoundError:
            raise HTTPException(404) from None
        headers = FileResponse(full_path, status_code, stat_result=stat_result).headers
        if self.is_not_modified(headers, Headers(scope=scope)):
            return NotModifiedResponse(headers)
        return Response(content, status_code, headers)


def _add_headers(app: ASGIApp) -> ASGIApp:
    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        caching = FOREVER if scope["path"].startswith("/static/") else BRIEF

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                failed = message["status"] >= 400  # noqa: PLR2004  # the first status of an error
                MutableHeaders(scope=message).update({**HEADERS, "Cache-Control": "no-store" if failed else caching})
            await send(message)

        await app(scope, receive, send_with_headers)

    return respond


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise FailedError(
            f"--serve is {host}:{port}, which cannot be used ({error.strerror}): give a free port, 0 for any"
        ) from error
