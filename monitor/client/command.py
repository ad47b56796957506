"""`location-monitor watch`: shows a live table if the output is a terminal, and otherwise prints changes as lines."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.live import Live

from monitor.client.screen import Screen, lines
from monitor.client.subscriber import Published, Subscriber
from monitor.client.subscriber_view import Change, SubscriberView
from monitor.client.words import News, NewsLine, Words
from monitor.contracts.alerts import DWELL, HOT_SPOTS
from monitor.public.clock import Clock, SystemClock
from monitor.public.instants import DAY, MILLISECOND
from monitor.public.parameters import Parameters, Total
from monitor.public.slot_grid import SlotGrid
from monitor.run import stop_on_signals
from monitor.service import Settings

_NEWS: Final = 5
_LOOK_BACK: Final = 7 * DAY
_TOTALS: Final = {HOT_SPOTS.encode(), DWELL.encode()}
_ATTEMPTS: Final = 3  # designated times to try, because the service may have been down at the latest ones


def watch_command(settings: Settings, console: Console, *, once: bool) -> None:
    """Show the current state, and follow the alerts until a signal arrives; with `once` show the current state only.

    Raises:
        TopicError: the output topic does not exist.
        UnreachableError: Kafka does not answer.
    """
    stop = threading.Event()
    with stop_on_signals(stop, lambda _text: None):
        watch(settings, console, SystemClock(), stop, once=once)


def watch(settings: Settings, console: Console, clock: Clock, stop: threading.Event, *, once: bool) -> None:
    """Run `watch_command` until `stop` is set."""
    view = SubscriberView(settings.parameters.registry)
    words = Words(settings.parameters.grid)
    topic = settings.config.kafka.topics.alerts
    with Subscriber(settings.kafka, topic, settings.parameters.grid.length // MILLISECOND) as subscriber:
        catch_up(subscriber, view)
        look_back(subscriber, view, settings.parameters)
        if once or not console.is_terminal:
            for line in lines(view, words, clock.now()):
                console.print(line, highlight=False, markup=False, soft_wrap=True)
        if once:
            return
        if console.is_terminal:
            _show(subscriber, view, words, console, clock, stop)
        else:
            _print_news(subscriber, view, words, console, stop)


def catch_up(subscriber: Subscriber, view: SubscriberView) -> None:
    """Read at least the last complete tick. Start further back if the latest records are not answers."""
    more = True
    while more and view.empty:
        more = subscriber.begin()
        fold(view, subscriber.read_to_end())


def look_back(subscriber: Subscriber, view: SubscriberView, parameters: Parameters) -> None:
    """Find the latest hot spots and dwell times in the last week. The slot grid determines the ticks to search."""
    for monitor in parameters.totals:
        if view.tick is not None and monitor.name not in _known_totals(view):
            _find_total(subscriber, view, monitor, parameters.grid)


def _known_totals(view: SubscriberView) -> set[str]:
    """Return the monitors whose hot spots or dwell times are known."""
    return {spots.monitor for spots in view.hot_spots} | {dwell.monitor for dwell in view.dwell}


def _find_total(subscriber: Subscriber, view: SubscriberView, monitor: Total, grid: SlotGrid) -> None:
    for tick in final_ticks(monitor, grid, view.tick or 0)[-1 : -1 - _ATTEMPTS : -1]:
        records = subscriber.read_tick(grid.as_of(tick) // MILLISECOND)
        fold(view, (record for record in records if dict(record.headers).get("ce_type") in _TOTALS))
        if monitor.name in _known_totals(view):
            return


def final_ticks(monitor: Total, grid: SlotGrid, until: int) -> list[int]:
    """Return the ticks that publish hot spots or dwell times in the week up to tick `until`, in order."""
    end = grid.as_of(until + 1) - monitor.horizon
    times = monitor.times.between(end - _LOOK_BACK, end)
    return sorted({grid.last_tick_until(int(time) + monitor.horizon) for time in times})


def fold(view: SubscriberView, records: Iterable[Published]) -> list[Change]:
    """Add records to the view, and return the changes."""
    changes = (view.add(record.headers, record.value) for record in records)
    return [change for change in changes if change is not None]


def _print_news(
    subscriber: Subscriber, view: SubscriberView, words: Words, console: Console, stop: threading.Event
) -> None:
    news = News(words)
    while not stop.is_set():
        for line in news.lines(view, fold(view, subscriber.poll())):
            console.print(f"{view.as_of} {line.text}", highlight=False, markup=False, soft_wrap=True)


def _show(
    subscriber: Subscriber,
    view: SubscriberView,
    words: Words,
    console: Console,
    clock: Clock,
    stop: threading.Event,
) -> None:
    news, latest = News(words), deque[NewsLine](maxlen=_NEWS)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while not stop.is_set():
            live.update(Screen(view, words, clock.now(), list(latest)), refresh=True)
            latest.extend(news.lines(view, fold(view, subscriber.poll())))
