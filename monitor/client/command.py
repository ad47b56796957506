"""`location-monitor watch`: a live table on a terminal, lines of news otherwise."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.live import Live

from monitor.client.subscriber import Published, Subscriber
from monitor.client.subscriber_view import Change, SubscriberView
from monitor.client.view import Screen, lines
from monitor.client.words import News, NewsLine, Words
from monitor.contracts.alerts import HOT_SPOTS
from monitor.public.clock import Clock, SystemClock
from monitor.public.instants import DAY, MILLISECOND
from monitor.public.parameters import HotSpots, Parameters
from monitor.public.slot_grid import SlotGrid
from monitor.run import stop_on_signals
from monitor.service import Settings

_NEWS: Final = 5
_LOOK_BACK: Final = 7 * DAY
_TRIED: Final = 3  # designated times about which nothing was published: the service was away


def watch_command(settings: Settings, console: Console, *, once: bool) -> None:
    """Show what is known now, and with `once` end there; otherwise go on until a signal comes.

    Raises:
        TopicError: there is no topic of alerts.
        UnreachableError: Kafka cannot be used.
    """
    stop = threading.Event()
    with stop_on_signals(stop, lambda _text: None):
        watch(settings, console, SystemClock(), stop, once=once)


def watch(settings: Settings, console: Console, clock: Clock, stop: threading.Event, *, once: bool) -> None:
    """As `watch_command`, until `stop` is set."""
    subscriber_view = SubscriberView(settings.parameters.registry)
    words = Words(settings.parameters.grid)
    topic = settings.config.kafka.topics.alerts
    with Subscriber(settings.kafka, topic, settings.parameters.grid.length // MILLISECOND) as subscriber:
        catch_up(subscriber, subscriber_view)
        look_back(subscriber, subscriber_view, settings.parameters)
        if once or not console.is_terminal:
            for line in lines(subscriber_view, words, clock.now()):
                console.print(line, highlight=False, markup=False, soft_wrap=True)
        if once:
            return
        if console.is_terminal:
            _show(subscriber, subscriber_view, words, console, clock, stop)
        else:
            _tell(subscriber, subscriber_view, words, console, stop)


def catch_up(subscriber: Subscriber, subscriber_view: SubscriberView) -> None:
    """Read one whole last tick at least: further back where the latest records are no answers."""
    more = True
    while more and subscriber_view.empty:
        more = subscriber.begin()
        fold(subscriber_view, subscriber.present())


def look_back(subscriber: Subscriber, subscriber_view: SubscriberView, parameters: Parameters) -> None:
    """Find the hot spots that were drawn last, within a week: which tick published them follows from the clock."""
    for monitor in parameters.hot_spots:
        known = (drawn.monitor for drawn in subscriber_view.hot_spots)
        if subscriber_view.tick is not None and monitor.name not in known:
            _find(subscriber, subscriber_view, monitor, parameters.grid)


def _find(subscriber: Subscriber, subscriber_view: SubscriberView, monitor: HotSpots, grid: SlotGrid) -> None:
    for tick in final_ticks(monitor, grid, subscriber_view.tick or 0)[-1 : -1 - _TRIED : -1]:
        records = subscriber.at(grid.as_of(tick) // MILLISECOND)
        fold(subscriber_view, (one for one in records if dict(one.headers).get("ce_type") == HOT_SPOTS.encode()))
        if any(drawn.monitor == monitor.name for drawn in subscriber_view.hot_spots):
            return


def final_ticks(monitor: HotSpots, grid: SlotGrid, until: int) -> list[int]:
    """The ticks up to `until` that publish hot spots of the week before, in order."""
    end = grid.as_of(until + 1) - monitor.horizon
    times = monitor.times.between(end - _LOOK_BACK, end)
    return sorted({grid.last_tick_until(int(time) + monitor.horizon) for time in times})


def fold(subscriber_view: SubscriberView, records: Iterable[Published]) -> list[Change]:
    """Take in records; returns what they change."""
    changes = (subscriber_view.add(record.headers, record.value) for record in records)
    return [change for change in changes if change is not None]


def _tell(
    subscriber: Subscriber, subscriber_view: SubscriberView, words: Words, console: Console, stop: threading.Event
) -> None:
    news = News(words)
    while not stop.is_set():
        for line in news.of(subscriber_view, fold(subscriber_view, subscriber.poll())):
            console.print(f"{subscriber_view.as_of} {line.text}", highlight=False, markup=False, soft_wrap=True)


def _show(
    subscriber: Subscriber,
    subscriber_view: SubscriberView,
    words: Words,
    console: Console,
    clock: Clock,
    stop: threading.Event,
) -> None:
    news, latest = News(words), deque[NewsLine](maxlen=_NEWS)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while not stop.is_set():
            live.update(Screen(subscriber_view, words, clock.now(), list(latest)), refresh=True)
            latest.extend(news.of(subscriber_view, fold(subscriber_view, subscriber.poll())))
