"""`location-monitor watch`: a live table on a terminal, lines of news otherwise."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.live import Live

from monitor.clock import Clock, SystemClock
from monitor.run import stopped_by_signals
from monitor.service import Settings
from monitor.times import MILLISECOND
from monitor.watch.knowledge import Change, Knowledge
from monitor.watch.subscriber import Published, Subscriber
from monitor.watch.view import Screen, lines
from monitor.watch.words import News, NewsLine, Words

_NEWS: Final = 5


def watch_command(settings: Settings, console: Console, *, once: bool) -> None:
    """Show what is known now, and with `once` end there; otherwise go on until a signal comes.

    Raises:
        TopicError: there is no topic of alerts.
        UnreachableError: Kafka cannot be used.
    """
    stop = threading.Event()
    with stopped_by_signals(stop, lambda _text: None):
        watch(settings, console, SystemClock(), stop, once=once)


def watch(settings: Settings, console: Console, clock: Clock, stop: threading.Event, *, once: bool) -> None:
    """As `watch_command`, until `stop` is set."""
    knowledge = Knowledge(settings.scheme.registry)
    words = Words(settings.scheme.slots)
    topic = settings.config.kafka.topics.alerts
    with Subscriber(settings.kafka, topic, settings.scheme.slots.length // MILLISECOND) as subscriber:
        catch_up(subscriber, knowledge)
        if once or not console.is_terminal:
            for line in lines(knowledge, words, clock.now()):
                console.print(line, highlight=False, markup=False, soft_wrap=True)
        if once:
            return
        if console.is_terminal:
            _show(subscriber, knowledge, words, console, clock, stop)
        else:
            _tell(subscriber, knowledge, words, console, stop)


def catch_up(subscriber: Subscriber, knowledge: Knowledge) -> None:
    """Read one whole last tick at least: further back where the latest records are no answers."""
    more = True
    while more and knowledge.empty:
        more = subscriber.begin()
        fold(knowledge, subscriber.present())


def fold(knowledge: Knowledge, records: Iterable[Published]) -> list[Change]:
    """Take in records; returns what they change."""
    changes = (knowledge.add(record.headers, record.value) for record in records)
    return [change for change in changes if change is not None]


def _tell(subscriber: Subscriber, knowledge: Knowledge, words: Words, console: Console, stop: threading.Event) -> None:
    news = News(words)
    while not stop.is_set():
        for line in news.of(knowledge, fold(knowledge, subscriber.poll())):
            console.print(f"{knowledge.as_of} {line.text}", highlight=False, markup=False, soft_wrap=True)


def _show(
    subscriber: Subscriber,
    knowledge: Knowledge,
    words: Words,
    console: Console,
    clock: Clock,
    stop: threading.Event,
) -> None:
    news, latest = News(words), deque[NewsLine](maxlen=_NEWS)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while not stop.is_set():
            live.update(Screen(knowledge, words, clock.now(), list(latest)), refresh=True)
            latest.extend(news.of(knowledge, fold(knowledge, subscriber.poll())))
