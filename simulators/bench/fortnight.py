"""Distinct people per place over 14 days, advanced hourly: the whole service against stream processors."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final

import numpy as np

from monitor.config import load_registry
from monitor.config.validate import validate_config
from monitor.errors import FailedError
from monitor.public.clock import SteppedClock
from monitor.service import Settings, prepare_settings
from monitor.tools.replay.driver import Replay, prepare_empty
from simulators.bench.bench import Bench, MissingPeerError
from simulators.bench.line import Measured, Target
from simulators.bench.site import Crowd, Layout, Site, place_id

_HOURS: Final = 24
_WINDOW_HOURS: Final = 14 * _HOURS
_PLACES: Final = 100
_PEOPLE: Final = 100_000
_PER_RECORD: Final = 500
_RATIO: Final = "ratio to the best peer"


class FortnightLine:
    """A backlog of 16 days, from Kafka through Redis to hourly answers in the ledger."""

    name = "fortnight"
    work = "distinct people of 100 places over 14 days, hourly, for 16 days: the whole service with Kafka and Redis"
    goal = "≥ 90 × the best of bytewax, quix-streams and Flink SQL on events of the same distribution"
    targets = (Target(_RATIO, least=90),)

    def measure(self, bench: Bench) -> Measured:
        """Run the service on a backlog, then each peer on fewer events of the same distribution."""
        figures = _measure_service(bench)
        skipped = []
        peers: dict[str, float] = {}
        events = _write_events(bench.folder("events") / "events.jsonl", bench.scale(2_000, 40))
        hours = {"file": str(events), "window_hours": _WINDOW_HOURS, "slide_hours": 1}
        programs: list[tuple[str, str, dict[str, str]]] = [
            ("bytewax", "bytewax_distinct", {}),
            ("quix-streams", "quix_distinct", {"bootstrap": bench.kafka.bootstrap_servers}),
        ]
        if bench.quick:
            skipped.append("Flink SQL skipped: starting its jobs takes longer than a line at the small scale may")
        else:
            programs.append(("Flink SQL", "flink_distinct", {}))
        for name, module, more in programs:
            try:
                found = bench.run_peer(module, **hours, **more)
                peers[name] = found["events"] / found["seconds"]
            except (MissingPeerError, FailedError) as error:
                skipped.append(str(error))
        shown = {f"{name} (events/s)": rate for name, rate in peers.items()}
        ratio = {_RATIO: figures["whole service (events/s)"] / max(peers.values())} if peers else {}
        return Measured({**figures, **shown, **ratio}, skipped=skipped)


def _measure_service(bench: Bench) -> dict[str, float]:
    """Produce a backlog, then run the service on it. The time includes its start, and ends with the last answers."""
    days, visits = bench.scale((16, 4_000_000), (1, 20_000))
    ticks = days * _HOURS
    layout = Layout(_PLACES, _PLACES, "1h", "14d", release_delay="1m", outputs=1, shards=16)
    with bench.valkey() as valkey:
        site = Site(bench.folder("fortnight"), "fortnight", (bench.kafka.bootstrap_servers, valkey.url), layout)
        settings = _settings_of(site)
        first = site.grid.find_slot(site.grid.origin)
        clock = SteppedClock(site.grid.start(first))
        found = prepare_empty(settings, clock)
        _produce(site, first, ticks, visits // ticks)
        began = time.perf_counter()
        with Replay(settings, found, clock) as replay:
            answers = sum(len(replay.run_tick(tick)) for tick in range(first, first + ticks))
            seconds = time.perf_counter() - began
            applied = replay.summarize(ticks, seconds).visits["applied"]
    if applied < ticks * (visits // ticks):
        raise FailedError(f"the service applied {applied:,} visits: expected {ticks * (visits // ticks):,}")
    return {
        "whole service (events/s)": applied / seconds,
        "events": float(applied),
        "answers": float(answers),
        "ticks/s": ticks / seconds,
    }


def _settings_of(site: Site) -> Settings:
    key = (site.folder / "person.key").read_bytes()
    return prepare_settings(validate_config(site.config, load_registry(site.config.locations.file)), key)


def _produce(site: Site, first: int, ticks: int, visits: int) -> None:
    draw, crowd = np.random.default_rng(7), Crowd(_PEOPLE, _PLACES)
    with site.open_producer() as producer:
        for tick in range(first, first + ticks):
            stamp = site.grid.as_of(tick) - 1_000_000
            producer.send(crowd.make_records(draw, visits, _PER_RECORD, stamp), stamp // 1_000)


def _write_events(path: Path, count: int) -> Path:
    """Write events of the same places and people over 16 days, in order of time."""
    draw = np.random.default_rng(7)
    begin = 1_767_225_600  # 2026-01-01T00:00:00Z
    times = np.sort(draw.random(count) * 16 * _HOURS * 3_600 + begin).tolist()
    people, places = draw.integers(_PEOPLE, size=count).tolist(), draw.integers(_PLACES, size=count).tolist()
    with path.open("w", encoding="utf-8") as file:
        for person, place, at in zip(people, places, times, strict=True):
            file.write(json.dumps([f"p-{person:08}", place_id(place), at]) + "\n")
    return path


LINES: Final = (FortnightLine(),)
