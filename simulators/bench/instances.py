"""Several instances on one host: their shares, the cost of a rebalance, the recount, and the takeover after kill -9."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import numpy as np
from kafka import TopicPartition

from monitor.errors import FailedError
from monitor.public.clock import SystemClock
from simulators.bench.bench import Bench
from simulators.bench.line import Measured, Target
from simulators.bench.site import Crowd, Layout, Running, Site, wait_for, wait_untimed

_ARRIVING: Final = 10
_PAUSE_SECONDS: Final = 0.1
"""While an instance joins, `_ARRIVING` records arrive after each pause."""

_UNEVEN: Final = "largest share, in units of an even share"
_REWORK: Final = "rework of a rebalance, in batches"
WRONG: Final = "runs with an answer that the recount refutes"
"""The figure that must be 0 at every scale."""
_TAKEOVER: Final = "kill -9 to the next decided tick, beyond the session timeout (s)"


class InstancesLine:
    """A backlog that one, two and four instances read, each time with a rebalance in the middle."""

    name = "instances"
    work = "1, 2 and 4 instances read a backlog, every visit stored, 500 visits per record"
    goal = "even shares; throughput shown; a rebalance costs less than one batch; the recount finds the same answers"
    targets = (Target(_UNEVEN, most=1.25), Target(_REWORK, most=1), Target(WRONG, most=0))

    def measure(self, bench: Bench) -> Measured:
        """Run each number of instances on separate topics."""
        figures: dict[str, float] = {_UNEVEN: 0.0, _REWORK: 0.0, WRONG: 0.0}
        counts = bench.scale((1, 2, 4), (2,))
        for count in counts:
            with bench.valkey() as valkey:
                servers = (bench.kafka.bootstrap_servers, valkey.url)
                found = measure_instances(bench, count, f"instances-{count}", servers)
            figures[f"{count} instances (visits/s)"] = found["rate"]
            figures[_UNEVEN] = max(figures[_UNEVEN], found["uneven"])
            figures[_REWORK] = max(figures[_REWORK], found["rework"])
            figures[WRONG] += found["wrong"]
        return Measured(figures)


def measure_instances(
    bench: Bench, count: int, name: str, servers: tuple[str, str], *, replicas: int | None = None, cluster: bool = False
) -> dict[str, float]:
    """Read a backlog with a number of instances, then one with a rebalance, and recount all answers.

    Returns:
        `rate` in visits/s, the largest share in units of an even share as `uneven`, the visits read twice in units of
        a batch as `rework`, and 1 as `wrong` if the recount refutes an answer.
    """
    visits, per_record = bench.scale((400_000, 500), (400, 10))
    slot, delay = bench.scale(("5s", "1s"), ("1s", "300ms"))
    layout = Layout(
        slot=slot,
        release_delay=delay,
        inputs=bench.scale(8, 4),
        outputs=bench.scale(4, 2),
        watched=bench.scale(1_000, 50),
        places=bench.scale(1_000, 50),
        replicas=replicas,
        cluster=cluster,
    )
    site = Site(bench.folder(name), name, servers, layout)
    site.create()
    crowd = Crowd(100_000, layout.places)
    records = crowd.make_records(np.random.default_rng(7), visits, per_record, SystemClock().now())
    with site.run(count) as running:
        _wait_for_shares(running, layout, count)
        seconds, shares = _read_backlog(site, running, records, visits)
        rework = _measure_rebalance(site, running, records, per_record)
        _wait_for_ticks(running, layout)
    wrong = site.audit()
    if wrong:
        bench.report(f"{name}: {wrong}")
    return {
        "rate": visits / seconds,
        "uneven": max(shares) * count / sum(shares),
        "rework": rework,
        "wrong": float(bool(wrong)),
    }


def _wait_for_shares(running: Running, layout: Layout, count: int) -> None:
    """Wait until each instance reads, and all input and ledger partitions are assigned."""
    running.wait_ready()

    def is_shared() -> bool:
        pages = [page.splitlines() for page in running.get("/metrics")]
        read = [sum(line.startswith("location_monitor_consumer_lag_records{") for line in page) for page in pages]
        owned = [sum(line.startswith("location_monitor_last_tick_timestamp") for line in page) for page in pages]
        return sum(read) == layout.inputs and sum(owned) >= layout.outputs and all(read) and len(pages) == count

    wait_untimed(is_shared, f"{count} instances share all partitions")


def _count_visits(running: Running) -> float:
    return running.sample().total("visits_total")


def _read_backlog(site: Site, running: Running, records: list[bytes], visits: int) -> tuple[float, list[float]]:
    """Produce records while the instances are stopped. Return the seconds of reading, and the visits per instance."""
    before = running.sample()
    wanted = before.total("visits_total") + visits
    running.send(signal.SIGSTOP)
    try:
        with site.open_producer() as producer:
            producer.send(records)
    finally:
        began = time.perf_counter()
        running.send(signal.SIGCONT)
    wait_for(lambda: _count_visits(running) >= wanted, "the backlog is read")
    seconds = time.perf_counter() - began
    after = running.sample()
    earlier, later = before.of_processes("visits_total"), after.of_processes("visits_total")
    return seconds, [value - earlier.get(instance, 0.0) for instance, value in later.items()]


def _measure_rebalance(site: Site, running: Running, records: list[bytes], per_record: int) -> float:
    """Start another instance while visits arrive. Return the visits read twice, in units of a batch."""
    before, sent = running.sample().total("visits_total"), 0
    with site.open_producer() as producer, site.run() as other:
        while "consumer_lag_records{" not in other.get("/metrics")[0]:
            chosen = [records[number % len(records)] for number in range(sent, sent + _ARRIVING)]
            producer.send(chosen)
            sent += len(chosen)
            time.sleep(_PAUSE_SECONDS)
        producer.send(records)
        wanted = before + (sent + len(records)) * per_record
        wait_untimed(lambda: _count_visits(running) + _count_visits(other) >= wanted, "the visits are read")
        wait_untimed(lambda: _is_read(running) and _is_read(other), "no lag is left")
        both = [running.sample(), other.sample()]
    visits = sum(sample.total("visits_total") for sample in both)
    batches = sum(sample.total("ingest_batch_seconds_count") for sample in both)
    return (visits - wanted) / (visits / batches)


def _is_read(running: Running) -> bool:
    return running.sample().total("consumer_lag_records") == 0


def _wait_for_ticks(running: Running, layout: Layout) -> None:
    """Wait until ticks have counted all visits read."""
    ticks = running.sample().total("ticks_total")
    wanted = ticks + 2 * layout.outputs
    wait_untimed(lambda: running.sample().total("ticks_total") >= wanted, "more ticks are decided")


class TakeoverLine:
    """Two instances, one of which is killed: the other one takes over its partitions."""

    name = "takeover"
    work = "kill -9 of one of two instances with 8 ledger partitions, slots of 2 s"
    goal = "the next tick of every partition is decided within the session timeout + 2 s"
    targets = (Target(_TAKEOVER, most=2),)

    def measure(self, bench: Bench) -> Measured:
        """Kill the first instance several times, and take the median."""
        outputs, inputs = bench.scale((8, 4), (4, 2))
        layout = Layout(slot="2s", release_delay="500ms", outputs=outputs, inputs=inputs, watched=100, places=100)
        with bench.valkey() as valkey:
            site = Site(bench.folder("takeover"), "takeover", (bench.kafka.bootstrap_servers, valkey.url), layout)
            site.create()
            with site.run(2) as running:
                _wait_for_shares(running, layout, 2)
                found = sorted(_kill_one(site, running, layout) for _ in range(bench.scale(3, 1)))
        session = site.connections.session_timeout_ms / 1_000
        seconds = found[len(found) // 2]
        return Measured(
            {
                "kill -9 to the next decided tick (s)": seconds,
                "longest of all runs (s)": found[-1],
                "session timeout (s)": session,
                _TAKEOVER: seconds - session,
            }
        )


def _kill_one(site: Site, running: Running, layout: Layout) -> float:
    """Replace an instance. Return the seconds until each partition has a tick that was decided after the kill."""
    topic = site.config.kafka.topics.alerts
    partitions = [TopicPartition(topic, number) for number in range(layout.outputs)]
    with closing(site.connections.create_consumer(isolation_level="read_committed")) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_end()
        for partition in partitions:
            consumer.position(partition)
        began = time.time()
        running.replace_first()
        firsts = dict(_find_first_answers(consumer, partitions, began, site))
    _wait_for_shares(running, layout, 2)
    return max(firsts.values()) - began


def _find_first_answers(
    consumer: Any, partitions: list[TopicPartition], since: float, site: Site
) -> Iterator[tuple[int, float]]:
    """Yield each partition with the time at which its first answers of a tick after `since` arrive, in seconds."""
    grid = site.grid
    missing = {partition.partition for partition in partitions}
    first_tick = grid.find_slot(int(since * 1_000_000))
    deadline = since + 90
    while missing:
        if time.time() > deadline:
            raise FailedError(f"the ledger partitions {sorted(missing)} were not taken over within 90 s")
        for records in consumer.poll(timeout_ms=50).values():
            for record in records:
                at = _read_tick(record.value)
                if record.partition in missing and at is not None and at >= first_tick:
                    missing.discard(record.partition)
                    yield record.partition, time.time()


def _read_tick(value: bytes) -> int | None:
    tick = json.loads(value).get("tick")
    return None if tick is None else int(tick)


LINES: Final = (InstancesLine(), TakeoverLine())
