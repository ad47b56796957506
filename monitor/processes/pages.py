"""One page for all processes: each sample with the label `process`, and health and readiness of all.

The label keeps the meaning of each metric. The samples of a process are the same as those of an instance on another
host, so the same queries work for both. The multiprocess mode of prometheus-client would add up the processes, but it
has no info metrics, no process metrics and no removal of labels, and it keeps files on disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from monitor.operate.health import STALL_SECONDS
from monitor.operate.metric_catalog import PREFIX, SUPERVISOR_METRICS
from monitor.processes.link import Link, Snapshot

LABEL: Final = "process"


class ProcessStatus:
    """The link of one process while it runs; otherwise, the reason why it does not run."""

    def __init__(self, number: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.number = number
        self.link: Link | None = None
        self.reason = "starting"
        self._monotonic = monotonic
        self._answered_at: float | None = None

    def connect(self, link: Link) -> None:
        """Record that a process has been started."""
        self.reason, self._answered_at, self.link = "starting", None, link

    def disconnect(self, reason: str) -> None:
        """Record that the process has ended."""
        link, self.link, self.reason = self.link, None, reason
        if link is not None:
            link.close()

    def take_snapshot(self) -> Snapshot | None:
        """Return the state of the process; None if it has no link, does not answer, or has ended."""
        link = self.link
        snapshot = None if link is None else link.ask()
        if snapshot is not None:
            self._answered_at = self._monotonic()
        return snapshot

    def is_silent(self) -> bool:
        """Return whether a process that has answered before has not answered for three minutes."""
        answered = self._answered_at
        return self.link is not None and answered is not None and self._monotonic() - answered > STALL_SECONDS


class Pages(Collector):
    """The metrics and the health of all processes. Its own metrics are `process_up` and `process_restarts`."""

    def __init__(self, statuses: tuple[ProcessStatus, ...]) -> None:
        self._statuses = statuses
        self._own = CollectorRegistry()
        up, restarts = SUPERVISOR_METRICS
        self._up = Gauge(up.name, up.help, up.labels, namespace=PREFIX, registry=self._own)
        self._restarts = Counter(restarts.name, restarts.help, restarts.labels, namespace=PREFIX, registry=self._own)
        for status in statuses:
            self._restarts.labels(str(status.number))
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def count_restart(self, status: ProcessStatus) -> None:
        """Count a process that is started again."""
        self._restarts.labels(str(status.number)).inc()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all processes, one family for each name."""
        families: dict[str, Metric] = {}
        for status in self._statuses:
            snapshot = status.take_snapshot()
            self._up.labels(str(status.number)).set(status.link is not None)
            for family in snapshot.families if snapshot is not None else ():
                merged = families.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type, family.unit)
                )
                add_samples(merged, family, {LABEL: str(status.number)})
        yield from self._own.collect()
        yield from families.values()

    def describe(self) -> Iterator[Metric]:
        """Yield nothing, because the names are known only after the processes have answered."""
        yield from ()

    def list_stalled(self) -> list[str]:
        """Return the loops of all processes that have not reported for three minutes, and silent processes."""
        found = []
        for status, snapshot in self._ask():
            found += [f"process {status.number}: {loop}" for loop in (snapshot.stalled if snapshot else ())]
            if status.is_silent():
                found.append(f"process {status.number}")
        return found

    def list_waiting(self) -> dict[str, str]:
        """Return the reason why each loop of each process waits. A process that does not answer is not ready."""
        found: dict[str, str] = {}
        for status, snapshot in self._ask():
            if snapshot is None:
                found[f"process {status.number}"] = status.reason if status.link is None else "no answer yet"
                continue
            found |= {f"process {status.number}: {loop}": reason for loop, reason in snapshot.waiting.items()}
        return found

    def _ask(self) -> Iterator[tuple[ProcessStatus, Snapshot | None]]:
        for status in self._statuses:
            yield status, status.take_snapshot()


def add_samples(merged: Metric, family: Metric, labels: Mapping[str, str]) -> None:
    """Add the samples of a family with more labels to a family of the same name."""
    for sample in family.samples:
        merged.add_sample(sample.name, {**sample.labels, **labels}, sample.value, sample.timestamp, sample.exemplar)
