"""Bytewax: distinct people per place over a sliding window, the peer of the whole service."""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, run_main

UTC = timezone.utc  # noqa: UP017  # the peers' Python may be older than 3.11


def measure(file: str, window_hours: int, slide_hours: int) -> dict[str, float]:
    """Count the distinct people of each place and window. Return the seconds, the events and the counts emitted."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    events = [(place, (person, float(at))) for person, place, at in map(json.loads, lines)]
    counts: list[object] = []
    flow = Dataflow("distinct")
    stream = op.input("in", flow, TestingSource(events))
    clock = win.EventClock(lambda event: datetime.fromtimestamp(event[1], UTC), wait_for_system_duration=timedelta(0))
    windower = win.SlidingWindower(
        length=timedelta(hours=window_hours),
        offset=timedelta(hours=slide_hours),
        align_to=datetime(2026, 1, 1, tzinfo=UTC),
    )

    def add(people: set[str], event: tuple[str, float]) -> set[str]:
        people.add(event[0])
        return people

    counted = win.fold_window("count", stream, clock, windower, set, add, set.union)
    sizes = op.map("size", counted.down, lambda item: (item[0], (item[1][0], len(item[1][1]))))
    op.output("out", sizes, TestingSink(counts))
    began = time.perf_counter()
    run_main(flow)
    return {"seconds": time.perf_counter() - began, "events": len(events), "counts": len(counts)}


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
