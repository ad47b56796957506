"""The routes of the page. Every answer is public, the same for everybody, and may be kept by a CDN."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from monitor.config.sections import LANGUAGES
from monitor.errors import TimeError
from monitor.page import answers
from monitor.page.current_places import Present, Snapshot, read_recount
from monitor.page.feed import RETRY
from monitor.page.headers import Headers
from monitor.page.history import prepare_history
from monitor.page.html import Html, View, count_pages, round_seconds_left
from monitor.page.languages import choose_language
from monitor.page.metrics import CountResponses
from monitor.page.response_bodies import Body, ResponseBodies, StampedBodies, respond
from monitor.page.states import States, prepare_past_states, prepare_records
from monitor.page.static_files import Static, read_openapi
from monitor.time.instants import format_instant, parse_instant

_BRIEF: Final = "public, max-age=5, must-revalidate, stale-if-error=0"  # never an old "safe", not even in an outage
_FIXED: Final = "public, max-age=86400"
_FOREVER: Final = "public, max-age=31536000, immutable"
_NEVER: Final = "no-store"
_RETRY: Final = {"Retry-After": "10", "Cache-Control": _NEVER}
_LONGEST_ID: Final = 256


@dataclass
class Site:
    """The public site: what is known now, and how it is shown. Use it in one event loop only."""

    present: Present
    html: Html
    static: Static
    background: Body | None
    audit_file: Path | None
    count_response: Callable[[str, int], None] = lambda _route, _status: None
    _bodies: ResponseBodies = field(default_factory=ResponseBodies)
    _past: ResponseBodies = field(
        default_factory=ResponseBodies
    )  # so that nobody waits for the present while the past is built
    present_states: States = field(init=False)
    _states: StampedBodies = field(init=False)
    _records: StampedBodies = field(init=False)

    def __post_init__(self) -> None:
        """Create the bodies of `/v1/states` and `/v1/records`."""
        self.present_states = States(self.present)
        self._states, self._records = StampedBodies(self._bodies, "states"), StampedBodies(self._past, "records")

    def create_app(self, embed_from: tuple[str, ...]) -> Starlette:
        """Return the application."""
        routes = [
            Route("/", self.page),
            Route("/v1/locations", self.locations_json),
            Route("/v1/locations.csv", self.locations_csv),
            Route("/v1/locations.geojson", self.locations_geojson),
            Route("/v1/locations/{id:path}/history", self.history),
            Route("/v1/registry", self.registry),
            Route("/v1/states", self.states),
            Route("/v1/records", self.records),
            Route("/v1/ticks", self.ticks),
            Route("/v1/stream", self.stream),
            Route("/v1/background.geojson", self.background_geojson),
            Route("/v1/openapi.json", self.openapi),
            Route("/static/{build}/{name}", self.static_file),
        ]
        app = Starlette(
            routes=routes,
            middleware=[
                Middleware(CountResponses, count=self.count_response),
                Middleware(Headers, embed_from=embed_from),
            ],
            exception_handlers={HTTPException: _describe_problem},
        )
        app.router.redirect_slashes = False  # it would redirect to the host that the client names
        return app

    async def page(self, request: Request) -> Response:
        """Return the page as HTML."""
        query = _read_query(request, "lang", "page", "embed")
        wanted = _read_choice(query, "lang", LANGUAGES)
        language = choose_language(wanted, request.headers.get("accept-language", ""))
        present, now = await self.present.read(), self.present.feed.clock.now()
        recount = read_recount(self.audit_file, now)
        pages = count_pages(len(present.places))
        embed = _read_choice(query, "embed", ("1",)) is not None
        view = View(language, _read_page_number(query.get("page", "1"), pages), embed)
        left = round_seconds_left(present.expires - now)
        body = await self._bodies.get(
            ("page", view),
            (present.number, recount, left),
            lambda: partial(self.html.write, view, present.places, present.as_of, recount, left),
        )
        return respond(request, body, "text/html; charset=utf-8", _BRIEF, Vary="Accept-Encoding, Accept-Language")

    async def locations_json(self, request: Request) -> Response:
        """Return all places as JSON."""
        parameters = self.present.parameters
        return await self._send_places(request, "application/json", partial(answers.write_locations_json, parameters))

    async def locations_csv(self, request: Request) -> Response:
        """Return all places as CSV."""
        return await self._send_places(request, "text/csv; charset=utf-8; header=present", answers.write_locations_csv)

    async def locations_geojson(self, request: Request) -> Response:
        """Return all places as GeoJSON."""
        return await self._send_places(request, "application/geo+json", answers.write_locations_geojson)

    async def _send_places(self, request: Request, media_type: str, write: Callable[[Snapshot], bytes]) -> Response:
        _read_query(request)
        present = await self.present.read()
        body = await self._bodies.get(("places", media_type), present.number, lambda: partial(write, present))
        return respond(request, body, media_type, _BRIEF)

    async def history(self, request: Request) -> Response:
        """Return what was published about one place."""
        _read_query(request)
        location_id: str = request.path_params["id"]
        parameters, board, earlier = self.present.parameters, self.present.feed.board, self.present.feed.view.earlier
        row = parameters.registry.rows.get(location_id) if len(location_id) <= _LONGEST_ID else None
        if row is None:
            raise HTTPException(404, "there is no location with this id in /v1/registry")
        body = await self._past.get(
            ("history", location_id),
            (board.version, parameters.registry.digest),
            lambda: prepare_history(location_id, row, board, parameters, earlier),
        )
        return respond(request, body, "application/json", _BRIEF)

    async def registry(self, request: Request) -> Response:
        """Return the registry in columns."""
        _read_query(request)
        locations, parameters = self.present.locations, self.present.parameters
        earlier = self.present.feed.view.earlier
        body = await self._bodies.get(
            "registry",
            parameters.registry.digest,
            lambda: partial(answers.write_registry_json, locations, parameters, earlier),
        )
        return respond(request, body, "application/json", _BRIEF)

    async def states(self, request: Request) -> Response:
        """Return the states of all places at a time; without `at`, now."""
        if (at := _read_query(request, "at").get("at")) is not None:
            return await self._return_past(request, "states", at, lambda tick: prepare_past_states(tick, self.present))
        await self.present_states.update()
        content, about, feed = self.present_states.content, self.present_states.describe(), self.present.feed
        body = await self._states.get(
            self.present_states.snapshot.number,
            lambda: lambda: content,
            lambda: msgspec.json.encode({**feed.report_status(), **about}),
        )
        return respond(request, body, "application/json", _NEVER)

    async def records(self, request: Request) -> Response:
        """Return the records from which the state at a time follows; without `at`, the present state."""
        feed, board = self.present.feed, self.present.feed.board
        if (at := _read_query(request, "at").get("at")) is not None:
            return await self._return_past(request, "records", at, lambda tick: prepare_records(board, tick))
        read = {name: feed.report_status()[name] for name in ("as_of", "position")}  # before later records come
        body = await self._records.get(
            board.version,
            lambda: prepare_records(board),
            lambda: msgspec.json.encode({**feed.report_status(), **read}),
        )
        return respond(request, body, "application/json", _NEVER)

    async def _return_past(
        self, request: Request, name: str, at: str, prepare: Callable[[int], Callable[[], bytes]]
    ) -> Response:
        """Return a body about the last tick up to a time, or redirect to its time. `prepare` is as in StampedBodies."""
        tick = self._find_tick(at)
        if at != format_instant(tick):
            headers = {"Location": f"{name}?at={format_instant(tick)}", "Cache-Control": _BRIEF}
            return Response(status_code=307, headers=headers)

        def prepare_whole() -> Callable[[], bytes]:
            write = prepare(tick)
            return lambda: write() + b"}"

        state = self.present.feed.board.version, self.present.parameters.registry.digest
        body = await self._past.get((name, tick), state, prepare_whole)
        return respond(request, body, "application/json", _BRIEF)

    def _find_tick(self, text: str) -> int:
        """Return the as_of of the last tick up to a time that is not after the present."""
        at, feed, grid = _read_instant(text), self.present.feed, self.present.parameters.grid
        latest = feed.board.as_of
        if at > max(feed.clock.now(), latest or 0):
            raise HTTPException(400, "at: expected a time that is not in the future")
        tick_at = grid.as_of(grid.find_last_tick(at))
        return tick_at if latest is None else min(tick_at, latest)

    async def ticks(self, request: Request) -> Response:
        """Return the kept ticks, each with the noisy counts that it drew, and the places that had an alarm then."""
        _read_query(request)
        board = self.present.feed.board

        def prepare() -> Callable[[], bytes]:
            ticks = [tick._asdict() | {"as_of": format_instant(tick.as_of)} for tick in board.ticks]
            return lambda: msgspec.json.encode({"ticks": ticks})

        return respond(request, await self._past.get("ticks", board.version, prepare), "application/json", _BRIEF)

    async def stream(self, request: Request) -> Response:
        """Return the stream of server-sent events: the states of all places with `states=1`, else the records.

        That of the records continues after `Last-Event-ID`, or else after `after`.
        """
        query = _read_query(request, "after", "states")
        wants_states = _read_choice(query, "states", ("1",)) is not None
        after = request.headers.get("last-event-id") or query.get("after")
        feed, hub = self.present.feed, self.present.feed.hub
        if hub.is_full:
            raise HTTPException(503, "too many subscribers: try again later", _RETRY)

        async def chunks() -> AsyncGenerator[bytes]:
            if wants_states:
                await self.present_states.update()
            if hub.is_full:  # others may have connected since
                return
            # Subscribe only now: if the client has left, the generator never starts, and could not end a subscription.
            if wants_states:
                first = [RETRY, feed.write_beat_event(), *self.present_states.list_event_parts()]
                subscription = hub.subscribe("states", first)
            else:
                subscription = hub.subscribe("records", feed.resume(after))
            try:
                async with aclosing(subscription.read_chunks()) as following:
                    async for chunk in following:
                        yield chunk
            finally:
                hub.leave(subscription)

        headers = {"Cache-Control": _NEVER, "X-Accel-Buffering": "no"}
        return StreamingResponse(chunks(), media_type="text/event-stream", headers=headers)

    async def background_geojson(self, request: Request) -> Response:
        """Return the agency's own map."""
        _read_query(request)
        if self.background is None:
            raise HTTPException(404, "page.background is not set")
        return respond(request, self.background, "application/geo+json", _FIXED)

    async def openapi(self, request: Request) -> Response:
        """Return the OpenAPI document."""
        _read_query(request)
        body = await self._bodies.get("openapi", None, lambda: lambda: msgspec.json.encode(read_openapi()))
        return respond(request, body, "application/json", _FIXED)

    async def static_file(self, request: Request) -> Response:
        """Return a file of the package. Only the files that were read at the start exist."""
        found = self.static.find(request.path_params["build"], request.path_params["name"])
        if found is None:
            raise HTTPException(404, "there is no such file")
        return respond(request, *found, _FOREVER)


def _read_query(request: Request, *known: str) -> Mapping[str, str]:
    """Return the parameters of a request.

    A CDN keeps a copy for each address. So an address that is only another form of the same address is refused: one
    with an unknown parameter, or with characters that need not be escaped.

    Raises:
        HTTPException: 400, for a parameter that is unknown or given twice, or for another form; 404, for a path with
            escapes that is not the address of a place.
    """
    pairs = request.query_params.multi_items()
    names = [name for name, _value in pairs]
    if len(set(names)) < len(names) or not set(names) <= set(known):
        wanted = f"{', '.join(known)}, each at most once" if known else "no parameters"
        raise HTTPException(400, f"query parameters: expected {wanted}")
    if request.scope["query_string"].decode("latin-1") not in {urlencode(pairs), urlencode(pairs, safe="/:,")}:
        raise HTTPException(400, f"query: expected the form {urlencode(pairs)!r}")
    if b"%" in request.scope["raw_path"] and not request.path_params:
        raise HTTPException(404, "expected a path without escapes")
    return dict(pairs)


def _read_choice(query: Mapping[str, str], name: str, choices: Sequence[str]) -> str | None:
    value = query.get(name)
    if value is not None and value not in choices:
        raise HTTPException(400, f"{name}: expected {' or '.join(choices)}")
    return value


def _read_page_number(text: str, most: int) -> int:
    if text not in map(str, range(1, most + 1)):
        raise HTTPException(400, f"page: expected a number from 1 to {most}")
    return int(text)


def _read_instant(text: str) -> int:
    try:
        return parse_instant(text)
    except TimeError as error:
        raise HTTPException(400, f"at: {error}") from None


async def _describe_problem(_request: Request, error: Exception) -> Response:
    """Return an error as problem details (RFC 9457)."""
    assert isinstance(error, HTTPException)  # noqa: S101  # the type that it is registered for
    headers = {"Cache-Control": _NEVER, **(error.headers or {})}
    content = {"status": error.status_code, "title": error.detail}
    return JSONResponse(content, error.status_code, headers, "application/problem+json")
