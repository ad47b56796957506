"""Replay: ticks per second through the whole service, with one ledger partition."""

from __future__ import annotations

import csv
import random
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from monitor.operate.replay.driver import plan_replay, replay
from monitor.time.instants import HOUR, MINUTE, format_instant, parse_instant
from simulators.bench.bench import Bench, Line, Target
from simulators.bench.site import place_id, prepare_site

_ORIGIN: Final = parse_instant("2026-01-01T00:00:00Z")
_PLACES: Final = 100


def _write_visits(path: Path, ticks: int) -> None:
    """Write 20 visits per hourly tick."""
    draw = random.Random(7)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["person_id", "location_id", "arrived_at", "left_at"])
        for slot in range(ticks):
            for _ in range(20):
                arrived = _ORIGIN + slot * HOUR + draw.randrange(40) * MINUTE
                times = [format_instant(arrived), format_instant(arrived + 10 * MINUTE)]
                rows.writerow([f"p-{draw.randrange(5_000)}", place_id(draw.randrange(_PLACES)), *times])


def measure_replay(bench: Bench) -> Mapping[str, float]:
    """Replay two months of 100 watched places."""
    ticks = bench.scale(1_500, 50)
    visits = bench.folder("visits") / "visits.csv"
    _write_visits(visits, ticks)
    with bench.valkey() as server:
        settings = prepare_site(bench, "replay", _PLACES, _PLACES, server.url)
        planned = plan_replay(visits, settings.parameters, _ORIGIN + ticks * HOUR, lambda: None)
        with closing(planned.lines):
            summary = replay(settings, planned, lambda _tick, _records: None)
    return {"100 places (ticks/s)": summary.ticks / summary.seconds}


LINE: Final = Line(
    "replay",
    "replay with one ledger partition and 100 watched places",
    "≥ 100 ticks/s",
    (Target("100 places (ticks/s)", least=100),),
    measure_replay,
)
