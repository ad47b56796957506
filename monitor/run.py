"""`location-monitor run`: starts the service, and starts it anew whenever the world it was made for has changed."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from monitor.brokers.topic_watch import TopicWatch
from monitor.brokers.topics import TopicNeeds, needs
from monitor.errors import ClockError, FailedError, MonitorError, TopicError
from monitor.operate.health import Endpoint, Health
from monitor.operate.metrics import Metrics
from monitor.operate.preflight import Preflight, check_past_charges, run_preflight
from monitor.public.clock import Clock
from monitor.public.instants import format_duration, format_instant
from monitor.service import Service, Settings, redis_windows, secure_noise
from monitor.windows.facts import Question, Windows

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
TURN_SECONDS: Final = 1.0
TOPICS_SECONDS: Final = 60.0
"""How often the topics' settings are looked at while the service runs."""


def prepare(settings: Settings, clock: Clock) -> Preflight:
    """Look at the servers: topics, ledger, what a person may have paid already.

    Raises:
        RefusedError: what was found must be mended first.
        UnreachableError: the servers can't be looked at now.
    """
    config, parameters = settings.config, settings.parameters
    wanted = wanted_topics(settings, clock)
    found = run_preflight(settings.kafka, parameters, wanted, config.kafka.topics.alerts, clock.now)
    tick = parameters.grid.slot_of(clock.now()) - 1  # the last one that closed may still be decided
    check_past_charges(parameters, found.states, config.privacy.epsilon, settings.worst, tick)
    return found


def wanted_topics(settings: Settings, clock: Clock) -> tuple[TopicNeeds, ...]:
    """What the topics must be like."""
    return needs(settings.parameters, settings.config.kafka, simulated=clock.simulated)


def check_clock(windows: Windows, clock: Clock, tolerance: int) -> None:
    """See that this machine's clock agrees with the store's: what is whole from when on is reckoned by it.

    Raises:
        ClockError: they differ by more than `tolerance` (microseconds). Right clocks may yet come.
    """
    if clock.simulated:
        return
    before = clock.now()
    told = windows.read({0: Question()})[0].time
    after = clock.now()
    if not before - tolerance <= told <= after + tolerance:
        raise ClockError(
            f"by this machine's clock it is {format_instant(after)}, by that of Redis {format_instant(told)}: expected "
            f"clock.tolerance ({format_duration(tolerance)}) between them at most. See that both keep time (NTP)"
        )


def run(settings: Settings, clock: Clock, stop: threading.Event) -> None:
    """Run until told to stop. Servers that are away are waited for: alive, and not ready.

    Raises:
        RefusedError: what was found on the servers must be mended first.
        UsageError: the metrics' port cannot be had.
    """
    metrics, health = Metrics(), Health()
    endpoint = Endpoint(settings.config.metrics.port, metrics.registry, health)
    log.info("metrics and health on port %d", endpoint.port)
    pause = FIRST_PAUSE_SECONDS
    ran = threading.Event()
    try:
        while not stop.is_set():
            try:
                _run_once(settings, clock, metrics, health, stop, ran)
                pause = FIRST_PAUSE_SECONDS
            except (FailedError, TopicError) as error:
                # A topic that is wrong at start is for the operator; one that goes away later may come back.
                if isinstance(error, TopicError) and not ran.is_set():
                    raise
                log.warning("starting again in %.0f s: %s", pause, error)
                health.report_alive("service", str(error))
                stop.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
    finally:
        endpoint.close()


def _run_once(
    settings: Settings,
    clock: Clock,
    metrics: Metrics,
    health: Health,
    stop: threading.Event,
    ran: threading.Event,
) -> None:
    health.report_alive("service", "looking at the servers")
    found = prepare(settings, clock)
    windows = redis_windows(settings, found, clock)
    try:
        windows.check()
        check_clock(windows, clock, settings.parameters.tolerance)
        service = Service(settings, found, windows, clock, secure_noise(), metrics, health)
        try:
            service.start()
            ran.set()
            log.info("%s runs: %d locations", settings.parameters.name, len(settings.parameters.registry.ids))
            watch = TopicWatch(settings.kafka, wanted_topics(settings, clock), TOPICS_SECONDS, time.monotonic)
            while not stop.is_set() and not service.ended.wait(TURN_SECONDS):
                health.report_alive("service")
                watch.look()
        finally:
            service.stop()
    finally:
        windows.close()
    _raise(service.failure)


def _raise(failure: BaseException | None) -> None:
    if failure is not None:
        raise failure if isinstance(failure, MonitorError) else FailedError(repr(failure)) from failure


@contextmanager
def stop_on_signals(stop: threading.Event, said: Callable[[str], None]) -> Iterator[None]:
    """Set `stop` at SIGTERM and SIGINT; a second one ends the process as usual."""

    def handle(number: int, _frame: FrameType | None) -> None:
        said(f"{signal.Signals(number).name}: finishing what is under way")
        stop.set()
        for each, handler in before.items():
            signal.signal(each, handler)

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    for each in before:
        signal.signal(each, handle)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
