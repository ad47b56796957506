"""Quix Streams: distinct people per place over a hopping window, on a real Kafka. The peer of the whole service."""

from __future__ import annotations

import json
import sys
import time
import uuid
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from quixstreams import Application


def measure(file: str, window_hours: int, slide_hours: int, bootstrap: str) -> dict[str, float]:
    """Count the distinct people of each place and window. Return the seconds, the events and the updates emitted."""
    events = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
    expected = len(events) * window_hours // slide_hours  # each event updates all windows that contain it
    updates, ended = [0], [0.0]
    with TemporaryDirectory() as state:
        app = Application(
            broker_address=bootstrap,
            consumer_group=f"quix-{uuid.uuid4().hex}",
            auto_offset_reset="earliest",
            state_dir=state,
            loglevel="ERROR",
        )
        topic = app.topic(f"quix-{uuid.uuid4().hex}", value_deserializer="json", key_deserializer="str")
        with app.get_producer() as producer:
            for person, place, at in events:
                value = json.dumps({"person": person}).encode()
                producer.produce(topic.name, key=place.encode(), value=value, timestamp=int(at * 1_000))
        frame = app.dataframe(topic)
        hopping = frame.hopping_window(duration_ms=timedelta(hours=window_hours), step_ms=timedelta(hours=slide_hours))

        def add(people: dict[str, int], event: Any) -> dict[str, int]:
            people[event["person"]] = 1
            return people

        def count(_update: Any) -> None:
            updates[0] += 1
            if updates[0] == expected:
                ended[0] = time.perf_counter()
                app.stop()

        counted = hopping.reduce(reducer=add, initializer=lambda event: {event["person"]: 1}).current()
        counted.update(count)
        began = time.perf_counter()
        app.run(timeout=60)
    if updates[0] < expected:
        sys.exit(f"quix-streams updated {updates[0]} windows: expected {expected}")
    return {"seconds": ended[0] - began, "events": len(events), "counts": updates[0]}


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
