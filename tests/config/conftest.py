"""A valid configuration, and fixtures that change single keys of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from monitor.config.load import load_config
from monitor.config.whole_config import Config
from monitor.errors import ConfigError, Problem

ABSENT: Final = "<absent>"
"""The value that removes a key."""

_VALID: Final[dict[str, Any]] = {
    "service": {"name": "tokyo"},
    "clock": {"slot": "1h", "origin": "2013-12-22T00:00:00+09:00", "release_delay": "30s"},
    "locations": {"file": "locations.csv"},
    "visits": {"default_stay": "15m", "accept_ahead": "1h", "person_key_file": "person.key"},
    "privacy": {"epsilon": "10", "period": "14d"},
    "monitors": [
        {
            "name": "stations",
            "kind": "over_time",
            "locations": ["shibuya", "shinjuku"],
            "epsilon": "1",
            "threshold": 20,
            "window": "14d",
        },
        {
            "name": "evening",
            "kind": "at_times",
            "at": ["18:00"],
            "timezone": "Asia/Tokyo",
            "reporting_horizon": "2d",
            "epsilon": "1/2",
            "threshold": 20,
        },
    ],
    "kafka": {
        "bootstrap_servers": ["localhost:9092"],
        "topics": {"visits": "visits", "alerts": "safety-alerts", "dead_letters": "visits.dead-letters"},
    },
    "redis": {"url": "redis://localhost:6379/0"},
}


Load = Callable[..., Config]
Refusal = Callable[..., dict[str, Problem]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """`load(changes, environ)` writes the valid configuration with changes by dotted key, and loads it."""

    def load_changed(changes: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Config:
        tree: dict[str, Any] = copy.deepcopy(_VALID)
        for key, value in (changes or {}).items():
            *path, name = key.split(".")
            place: Any = tree
            for part in path:
                place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
            if value == ABSENT:
                del place[name]
            else:
                place[int(name) if isinstance(place, list) else name] = value
        file = tmp_path / "service.yaml"
        file.write_text(yaml.safe_dump(tree), encoding="utf-8")
        return load_config(file, environ or {})

    return load_changed


@pytest.fixture
def refusal(load: Load) -> Refusal:
    """`refusal(changes, environ)` returns the problems of an invalid configuration by key, at most one for each key."""

    def load_problems(
        changes: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
    ) -> dict[str, Problem]:
        with pytest.raises(ConfigError) as caught:
            load(changes, environ)
        by_key = {problem.key: problem for problem in caught.value.problems}
        assert len(by_key) == len(caught.value.problems), caught.value
        return by_key

    return load_problems
