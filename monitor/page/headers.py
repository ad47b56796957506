"""The headers of every response: what a browser may do with it, and that any page may read the answers."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.page.html import STYLE_SOURCE

_POLICY: Final = (
    f"default-src 'self'; style-src 'self' {STYLE_SOURCE}; base-uri 'none'; form-action 'none'; object-src 'none'; "
    "frame-ancestors {ancestors}"
)
_FIXED: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "geolocation=(self), camera=(), microphone=(), browsing-topics=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Strict-Transport-Security": "max-age=31536000",  # browsers ignore it without TLS
}
REFUSAL_HEADERS: Final = {**_FIXED, "Content-Security-Policy": "default-src 'none'", "Cache-Control": "no-store"}
"""The headers of a response that is sent before a route is known."""
_OPEN: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "ETag",
    "Cross-Origin-Resource-Policy": "cross-origin",
}
_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET, HEAD",
    "Access-Control-Allow-Headers": "If-None-Match, Last-Event-ID, Cache-Control",
    "Access-Control-Max-Age": "86400",
}


class Headers:
    """Middleware that adds the headers, and answers preflight requests.

    The headers of CORS are the same for every origin, and without one, so a CDN may keep any response for all.
    """

    def __init__(self, app: ASGIApp, embed_from: tuple[str, ...]) -> None:
        self._app = app
        self._policy = _POLICY.format(ancestors=" ".join(("'self'", *embed_from)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_answer = scope["path"].startswith("/v1/")
        headers = {**_FIXED, "Content-Security-Policy": self._policy, **(_OPEN if is_answer else {})}

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                sent.update(headers)
                sent.setdefault("Cache-Control", "no-store")
            await send(message)

        if is_answer and scope["method"] == "OPTIONS":
            raw = [(name.lower().encode(), value.encode()) for name, value in _PREFLIGHT.items()]
            await send_with_headers({"type": "http.response.start", "status": 204, "headers": raw})
            await send_with_headers({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send_with_headers)
