"""Sends bodies: compressed if the client accepts that, and only as fast as the client reads."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from monitor.tools.page.bodies import Body, DroppedError


class BodyResponse(Response):
    """A response whose body is sent in chunks: the next one follows once the client has read most of the last one."""

    def __init__(self, body: Body, media_type: str, headers: Mapping[str, str], *, zipped: bool) -> None:
        self._shared, self._zipped = body, zipped
        length = body.stored if zipped else body.length
        super().__init__(media_type=media_type, headers={**headers, "Content-Length": str(length)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. `transport` in the state of the scope is the connection (`LimitedProtocol`)."""
        transport = scope["state"]["transport"]
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            for chunk in () if scope["method"] == "HEAD" else self._shared.read(zipped=self._zipped):
                if transport.is_closing():
                    break
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except DroppedError:
            transport.abort()  # a response that ended here would look complete to some clients
        if transport.is_closing():
            while (await receive())["type"] != "http.disconnect":
                pass
        else:
            await send({"type": "http.response.body", "body": b""})


def respond(request: Request, body: Body, media_type: str, caching: str, **further: str) -> Response:
    """Return a body, compressed if the client accepts that; 304 if the client has it already."""
    zipped = body.zipped and accepts_gzip(request.headers.get("accept-encoding", ""))
    tag = f'"{body.tag}-gzip"' if zipped else f'"{body.tag}"'
    headers = {"Cache-Control": caching, "ETag": tag, "Vary": "Accept-Encoding", **further}
    wanted = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
    if tag in wanted:
        return Response(status_code=304, headers=headers)
    if zipped:
        headers["Content-Encoding"] = "gzip"
    return BodyResponse(body, media_type, headers, zipped=zipped)


def accepts_gzip(accepted: str) -> bool:
    """Return whether an Accept-Encoding header lists gzip with a weight above 0. An invalid weight counts as 0."""
    for part in accepted.lower().split(","):
        coding, _, weight = part.partition(";")
        name, _, value = weight.strip().partition("=")
        if coding.strip() in {"gzip", "x-gzip"} and (not weight or (name == "q" and _is_positive(value))):
            return True
    return False


def _is_positive(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False
