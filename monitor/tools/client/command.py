"""`location-monitor watch`: shows a live table if the output is a terminal, and otherwise prints changes as lines."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from rich.console import Console
from rich.live import Live

from monitor.config import ValidConfig
from monitor.contracts.clock import Clock, SystemClock
from monitor.contracts.instants import DAY
from monitor.contracts.parameters import Parameters, Total
from monitor.contracts.slot_grid import SlotGrid
from monitor.service.run import stop_on_signals
from monitor.service.service import build_kafka_connections
from monitor.tools.client.places import Places, open_places
from monitor.tools.client.screen import Screen, describe_view
from monitor.tools.client.subscriber_view import SubscriberView
from monitor.tools.client.words import News, NewsLine, Words

_NEWS: Final = 5
_LOOK_BACK: Final = 7 * DAY
_ATTEMPTS: Final = 3  # designated times to try, because the service may have been down at the latest ones


def watch_command(valid: ValidConfig, console: Console, *, once: bool) -> None:
    """Show the current state, and follow the alerts until a signal arrives; with `once` show the current state only.

    Raises:
        ConfigError: the password file or a certificate file of Kafka is wrong.
        TopicError: the output topic does not exist.
        UnreachableError: Kafka does not answer.
    """
    stop = threading.Event()
    with stop_on_signals(stop, lambda _text: None):
        watch(valid, console, SystemClock(), stop, once=once)


def watch(valid: ValidConfig, console: Console, clock: Clock, stop: threading.Event, *, once: bool) -> None:
    """Do what `watch_command` does, until `stop` is set."""
    parameters, topic = valid.parameters, valid.config.kafka.topics.alerts
    registry, slot, timed = parameters.registry, parameters.grid.length, bool(parameters.timed)
    words, connections = Words(parameters.grid), build_kafka_connections(valid.config)
    with open_places(connections, topic, registry, slot, clock, timed=timed) as places:
        look_back(places, parameters)
        if once or not console.is_terminal:
            for line in describe_view(places.view, words, places.now()):
                console.print(line, highlight=False, markup=False, soft_wrap=True)
        if once:
            return
        if console.is_terminal:
            _show(places, words, console, stop)
        else:
            _print_news(places, words, console, stop)


def look_back(places: Places, parameters: Parameters) -> None:
    """Find the latest hot spots and dwell times of the last week. The slot grid determines the ticks to search."""
    for monitor in parameters.totals:
        if places.view.tick is not None and monitor.name not in _known_totals(places.view):
            _find_total(places, monitor, parameters.grid)


def _known_totals(view: SubscriberView) -> set[str]:
    """Return the monitors whose hot spots or dwell times are known."""
    return {spots.monitor for spots in view.hot_spots} | {dwell.monitor for dwell in view.dwell}


def _find_total(places: Places, monitor: Total, grid: SlotGrid) -> None:
    for tick in list_final_ticks(monitor, grid, places.view.tick or 0)[-1 : -1 - _ATTEMPTS : -1]:
        places.read_totals(grid.as_of(tick))
        if monitor.name in _known_totals(places.view):
            return


def list_final_ticks(monitor: Total, grid: SlotGrid, until: int) -> list[int]:
    """Return the ticks that publish hot spots or dwell times in the week up to tick `until`, in order."""
    end = grid.as_of(until + 1) - monitor.horizon
    times = monitor.times.find_between(end - _LOOK_BACK, end)
    return sorted({grid.find_last_tick(int(time) + monitor.horizon) for time in times})


def _print_news(places: Places, words: Words, console: Console, stop: threading.Event) -> None:
    news = News(words)
    while not stop.is_set():
        for line in news.lines(places.view, places.poll()):
            console.print(f"{places.view.as_of} {line.text}", highlight=False, markup=False, soft_wrap=True)


def _show(places: Places, words: Words, console: Console, stop: threading.Event) -> None:
    news, latest = News(words), deque[NewsLine](maxlen=_NEWS)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while not stop.is_set():
            live.update(Screen(places.view, words, places.now(), list(latest)), refresh=True)
            latest.extend(news.lines(places.view, places.poll()))
