"""The running page: a thread that reads the output topic, and a thread that writes the folder."""

from __future__ import annotations

import json
import logging
import queue
import threading
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Self

from monitor.client.state_from_records import SubscriberView, keep_for
from monitor.client.verification import read_trust
from monitor.config.registry import Locations
from monitor.config.sections import PageSettings
from monitor.config.valid_config import ValidConfig
from monitor.config.whole_config import Config
from monitor.errors import ConfigError, FailedError, Problem
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.parameters import Parameters
from monitor.observe.health import Endpoint
from monitor.operate.read_report_delays import read_report_delays
from monitor.page.current_places import Expected, Present
from monitor.page.html import Html, count_noise, describe_promise, find_timezone
from monitor.page.kept_records import Board
from monitor.page.languages import build_texts
from monitor.page.metrics import PageMetrics
from monitor.page.scripts_and_styles import read_static
from monitor.page.site_files import SiteFiles
from monitor.page.topic_reader import Polled, TopicReader
from monitor.page.write_changed_files import Folder
from monitor.time.clock import Clock
from monitor.time.instants import MILLISECOND

log = logging.getLogger(__name__)

_TURN_SECONDS: Final = 0.5
"""How long the page writes files, or waits, before it takes the next records."""
_ENOUGH: Final = 90
"""The percentage of reports from which on a place is not only "so far" below the level, without `counted_percent`."""
_WAITING: Final = 16  # polls that the reader may be ahead of the writer
_CHECK_SECONDS: Final = 1.0
"""How long `wait` waits before it checks that the threads run."""


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
    """A page that is written into a folder from `__enter__` to `__exit__`.

    Raises:
        ConfigError: page.texts or page.background is wrong (constructor).
        DelaysError: page.delays_file cannot be used (constructor).
        UsageError: `since` is not a time, or the configuration has no public key (constructor); the folder has other
            files (`__enter__`).
        TopicError, UnreachableError: the output topic cannot be read (`__enter__`).
        FailedError: another page writes the folder, or it cannot be written (`__enter__`).
    """

    def __init__(self, parts: PageParts, clock: Clock, out: Path) -> None:
        settings, config, grid = parts.config.page, parts.config, parts.parameters.grid
        valid = keep_for(grid.length)
        history = settings.history + valid  # so that the oldest past that is shown has all answers that were valid then
        trust, registry = read_trust(config.signing.public_key, parts.since), parts.parameters.registry
        topic = config.kafka.topics.alerts
        self._source = TopicReader(parts.kafka, topic, grid.length, history, trust, len(registry.ids))
        board = Board(history, settings.history_megabytes * 1_000_000, valid, 0 if trust is None else trust.since or 0)
        view, expected = SubscriberView(registry, valid), _read_expected(settings)
        self.present = Present(
            parts.parameters, parts.locations, board, view, clock, settings.unreachable_after, expected
        )
        self._unverified, self._unwritten = "", ""
        self._settings = settings
        self._metrics = PageMetrics(
            grid.length,
            settings.unreachable_after,
            lambda: self.present.silent_seconds,
            lambda: self._unverified,
            lambda: self._unwritten,
            self._list_ended,
        )
        self.folder, static, background = Folder(out), read_static(), _read_background(settings.background)
        texts = build_texts(settings, count_noise(config, len(registry.ids)))
        html = Html(
            texts, _describe_setup(config, background), static, describe_promise(config), settings.language, expected
        )
        self._files = SiteFiles(self.present, self.folder, html, static, background, settings.audit_file)
        self._polled: queue.Queue[Polled | ValidConfig] = queue.Queue(_WAITING)
        self._stop = threading.Event()
        self.metrics_url = ""
        self._endpoint: Endpoint | None = None
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        """Lock the folder, read the topic to its end, and begin to write."""
        self.folder.__enter__()
        try:
            for polled in self._source.read_to_end():
                self._add(polled)
            self._write(_TURN_SECONDS)
            self._endpoint = self._open_metrics()
        except BaseException:
            self._source.close()
            self.folder.__exit__()
            raise
        follow = threading.Thread(
            target=self._source.follow, args=(self._polled.put, self._stop), name="reader of the output topic"
        )
        self._threads = [follow, threading.Thread(target=self._run, name="writer of the folder")]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the page."""
        self.close()

    def close(self) -> None:
        """Stop reading and writing, and release the folder. Its files stay. Further calls do nothing."""
        if self._stop.is_set():
            return
        self._stop.set()
        for thread in self._threads:
            while thread.is_alive():  # the reader waits for the writer, which may have ended
                thread.join(_TURN_SECONDS / 10)
                self._drop()
        if self._endpoint is not None:
            self._endpoint.close()
        self.folder.__exit__()

    def _drop(self) -> None:
        while not self._polled.empty():
            self._polled.get_nowait()

    def use(self, valid: ValidConfig) -> None:
        """Show the places of another configuration with the same slots from now on. Its other keys are not used."""
        self._polled.put(valid)

    def wait(self, stop: threading.Event) -> bool:
        """Wait until `stop` is set, for at most a second. Return whether it is set.

        Raises:
            FailedError: the reader of the output topic, or the writer of the folder, has ended by itself.
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

    def _run(self) -> None:
        """Take records and write files until the page is closed.

        If records cannot be added, the thread ends, and then the process: without them, a place that has an alarm could
        look safe.
        """
        while not self._stop.is_set():
            is_complete = self._write(_TURN_SECONDS)
            try:
                self._add(self._polled.get(timeout=_TURN_SECONDS if is_complete else 0.001))
                while True:
                    self._add(self._polled.get_nowait())
            except queue.Empty:
                pass

    def _write(self, seconds: float) -> bool:
        """Write files for some seconds. Return whether there is nothing more to write now.

        If the folder cannot be written, the health says so, and it is tried again after a pause.
        """
        try:
            is_complete = self._files.write(self.present.real_clock.elapsed() + seconds)
        except OSError as error:
            if not self._unwritten:
                log.error("the folder of the page cannot be written, and is tried again: %s", error)  # noqa: TRY400  # the trace says no more
            self._unwritten = f"{error.strerror or error}"
            self._metrics.count_failed()
            return True
        self._unwritten = ""
        self._metrics.set_written(self._files.written_at, self.folder.size)
        return is_complete

    def _add(self, polled: Polled | ValidConfig) -> None:
        if isinstance(polled, ValidConfig):
            self.present.use(polled.parameters, polled.locations)
            return
        self._unverified = polled.unverified
        self._files.forget_past(self.present.deliver(polled.entries, polled.problem))
        self._metrics.count_foreign(polled.foreign)
        self._metrics.set_as_of(self.present.board.as_of)


def _describe_setup(config: Config, background: bytes | None) -> dict[str, Any]:
    """Return what the script needs to know about the configuration."""
    setup: dict[str, Any] = {
        "unreachableMs": config.page.unreachable_after // MILLISECOND,
        "background": background is not None,
        "timezone": find_timezone(config),
    }
    if config.signing.public_key is not None:
        setup["publicKey"] = config.signing.public_key
    return setup


def _read_expected(settings: PageSettings) -> Expected | None:
    """Return how late reports come.

    Raises:
        DelaysError: the file of the delays cannot be used.
    """
    if settings.delays_file is None:
        return None
    percent = _ENOUGH if settings.counted_percent is None else settings.counted_percent
    return Expected(read_report_delays(settings.delays_file), Fraction(percent, 100))


def _read_background(path: Path | None) -> bytes | None:
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
    return text


def _make_background_error(path: Path, found: str) -> ConfigError:
    remedy = "Correct the path, which is relative to the configuration file, or the file."
    problem = Problem("page.background", f"{path} {found}", "a readable GeoJSON file (FeatureCollection)", remedy)
    return ConfigError("page", (problem,))
