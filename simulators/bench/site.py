"""A service to measure: its configuration, its topics, and the text of visits."""

from __future__ import annotations

import os
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.config.valid_config import load_valid_config
from monitor.service.wiring import Settings, prepare_settings
from simulators.bench.bench import Bench

PARTITIONS: Final = 4
PEOPLE: Final = 100_000
_CONFIG: Final = """
service: {{name: {name}, shards: 16}}
clock: {{slot: 1h, origin: 2026-01-01T00:00:00Z, release_delay: 30s}}
locations: {{file: locations.csv}}
visits: {{default_stay: 15m, accept_ahead: 1h}}
privacy: {{epsilon: "1000000", period: 14d}}
monitors:
  - {{name: watched, kind: over_time, locations: [{watched}], epsilon: "100", threshold: 50, window: 14d}}
kafka:
  bootstrap_servers: ["{kafka}"]
  topics: {{visits: {name}.visits, alerts: {name}.alerts, dead_letters: {name}.dead}}
  partitions: {{visits: {partitions}, alerts: 1}}
redis: {{url: "{redis}"}}
"""
_RECORD: Final = np.dtype(
    [
        ("a", "S14"), ("person", "S8"), ("b", "S17"), ("place", "S12"), ("c", "S16"), ("arrived", "S20"), ("d", "S13"),
        ("left", "S20"), ("e", "S3"),
    ]
)  # fmt: skip
_TEXTS: Final = {
    "a": b'{"person_id":"', "b": b'","location_id":"', "c": b'","arrived_at":"', "d": b'","left_at":"', "e": b'"},',
}  # fmt: skip

Ints = NDArray[np.int64]


def place_id(number: int) -> str:
    """Return the id of a place."""
    return f"place-{number:06}"


def prepare_site(bench: Bench, name: str, places: int, watched: int, redis: str = "redis://127.0.0.1:1") -> Settings:
    """Write a configuration and a registry, and return the settings of the service."""
    folder = bench.folder(name)
    ids = [place_id(number) for number in range(places)]
    (folder / "locations.csv").write_text("\n".join(["location_id", *ids]) + "\n", encoding="utf-8")
    chosen = ", ".join(ids[:: places // watched])
    text = _CONFIG.format(
        name=name, watched=chosen, kafka=bench.kafka.bootstrap_servers, partitions=PARTITIONS, redis=redis
    )
    (folder / "service.yaml").write_text(text, encoding="utf-8")
    return prepare_settings(load_valid_config(folder / "service.yaml", {}), os.urandom(32))


@cache
def _format_ids(word: str, count: int) -> NDArray[np.bytes_]:
    return np.array([f"{word}-{number:06}".encode() for number in range(count)])


def make_records(people: Ints, places: Ints, arrived: Ints, left: Ints, per_record: int) -> list[bytes]:
    """Return records of `per_record` visits. The arrays have one number per visit; times are in seconds."""
    visits = np.empty(people.size, _RECORD)
    for name, text in _TEXTS.items():
        visits[name] = text
    visits["person"] = _format_ids("p", PEOPLE)[people]
    visits["place"] = _format_ids("place", int(places.max()) + 1)[places]
    first = int(arrived.min())
    texts = np.datetime_as_string(np.arange(first, int(left.max()) + 1).astype("datetime64[s]")).astype("S19")
    texts = np.char.add(texts, b"Z")
    visits["arrived"], visits["left"] = texts[arrived - first], texts[left - first]
    bodies = (visits[begin : begin + per_record].tobytes()[:-1] for begin in range(0, people.size, per_record))
    return [b'{"batch_id":"%d","visits":[%s]}' % (number, body) for number, body in enumerate(bodies)]
