"""A town that receives strange records, and the seeds of these records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.config.valid_config import load_valid_config
from monitor.service.wiring import Settings, prepare_settings
from tests.fuzz.records import WATCHED, Seeds, make_seeds

MONITORS: list[dict[str, Any]] = [
    {"name": "days", "kind": "over_time", "locations": list(WATCHED), "epsilon": "3", "threshold": 50, "window": "6h"},
    {
        "name": "morning",
        "kind": "at_times",
        "at": ["2026-01-01T10:30:00Z"],
        "timezone": "UTC",
        "reporting_horizon": "4h",
        "epsilon": "1",
        "threshold": 50,
    },
]


@pytest.fixture(scope="session")
def seeds() -> Seeds:
    """300 items, envelopes and records each: hypothesis takes longer to draw them than the tests to send them."""
    return make_seeds(300)


@pytest.fixture
def make_settings(tmp_path: Path) -> Callable[[str, str, str], Settings]:
    """A function that creates settings without connecting: `make_settings(name, kafka, redis_url)`."""

    def create_settings(name: str, kafka: str, redis_url: str) -> Settings:
        tree = {
            "service": {"name": name, "shards": 4},
            "clock": {"slot": "1h", "origin": "2026-01-01T00:00:00+00:00", "release_delay": "30s"},
            "locations": {"file": "locations.csv"},
            "visits": {
                "default_stay": "15m",
                "accept_ahead": "1h",
                "person_key_file": "person.key",
            },
            "privacy": {"epsilon": "1000", "period": "1d"},
            "monitors": MONITORS,
            "kafka": {
                "bootstrap_servers": [kafka],
                "topics": {"visits": f"{name}.visits", "alerts": f"{name}.alerts", "dead_letters": f"{name}.dead"},
                "partitions": {"visits": 2, "alerts": 1},
            },
            "redis": {"url": redis_url},
        }
        (tmp_path / "locations.csv").write_text("\n".join(["location_id", *WATCHED, "mill"]) + "\n")
        (tmp_path / "service.yaml").write_text(yaml.safe_dump(tree))
        return prepare_settings(load_valid_config(tmp_path / "service.yaml", {}), b"0123456789abcdef0123456789abcdef")

    return create_settings
