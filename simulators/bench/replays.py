"""Replay: ticks per second through the whole service, with one ledger partition."""

from __future__ import annotations

import csv
import random
from contextlib import closing
from pathlib import Path
from typing import Final

from monitor.config import load_valid_config
from monitor.public.instants import HOUR, MINUTE, format_instant, parse_instant
from monitor.service import prepare_settings
from monitor.tools.replay.driver import plan_replay, replay
from simulators.bench.bench import Bench
from simulators.bench.line import Measured, Target

_ORIGIN: Final = parse_instant("2026-01-01T00:00:00Z")
_KEY: Final = bytes(range(32))
_CONFIG: Final = """
service: {{name: {name}, shards: 4}}
clock: {{slot: 1h, origin: 2026-01-01T00:00:00Z, release_delay: 30s}}
locations: {{file: locations.csv}}
visits: {{default_stay: 15m, accept_ahead: 1h}}
privacy: {{epsilon: "1000000", period: 14d}}
monitors:
  - {{name: watched, kind: over_time, locations: [{watched}], epsilon: "{places}", threshold: 20, window: 14d}}
kafka:
  bootstrap_servers: ["{kafka}"]
  topics: {{visits: {name}.visits, alerts: {name}.alerts, dead_letters: {name}.dead}}
  partitions: {{visits: 2, alerts: 1}}
redis: {{url: "{valkey}"}}
"""


def _write_files(folder: Path, name: str, watched: int, ticks: int, kafka: str, valkey: str) -> None:
    ids = [f"place-{number}" for number in range(watched)]
    (folder / "locations.csv").write_text("\n".join(["location_id", *ids]) + "\n")
    text = _CONFIG.format(name=name, watched=", ".join(ids), places=watched, kafka=kafka, valkey=valkey)
    (folder / "service.yaml").write_text(text)
    draw = random.Random(7)
    with (folder / "visits.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["person_id", "location_id", "arrived_at", "left_at"])
        for slot in range(ticks):
            for _ in range(20):
                arrived = _ORIGIN + slot * HOUR + draw.randrange(40) * MINUTE
                times = [format_instant(arrived), format_instant(arrived + 10 * MINUTE)]
                rows.writerow([f"p-{draw.randrange(5_000)}", draw.choice(ids), *times])


def measure_replay(bench: Bench, watched: int, ticks: int) -> dict[str, float]:
    """Return the ticks per second of a replay with `watched` places and 20 visits per hourly tick."""
    name = f"replay-{watched}"
    folder = bench.folder(name)
    with bench.valkey() as server:
        _write_files(folder, name, watched, ticks, bench.kafka.bootstrap_servers, server.url)
        settings = prepare_settings(load_valid_config(folder / "service.yaml", {}), _KEY)
        until = _ORIGIN + ticks * HOUR
        planned = plan_replay(folder / "visits.csv", settings.parameters, until, lambda: None)
        with closing(planned.lines):
            summary = replay(settings, planned, lambda _tick, _records: None)
    return {"ticks/s": summary.ticks / summary.seconds, "ticks": float(summary.ticks)}


class ReplayLine:
    """Replays of 100 and 1,000 watched places."""

    name = "replay"
    work = "replay with one ledger partition"
    goal = "100 watched places: ≥ 300 ticks/s"
    targets = (Target("100 places (ticks/s)", least=300, absolute=True),)

    def measure(self, bench: Bench) -> Measured:
        """Replay two months of 100 places, and eight days of ten times as many."""
        hundred = measure_replay(bench, 100, bench.scale(1_500, 50))
        thousand = measure_replay(bench, 1_000, bench.scale(200, 10))
        return Measured({"100 places (ticks/s)": hundred["ticks/s"], "1,000 places (ticks/s)": thousand["ticks/s"]})


LINES: Final = (ReplayLine(),)
