"""The running page: a thread that reads the output topic, and a thread with the HTTP server."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, cast

import uvicorn

from monitor.client.subscriber_view import SubscriberView, keep_for
from monitor.client.verification import read_trust
from monitor.config import Config, Locations, ValidConfig
from monitor.config.sections import PageSettings
from monitor.errors import ConfigError, FailedError, Problem
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.parameters import Parameters
from monitor.observe.health import Endpoint
from monitor.page.app import Site
from monitor.page.board import Board
from monitor.page.current_places import Present
from monitor.page.feed import BEAT_SECONDS, Feed, Hub
from monitor.page.html import Html, describe_promise
from monitor.page.languages import build_texts
from monitor.page.metrics import PageMetrics
from monitor.page.protocol import MOST_HEAD_BYTES, Connections, LimitedProtocol
from monitor.page.reader import Polled, TopicReader
from monitor.page.response_bodies import Body, make_body
from monitor.page.static_files import read_static
from monitor.time.clock import Clock
from monitor.time.instants import MILLISECOND, SECOND

log = logging.getLogger(__name__)

_OTHER_CONNECTIONS: Final = 500  # besides the subscribers
_SPARE_FILES: Final = 200
_BACKLOG: Final = 100  # the most connections that are accepted at a time, before those above a limit are closed
_SEND_BUFFER: Final = 65_536  # bytes for each connection in the system, which would otherwise keep megabytes
_DRAIN_SECONDS: Final = 10
_STATES_SECONDS: Final = 0.5
"""How long the page waits before it sends states again, so that it does not read all places for each poll of a tick."""
_CHECK_SECONDS: Final = 1.0
"""How long `wait` waits before it checks that the server runs."""


@dataclass(frozen=True, slots=True)
class PageParts:
    """What the page needs: a valid configuration, and how to reach Kafka. It needs no secret of the service.

    `since`: a time before which no answer is believed, as in `monitor.client.subscribe`.
    """

    config: Config
    parameters: Parameters
    locations: Locations
    kafka: KafkaConnections
    since: str | None = None


class Page:
    """A page that is served from `__enter__` to `__exit__`. `url` is its address.

    Subscribers receive the time every `beat_seconds`.

    Raises:
        ConfigError: page.texts or page.background is wrong (constructor).
        UsageError: `since` is not a time, or the configuration has no public key (constructor).
        TopicError, UnreachableError: the output topic cannot be read (`__enter__`).
        FailedError: the address cannot be used (`__enter__`).
    """

    def __init__(self, parts: PageParts, clock: Clock, beat_seconds: float = BEAT_SECONDS) -> None:
        settings, config = parts.config.page, parts.config
        self._settings = settings
        valid = keep_for(parts.parameters.grid.length)
        history = settings.history + valid  # so that the oldest past that is shown has all answers that were valid then
        key = config.signing.public_key
        trust = read_trust(key, parts.since)
        topic, slot = config.kafka.topics.alerts, parts.parameters.grid.length
        places = len(parts.parameters.registry.ids)
        self._source = TopicReader(parts.kafka, topic, slot, history, trust, places)
        board = Board(history, settings.history_megabytes * 1_000_000, valid, 0 if trust is None else trust.since or 0)
        view = SubscriberView(parts.parameters.registry, valid)
        shared = {
            "registry": parts.parameters.registry.digest,
            "slot_seconds": parts.parameters.grid.length / SECOND,
        }
        self._unverified = ""
        self._metrics = PageMetrics(parts.parameters.grid.length, settings.unreachable_after, settings.subscribers)
        hub = Hub(settings.subscribers, self._metrics.count_cut)
        self._feed = Feed(board, view, hub, clock, settings=shared)
        self._metrics.watch(hub, lambda: self._feed.silent_seconds, lambda: self._unverified, self._list_ended)
        present = Present(parts.parameters, parts.locations, self._feed, settings.unreachable_after)
        static, background = read_static(), _read_background(settings.background)
        setup: dict[str, Any] = {
            "unreachableMs": settings.unreachable_after // MILLISECOND,
            "background": background is not None,
        }
        if key is not None:
            setup["publicKey"] = key
        promise = describe_promise(config)
        html = Html(build_texts(settings), setup, static, promise)
        self._site = Site(present, html, static, background, settings.audit_file, self._metrics.count_response)
        self._beat_seconds = beat_seconds
        self._stop = threading.Event()
        self._delivered, self._ending = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.url = self.metrics_url = ""
        self._endpoint: Endpoint | None = None
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        """Read the topic to its end, then accept connections."""
        try:
            for polled in self._source.read_to_end():
                self._add(self._source.topic_id, polled)
            self._endpoint = self._open_metrics()
            listening = _listen(self._settings.host, self._settings.port)
        except BaseException:
            self._source.close()
            self._close_metrics()
            raise
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        self.url = f"http://{host}:{listening.getsockname()[1]}/"
        _allow_files(self._settings.subscribers + _OTHER_CONNECTIONS + _SPARE_FILES)
        ready = threading.Event()
        self._server = threading.Thread(target=self._run_server, args=(listening, ready), name="HTTP server")
        self._server.start()
        ready.wait()
        self._reader = threading.Thread(
            target=self._source.follow, args=(self._deliver, self._stop), name="reader of the output topic"
        )
        self._reader.start()
        self._threads += [self._server, self._reader]
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the page."""
        self.close()

    def close(self) -> None:
        """End all streams, finish the responses in progress, and close the connections. Further calls do nothing."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._reader.join()
        self._call_in_loop(self._ending.set)
        self._server.join()
        self._close_metrics()

    def use(self, valid: ValidConfig) -> None:
        """Show the places of another configuration with the same slots from now on. Its other keys are not used."""
        self._call_in_loop(lambda: self._site.present.use(valid.parameters, valid.locations))

    def wait(self, stop: threading.Event) -> bool:
        """Wait until `stop` is set, for at most a second. Return whether it is set.

        Raises:
            FailedError: the HTTP server, or the reader of the output topic, has ended by itself.
        """
        if stop.wait(_CHECK_SECONDS):
            return True
        for name in self._list_ended():
            raise FailedError(f"the {name} of the page has ended by itself. Start the page again.")
        return False

    def _list_ended(self) -> list[str]:
        return [thread.name for thread in self._threads if not thread.is_alive()]

    def _open_metrics(self) -> Endpoint | None:
        """Serve the metrics on an address of their own, if it is configured: the public must not read them."""
        host, port = self._settings.metrics_host, self._settings.metrics_port
        if port is None:
            return None
        endpoint = Endpoint(host, port, self._metrics.registry, self._metrics, "page.metrics_port")
        self.metrics_url = f"http://{host}:{endpoint.port}/metrics"
        return endpoint

    def _close_metrics(self) -> None:
        if self._endpoint is not None:
            self._endpoint.close()

    def _add(self, topic_id: str, polled: Polled) -> None:
        if polled.problem != self._feed.view.problem:  # it also ends: a new topic has a new verification
            self._feed.view.distrust(polled.problem)
        self._unverified = polled.unverified
        self._feed.deliver(topic_id, polled.entries, polled.position)
        self._metrics.count_foreign(polled.foreign)
        self._metrics.set_as_of(self._feed.board.as_of)

    def _deliver(self, topic_id: str, polled: Polled) -> None:
        """Deliver records in the event loop, and wait until it is done, so that the reader never runs ahead.

        If the server has ended, they are dropped. If they cannot be added, the server ends: without them, a place that
        has an alarm could look safe.
        """
        self._delivered.clear()

        def deliver() -> None:
            try:
                self._add(topic_id, polled)
            except BaseException:
                self._ending.set()
                raise
            finally:
                self._delivered.set()

        if self._call_in_loop(deliver):
            self._delivered.wait()

    def _call_in_loop(self, function: Callable[[], None]) -> bool:
        """Have the event loop call a function. Return False if the loop is closed, because the server has ended."""
        if self._loop is None:
            return False
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            return False
        return True

    def _run_server(self, listening: socket.socket, ready: threading.Event) -> None:
        """Run the server until it ends. Then nobody waits for it, not even for a delivery that the loop has taken."""
        try:
            asyncio.run(self._serve(listening, ready))
        finally:
            ready.set()
            self._delivered.set()

    async def _serve(self, listening: socket.socket, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        server = uvicorn.Server(_make_uvicorn_config(self._site, self._settings, self._metrics))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        sending = [asyncio.create_task(self._send_beats()), asyncio.create_task(self._send_states())]
        ending = asyncio.create_task(self._ending.wait())
        ready.set()
        await asyncio.wait([serving, ending, *sending], return_when=asyncio.FIRST_COMPLETED)
        for task in sending:
            task.cancel()
        self._feed.hub.close()
        server.should_exit = True
        await serving

    async def _send_beats(self) -> None:
        while True:
            await asyncio.sleep(self._beat_seconds)
            self._feed.beat()

    async def _send_states(self) -> None:
        while True:
            await asyncio.sleep(_STATES_SECONDS)
            await self._site.present_states.publish()


def _make_uvicorn_config(site: Site, settings: PageSettings, metrics: PageMetrics) -> uvicorn.Config:
    most = settings.subscribers + _OTHER_CONNECTIONS
    connections = Connections(most, settings.most_from_an_address, metrics.count_refused)
    return uvicorn.Config(
        site.create_app(settings.embed_from),
        http=cast("type[asyncio.Protocol]", partial(LimitedProtocol, connections)),  # uvicorn only calls it
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.ERROR,
        access_log=False,  # nobody's searches and addresses are kept
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=MOST_HEAD_BYTES,
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=1_024)
    except OSError as error:
        raise FailedError(
            f"page.host is {host!r} and page.port is {port}, but this address cannot be used ({error.strerror}): set a "
            "free port, 0 for any"
        ) from error
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)  # connections inherit it
    return listening


def _allow_files(wanted: int) -> None:
    """Raise the limit of open files, as far as the system allows: each connection is a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _read_background(path: Path | None) -> Body | None:
    """Return the agency's map.

    Raises:
        ConfigError: the file cannot be read, or is not GeoJSON.
    """
    if path is None:
        return None
    try:
        content = json.loads(path.read_bytes())
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    except (OSError, UnicodeError, json.JSONDecodeError) as error:
        raise _make_background_error(path, f"({error})") from None
    except (RecursionError, ValueError):
        raise _make_background_error(path, "(nested too deeply, or with a number of too many digits)") from None
    if not isinstance(content, dict) or content.get("type") != "FeatureCollection":
        raise _make_background_error(path, "without a FeatureCollection")
    return make_body(text)


def _make_background_error(path: Path, found: str) -> ConfigError:
    remedy = "Correct the path, which is relative to the configuration file, or the file."
    problem = Problem("page.background", f"{path} {found}", "a readable GeoJSON file (FeatureCollection)", remedy)
    return ConfigError("page", (problem,))
