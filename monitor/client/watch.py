"""`location-monitor watch`: shows a live table if the output is a terminal, and otherwise prints changes as lines."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from monitor.client.describe_records import (
    NAMED,
    News,
    NewsLine,
    Words,
    alert_status,
    bound_status,
    moment,
    total_status,
)
from monitor.client.designated_time import AtTime
from monitor.client.known_at_a_moment import VALID_SLOTS, KnownPlaces, count_draws
from monitor.client.read_config import PublishingService
from monitor.client.state_from_records import SubscriberView
from monitor.client.subscription import Places, open_configured
from monitor.config.valid_config import ValidConfig
from monitor.kafka.connections import build_kafka_connections
from monitor.kinds.over_time.record import OverTimeAlert
from monitor.stop_signals import stop_on_signals
from monitor.time.clock import Clock, SystemClock
from monitor.time.instants import MINUTE, SECOND, format_duration, parse_instant
from monitor.time.slot_grid import SlotGrid

STYLES: Final = {
    "safe": "green",
    "noisy_count": "yellow",
    "below_since": "yellow",
    "paused": "bright_black",
    "unknown": "magenta",
    "bounded": "cyan",
}
SYMBOLS: Final = {"safe": "●", "noisy_count": "▲", "below_since": "△", "paused": "◌", "unknown": "?", "bounded": "≤"}

_NOTHING: Final = "Nothing has been published yet."
_FRAME_LINES: Final = 3  # the header, the line with the number of hidden rows, and one spare line
_MIN_ROWS: Final = 5
_PADDING: Final = 6  # one space on each side of three columns
_NEWS: Final = 5
RUNBOOK: Final = "An answer is not verified"


def describe_headline(subscriber_view: SubscriberView, grid: SlotGrid, now: int) -> Iterator[str]:
    """Yield a line with the as_of of the current state (UTC) and its signer, and a warning if the state is old."""
    if subscriber_view.problem:
        yield f"NOT VERIFIED: {subscriber_view.problem}. Every place is unknown. See docs/runbooks.md, {RUNBOOK}."
        return
    if subscriber_view.tick is None or subscriber_view.as_of is None:
        yield f"No answer that {subscriber_view.signer} has signed yet." if subscriber_view.signer else _NOTHING
        return
    known = KnownPlaces(subscriber_view, grid.length, lambda: now)
    count = sum(known.get(place).last_alarm is not None for place in known.places())
    alarms = f"; places with an alarm: {count}" if count else ""
    verified = f"; verified, signed by {subscriber_view.signer}" if subscriber_view.signer else ""
    yield f"As of {moment(subscriber_view.as_of)} UTC, tick {subscriber_view.tick:,}{alarms}{verified}"
    late = now - parse_instant(subscriber_view.as_of)
    if late > VALID_SLOTS * grid.length:
        unit = MINUTE if grid.length >= MINUTE else SECOND
        ago = format_duration(late // unit * unit)
        yield f"Nothing new for {ago}: the service may be down. Answers that are no longer valid are unknown."
    if subscriber_view.unreadable:
        yield f"{subscriber_view.unreadable} invalid records were skipped."


def describe_view(subscriber_view: SubscriberView, words: Words, now: int) -> Iterator[str]:
    """Yield the headline, and one line per `over_time` alert, recent designated time, and answer about all places."""
    yield from describe_headline(subscriber_view, words.grid, now)
    for row in _Items(subscriber_view, words, now).list_rows():
        yield f"{row.monitor} {row.where}: {row.state}"


class _Row(NamedTuple):
    monitor: str
    where: str
    status: str
    state: str

    @property
    def rank(self) -> int:
        """The place in the order of the rows: those with an alarm come first, and those that are safe last."""
        return {"noisy_count": 0, "safe": 2}.get(self.status, 1)


class _Items:
    """Describes the state of each item. Answers that are no longer valid are unknown."""

    def __init__(self, subscriber_view: SubscriberView, words: Words, now: int) -> None:
        self._view, self._tick, self._words = subscriber_view, subscriber_view.tick, words
        self._known = KnownPlaces(subscriber_view, words.grid.length, lambda: now)
        self._draws = count_draws(subscriber_view, words.grid.length)

    def list_rows(self, most: int | None = None) -> Iterator[_Row]:
        """Yield a row for each location, designated time, and answer about all places together.

        Such an answer names at most `most` places.
        """
        for alert in self._view.alerts:
            yield _Row(alert.monitor, alert.location_id, *self._describe_alert(alert))
        for at in self._view.times:
            yield _Row(at.monitor, moment(at.time), *self._describe_time(at))
        for bound in self._view.list_bounds(self._known.now()):
            yield _Row(bound.monitor, bound.location_id, bound_status(bound), self._words.bound(bound))
        for total in self._view.totals:
            yield _Row(total.monitor, moment(total.time), total_status(total), self._words.total(total, most))

    def _describe_alert(self, alert: OverTimeAlert) -> tuple[str, str]:
        """Describe the state of one location (`over_time`). An alarm that still counts comes first."""
        if self._known.is_old(alert.as_of):
            status, text = "unknown", self._words.too_old(alert.as_of)
        else:
            most = self._view.find_window_bound(alert, self._words.grid.length)
            age = self._describe_age(alert.tick, alert.as_of)
            status, text = alert_status(alert), self._words.alert(alert, self._draws, most) + age
        alarm = self._known.find_last_alarm(alert)
        if status == "noisy_count" or alarm is None or self._known.now() > (alarm.valid_until or 0):
            return status, text
        return "noisy_count", f"{self._words.last_alarm(alarm)}; {text}"

    def _describe_time(self, at: AtTime) -> tuple[str, str]:
        """Describe all locations at one designated time."""
        if self._known.is_old(at.sample.as_of, final=at.final):
            return "unknown", self._words.too_old(at.sample.as_of)
        status = "noisy_count" if at.noisy_counts else "safe" if at.is_known else "unknown"
        return status, self._words.at_time(at, self._draws) + self._describe_age(at.tick, at.sample.as_of)

    def _describe_age(self, tick: int, as_of: str) -> str:
        return f" (as of {moment(as_of)})" if self._tick is not None and tick < self._tick else ""


class Screen:
    """A live table: first the rows with an alarm, and last as many safe ones as fit. `news` has the latest changes."""

    def __init__(self, subscriber_view: SubscriberView, words: Words, now: int, news: list[NewsLine]) -> None:
        self._subscriber_view, self._words, self._now, self._news = subscriber_view, words, now, news

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the headline, the table and the news."""
        headline = describe_headline(self._subscriber_view, self._words.grid, self._now)
        head = [Text(line, style="bold") for line in headline]
        news = [Text(f"  {line.text}", style=STYLES[line.status]) for line in self._news]
        taken = sum(len(text.wrap(console, options.max_width)) for text in (*head, *news))
        room = max(_MIN_ROWS, options.size.height - taken - _FRAME_LINES)
        yield Group(*head, self._build_table(console, options.max_width, room), *news)

    def _build_table(self, console: Console, width: int, room: int) -> Table:
        """Return the table with as many rows as fit in `room` lines."""
        items = _Items(self._subscriber_view, self._words, self._now)
        rows = sorted(items.list_rows(NAMED), key=lambda row: row.rank)
        sides = [("monitor", [row.monitor for row in rows]), ("where or when", [row.where for row in rows])]
        table = Table(expand=True, box=None, padding=(0, 1), header_style="bold")
        left = width - _PADDING
        for name, cells in sides:
            table.add_column(name, no_wrap=True)
            left -= max(cell_len(cell) for cell in (name, *cells))
        table.add_column("state", ratio=1)
        for n, row in enumerate(rows):
            state = Text(f"{SYMBOLS[row.status]} {row.state}", style=STYLES[row.status])
            room -= len(state.wrap(console, max(1, left)))
            if room < 0:
                table.add_row(
                    "", "", Text(f"… and {len(rows) - n} more: enlarge the window to see them", style="italic")
                )
                break
            table.add_row(row.monitor, row.where, state)
        return table


def watch_command(valid: ValidConfig, console: Console, *, once: bool, since: str | None = None) -> None:
    """Show the current state, and follow the alerts until a signal arrives; with `once` show the current state only.

    Raises:
        ConfigError: the password file or a certificate file of Kafka is wrong.
        TopicError: the output topic does not exist.
        UnreachableError: Kafka does not answer.
        UsageError: `since` is not a time, or the configuration has no public key.
    """
    stop = threading.Event()
    with stop_on_signals(stop, lambda _text: None):
        watch(valid, console, SystemClock(), stop, once=once, since=since)


def watch(
    valid: ValidConfig,
    console: Console,
    clock: Clock,
    stop: threading.Event,
    *,
    once: bool,
    since: str | None = None,
) -> None:
    """Do what `watch_command` does, until `stop` is set."""
    config, parameters = valid.config, valid.parameters
    words, kafka = Words(parameters.grid), config.kafka
    service = PublishingService(
        build_kafka_connections(kafka, config.service.name),
        kafka.topics.alerts,
        parameters.registry.ids,
        parameters.grid.length,
        parameters.longest_horizon > 0,
        config.signing.public_key,
    )
    with open_configured(service, clock, since=since) as places:
        if once or not console.is_terminal:
            for line in describe_view(places.view, words, places.now()):
                console.print(line, highlight=False, markup=False, soft_wrap=True)
        if once:
            return
        if console.is_terminal:
            _show(places, words, console, stop)
        else:
            _print_news(places, words, console, stop)


def _print_news(places: Places, words: Words, console: Console, stop: threading.Event) -> None:
    news, view, problem = News(words), places.view, places.view.problem
    while not stop.is_set():
        lines = [f"{view.as_of} {line.text}" for line in news.lines(view, places.poll())]
        if view.problem != problem:
            problem = view.problem
            lines += describe_headline(view, words.grid, places.now())
        for line in lines:
            console.print(line, highlight=False, markup=False, soft_wrap=True)


def _show(places: Places, words: Words, console: Console, stop: threading.Event) -> None:
    news, latest = News(words), deque[NewsLine](maxlen=_NEWS)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while not stop.is_set():
            live.update(Screen(places.view, words, places.now(), list(latest)), refresh=True)
            latest.extend(news.lines(places.view, places.poll()))
