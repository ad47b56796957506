"""The service under a steady load: memory over time, a Redis that stops answering, and a country at its real rate."""

from __future__ import annotations

import signal
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from monitor.public.clock import SystemClock
from simulators.bench.bench import Bench
from simulators.bench.line import Measured, Target
from simulators.bench.site import Crowd, Layout, Producer, Running, Site, wait_for

_MIB: Final = 2**20
_GROWTH: Final = "memory in the last quarter, in units of the second quarter"
_STOPPED: Final = "peak memory while Redis does not answer, in units of before"
_STALLS: Final = "ticks that no instance decided"
_LAG: Final = "lag after the last record (records)"
_POOL_VISITS: Final = 300_000
_POOL_SECONDS: Final = 30.0
_PER_RECORD: Final = 500
_QUICK_RATE: Final = 1_000.0


@dataclass
class Samples:
    """Samples over time: seconds since the start, memory in MiB, and records not yet read.

    `ticks` has, for each sample with new ticks, the time of the sample and the mean duration of the ticks, in seconds.
    """

    seconds: list[float] = field(default_factory=list)
    mebibytes: list[float] = field(default_factory=list)
    lag: list[float] = field(default_factory=list)
    ticks: list[tuple[float, float]] = field(default_factory=list)
    processor_seconds: float = 0.0
    stored_visits: float = 0.0

    def quarter(self, number: int) -> float:
        """Return the median memory of a quarter (0 to 3) in MiB."""
        size = len(self.mebibytes)
        return statistics.median(self.mebibytes[number * size // 4 : (number + 1) * size // 4])

    @property
    def processors(self) -> float:
        """The mean number of processors that the service used."""
        return self.processor_seconds / (self.seconds[-1] - self.seconds[0])

    @property
    def stored_per_second(self) -> float:
        """The mean number of visits per second that were stored."""
        return self.stored_visits / (self.seconds[-1] - self.seconds[0])


def watch(running: Running, seconds: float, every: float = 0.5) -> Samples:
    """Sample the metrics of a running service for a number of seconds, once per `every` seconds."""
    samples, began = Samples(), time.monotonic()
    first = before = running.sample()
    while (now := time.monotonic() - began) < seconds or len(samples.seconds) < 4:  # noqa: PLR2004  # four quarters
        sample = running.sample()
        samples.seconds.append(now)
        samples.mebibytes.append(sample.total("process_resident_memory_bytes") / _MIB)
        samples.lag.append(sample.total("consumer_lag_records"))
        decided = sample.total("tick_seconds_count") - before.total("tick_seconds_count")
        if decided:
            spent = sample.total("tick_seconds_sum") - before.total("tick_seconds_sum")
            samples.ticks.append((now, spent / decided))
        before = sample
        time.sleep(every)
    samples.stored_visits = before.stored_visits - first.stored_visits
    samples.processor_seconds = before.total("process_cpu_seconds_total") - first.total("process_cpu_seconds_total")
    return samples


@contextmanager
def send_visits(
    site: Site, producer: Producer, visits_per_second: float, per_record: int = _PER_RECORD
) -> Iterator[None]:
    """Send visits at a rate while the block runs. They are taken repeatedly from a pool, which is replaced every 30 s.

    A window ignores visits that are too old, so an old pool would be no load.
    """
    draw = np.random.default_rng(7)
    crowd = Crowd(100_000, site.layout.places)
    size = min(_POOL_VISITS, int(60 * visits_per_second))
    stop = threading.Event()

    def produce() -> None:
        began, sent, pool, replaced = time.monotonic(), 0, list[bytes](), 0.0
        while not stop.wait(0.02):
            seconds = time.monotonic() - began
            if not pool or seconds - replaced > _POOL_SECONDS:
                pool, replaced = crowd.make_records(draw, size, per_record, SystemClock().now()), seconds
            due = int(seconds * visits_per_second / per_record)
            producer.send([pool[number % len(pool)] for number in range(sent, due)])
            sent = due

    thread = threading.Thread(target=produce, name="load", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def measure_top_rate(site: Site, running: Running, producer: Producer, visits: int) -> float:
    """Return the visits/s at which one process reads a backlog that was produced while it was stopped."""
    records = Crowd(100_000, site.layout.places).make_records(
        np.random.default_rng(8), visits, _PER_RECORD, SystemClock().now()
    )
    before = running.sample().total("visits_total")
    running.send(signal.SIGSTOP)
    producer.send(records)
    began = time.perf_counter()
    running.send(signal.SIGCONT)
    wait_for(lambda: running.sample().total("visits_total") >= before + visits, "the backlog is read")
    return visits / (time.perf_counter() - began)


class MemoryLine:
    """Resident memory at half the top rate, then while Redis does not answer."""

    name = "memory"
    work = "memory of one process at half its top rate, then with Redis stopped for a while"
    goal = "flat over time (30 minutes with --long); a Redis that stops gives lag, never growth"
    targets = (Target(_GROWTH, most=1.05), Target(_STOPPED, most=1.25))

    def measure(self, bench: Bench) -> Measured:
        """Find the top rate, load the service at half of it, and stop Redis at the end."""
        layout = Layout(slot="5s", window="10m", outputs=1, watched=1_000, places=1_000)
        with bench.valkey() as valkey:
            site = Site(bench.folder("memory"), "memory", (bench.kafka.bootstrap_servers, valkey.url), layout)
            site.create()
            with site.run() as running, site.open_producer() as producer:
                running.wait_ready()
                top = measure_top_rate(site, running, producer, bench.scale(1_000_000, 5_000))
                with send_visits(site, producer, bench.scale(top / 2, min(top / 2, _QUICK_RATE))):
                    samples = watch(running, bench.scale_seconds(90, 1_800, 2))
                    valkey.pause()
                    try:
                        stopped = watch(running, bench.scale_seconds(10, 30, 1))
                    finally:
                        valkey.resume()
                began = time.monotonic()
                wait_for(lambda: running.sample().total("consumer_lag_records") == 0, "the lag is read")
        return Measured(
            {
                "half the top rate (visits/s)": top / 2,
                "stored (visits/s)": samples.stored_per_second,
                "processors used": samples.processors,
                "memory (MiB)": samples.quarter(3),
                _GROWTH: samples.quarter(3) / samples.quarter(1),
                "highest lag with Redis stopped (records)": max(stopped.lag),
                _STOPPED: max(stopped.mebibytes) / max(samples.mebibytes),
                "caught up after (s)": time.monotonic() - began,
            },
        )


class CountryLine:
    """A country in a wave, at its real rate."""

    name = "country"
    work = "a country at its real rate: {places:,} places, {watched:,} of them watched, {visits:,} visits per hour"
    goal = "no tick is lost, and reading keeps up; lag, time of a tick and memory are shown"
    targets = (Target(_STALLS, most=0), Target(_LAG, most=0))

    PLACES: Final = 10_000_000
    WATCHED: Final = 100_000
    VISITS_PER_HOUR: Final = 5_000_000

    def __init__(self) -> None:
        self.work = self.work.format(places=self.PLACES, watched=self.WATCHED, visits=self.VISITS_PER_HOUR)

    def measure(self, bench: Bench) -> Measured:
        """Run the country for a while, with 100 visits per record."""
        places, watched = bench.scale((self.PLACES, self.WATCHED), (2_000, 200))
        rate = bench.scale(self.VISITS_PER_HOUR / 3_600, 200.0)
        slot, delay = bench.scale(("1m", "20s"), ("1s", "300ms"))
        layout = Layout(
            places, watched, slot, window="14d", release_delay=delay, outputs=1, shards=bench.scale(1_024, 16)
        )
        with bench.valkey() as valkey:
            site = Site(bench.folder("country"), "country", (bench.kafka.bootstrap_servers, valkey.url), layout)
            site.create()
            began = time.monotonic()
            with site.run() as running, site.open_producer() as producer:
                wait_for(lambda: all(running.get("/readyz")), "the country is ready", 400)
                started = time.monotonic() - began
                with send_visits(site, producer, rate, 100):
                    samples = watch(running, bench.scale_seconds(90, 600, 3), every=1.0)
                last = watch(running, bench.scale_seconds(5, 5, 1))
                lost = running.sample().total("lost_ticks_total")
        figures = _country_figures(samples)
        ends = {_STALLS: lost if samples.ticks else float("nan"), _LAG: last.lag[-1]}
        return Measured({"from the start to ready (s)": started, **figures, **ends})


def _country_figures(samples: Samples) -> dict[str, float]:
    return {
        "median lag (records)": statistics.median(samples.lag),
        "highest lag (records)": max(samples.lag),
        "longest tick (s)": max((seconds for _, seconds in samples.ticks), default=float("nan")),
        "highest memory (MiB)": max(samples.mebibytes),
        "processors used": samples.processors,
        "ticks decided": float(len(samples.ticks)),
    }


LINES: Final = (MemoryLine(), CountryLine())
