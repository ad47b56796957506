"""`location-monitor run`: start the service, and start it again after a failure or when a topic has changed."""

from __future__ import annotations

import gc
import logging
import threading
import time
from typing import Final

from monitor.errors import ClockError, FailedError, MonitorError, TopicError
from monitor.kafka.topics import TopicWatch
from monitor.observe.health import Endpoint, Health
from monitor.observe.update_service_metrics import Metrics
from monitor.service.preflight import Preflight, check_past_charges, run_preflight
from monitor.service.wiring import Service, Settings, create_noise, create_store
from monitor.store.redis_store import RedisStore
from monitor.time.clock import Clock
from monitor.time.instants import SECOND, format_duration, format_instant

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
TURN_SECONDS: Final = 1.0
TOPICS_SECONDS: Final = 60.0
"""The interval between checks of the topics' settings while the service runs."""


def prepare(settings: Settings, clock: Clock) -> Preflight:
    """Check the topics, the ledger, and what a person may have paid already.

    Raises:
        RefusedError: the operator must first correct something on the servers.
        UnreachableError: a server does not answer.
    """
    config, parameters = settings.config, settings.parameters
    preflight = run_preflight(settings.kafka, parameters, settings.needs, clock.now)
    tick = parameters.grid.find_slot(clock.now()) - 1  # the last closed tick may still be decided
    check_past_charges(parameters, preflight.states, config.privacy.epsilon, settings.worst, tick)
    return preflight


def check_clock(store: RedisStore, clock: Clock, tolerance: int) -> None:
    """Check that the clocks of this machine and of Redis agree.

    This machine's clock decides when answers are published, and Redis's clock decides when ticks close.

    Raises:
        ClockError: the clocks differ by more than `tolerance` (microseconds). `run` then tries again.
    """
    before = clock.now()
    redis_time = store.time()
    after = clock.now()
    if not before - tolerance <= redis_time <= after + tolerance:
        raise ClockError(
            f"this machine's clock shows {format_instant(after)}, Redis's clock shows {format_instant(redis_time)}: "
            f"expected a difference of at most clock.tolerance ({format_duration(tolerance)}). Synchronize both clocks "
            "(NTP)"
        )


def run(settings: Settings, clock: Clock, stop: threading.Event) -> None:
    """Run the service until `stop` is set, and serve its metrics and its health on a port.

    Raises:
        RefusedError: the operator must first correct something on the servers.
        UsageError: the metrics port cannot be opened.
    """
    gc.freeze()  # the objects of the start stay, so Python does not look for cycles among them
    metrics, health = Metrics(), Health()
    address = settings.config.metrics
    endpoint = Endpoint(address.host, address.port, metrics.registry, health)
    log.info("metrics and health on port %d", endpoint.port)
    try:
        run_with(settings, clock, metrics, health, stop)
    finally:
        endpoint.close()


def run_with(settings: Settings, clock: Clock, metrics: Metrics, health: Health, stop: threading.Event) -> None:
    """Run the service until `stop` is set. While a server is unreachable, the service is alive but not ready.

    Raises:
        RefusedError: the operator must first correct something on the servers.
    """
    _describe(settings, metrics)
    metrics.watch_readiness(lambda: not health.list_waiting())
    pause = FIRST_PAUSE_SECONDS
    ran = threading.Event()
    while not stop.is_set():
        try:
            _run_once(settings, clock, metrics, health, stop, ran)
            pause = FIRST_PAUSE_SECONDS
        except (FailedError, TopicError) as error:
            # If a topic is wrong at the start, the operator must correct it. A topic that disappears later may come
            # back.
            if isinstance(error, TopicError) and not ran.is_set():
                raise
            log.warning("starting again in %.0f s: %s", pause, error)
            health.report_alive("service", str(error))
            stop.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _describe(settings: Settings, metrics: Metrics) -> None:
    """Set the metrics that depend only on the configuration."""
    parameters = settings.parameters
    metrics.describe_configuration(
        parameters.grid.length / SECOND,
        parameters.release_delay / SECOND,
        (settings.config.privacy.epsilon, settings.worst),
        {monitor.name: monitor.statuses for monitor in parameters.monitors},
    )


def _describe_instance(settings: Settings, preflight: Preflight, metrics: Metrics) -> None:
    """Log and export what the instances of a service must have in common."""
    configuration, key = settings.compute_version(preflight), settings.hasher.key_tag
    store = settings.config.redis.address
    log.info("configuration %s, person key with tag %s, %s", configuration, key, store)
    metrics.describe_instance(configuration, key, store)


def _run_once(
    settings: Settings,
    clock: Clock,
    metrics: Metrics,
    health: Health,
    stop: threading.Event,
    ran: threading.Event,
) -> None:
    health.report_alive("service", "checking the servers")
    preflight = prepare(settings, clock)
    store = create_store(settings, preflight)
    try:
        store.check()
        check_clock(store, clock, settings.parameters.tolerance)
        _describe_instance(settings, preflight, metrics)
        service = Service(settings, preflight, store, clock, create_noise(), metrics, health)
        try:
            service.start()
            ran.set()
            log.info("%s runs: %d locations", settings.parameters.name, len(settings.parameters.registry.ids))
            watch = TopicWatch(settings.kafka, settings.needs, TOPICS_SECONDS, time.monotonic)
            while not stop.is_set() and not service.ended.wait(TURN_SECONDS):
                health.report_alive("service")
                watch.look()
        finally:
            service.stop()
    finally:
        store.close()
    _raise(service.failure)


def _raise(failure: BaseException | None) -> None:
    """Raise the error with which a thread of the service ended. The text of an unexpected error is left out."""
    if failure is None:
        return
    if isinstance(failure, MonitorError):
        raise failure
    raise FailedError(
        f"a thread ended with an unexpected error ({type(failure).__name__}): the log says where"
    ) from failure
