"""The fingerprint of everything that decides facts: under another one, other facts are read anew (docs/runtime.md, section 3).

Otherwise a newly watched location would miss its earlier visits under a progress that claims them: a false "safe".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from monitor.public.parameters import Parameters, Timed

FORMAT: Final = 2
"""The version of what the stores hold; raised when keys, members or scores change their meaning."""

_DIGITS: Final = 16


def fingerprint(parameters: Parameters, key_digest: bytes, topic_id: str) -> str:
    """16 hexadecimal digits that differ when facts do.

    Thresholds, ε, names, the release delay and the tolerance decide no facts, so they are not in it.

    Args:
        parameters: what is watched.
        key_digest: tells apart the keys that person ids are hashed with (`PersonHasher.key_digest`).
        topic_id: the id that Kafka gave the input topic; a topic made anew under the old name has other offsets.
    """
    return _digest(parameters, topic_id, {"key": key_digest.hex()})


def published_fingerprint(parameters: Parameters, topic_id: str) -> str:
    """As `fingerprint`, without the key of person ids: whoever reads it can't test a guess of the key."""
    return _digest(parameters, topic_id, {})


def _digest(parameters: Parameters, topic_id: str, more: Mapping[str, str]) -> str:
    deciding: dict[str, object] = {
        "format": FORMAT,
        "slot": parameters.grid.length,
        "origin": parameters.grid.origin,
        "ahead": parameters.max_lead,
        "default_stay": parameters.default_stay,
        "shards": parameters.registry.shards,
        "registry": parameters.registry.digest,
        "over_time": [[int(row), int(parameters.row_window[row])] for row in parameters.watched_rows],
        "at_times": sorted({_designated(monitor) for monitor in parameters.timed}),
        "topic": topic_id,
    }
    deciding |= more
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _designated(monitor: Timed) -> str:
    # The instants themselves: a zone's name means others where an image brings other rules.
    return json.dumps([monitor.times.digest(), monitor.horizon])
