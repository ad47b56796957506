"""The fingerprint of everything that decides facts (docs/architecture.md, section 3).

A configuration with another fingerprint reads its facts from the input again. Otherwise a newly watched location would
lack its earlier visits, although the progress claims them, and would be called "safe".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from monitor.kinds.all_kinds import KINDS
from monitor.kinds.parameters import Parameters

FORMAT: Final = 2
"""The version of the facts. Raise it when keys, members or scores change their meaning, or other records are accepted.

Version 2 accepts each framing and integers as times. Version 1 refused them if the configuration did not name them.
"""

_DIGITS: Final = 16


def compute_fingerprint(parameters: Parameters, key_digest: bytes, topic_id: str) -> str:
    """Return 16 hexadecimal digits, which differ between configurations that store different facts.

    Thresholds, ε, names, the release delay and the tolerance do not affect facts, so the fingerprint ignores them.

    Args:
        parameters: the compiled configuration.
        key_digest: identifies the key that person ids are hashed with (`PersonHasher.key_digest`).
        topic_id: Kafka's id of the input topic; a recreated topic of the same name has other offsets.
    """
    return _compute_digest(parameters, topic_id, {"key": key_digest.hex()})


def compute_published_fingerprint(parameters: Parameters, topic_id: str) -> str:
    """Return a fingerprint without the person key, so that its readers cannot test a guess of the key."""
    return _compute_digest(parameters, topic_id, {})


def _compute_digest(parameters: Parameters, topic_id: str, key: Mapping[str, str]) -> str:
    # The instants rather than the zone's name, because hosts may have different time zone data.
    timed = [(needed.times.digest(), needed) for needed in parameters.needed if needed.times is not None]
    lengths = sorted({(digest, needed.longest) for digest, needed in timed if needed.longest})
    kinds_of_lengths = (name for name, kind in KINDS.items() if kind.keys.reads_lengths)
    deciding: dict[str, object] = {  # the facts have the names of the kinds that needed them first
        "format": FORMAT,
        "slot": parameters.grid.length,
        "origin": parameters.grid.origin,
        "accept_ahead": parameters.accept_ahead,
        "default_stay": parameters.default_stay,
        "shards": parameters.registry.shards,
        "registry": parameters.registry.digest,
        "over_time": [[int(row), int(parameters.row_window[row])] for row in parameters.watched_rows],
        "at_times": sorted({json.dumps([digest, needed.horizon]) for digest, needed in timed}),
        "at_least": sorted({digest for digest, needed in timed if needed.consenting}),
        **dict.fromkeys(kinds_of_lengths, lengths),
        "topic": topic_id,
    }
    if parameters.rows_since_ticks.size:
        deciding["since_ticks"] = parameters.rows_since_ticks.tolist()
    if stamped := sorted({digest for digest, needed in timed if needed.since_ticks}):
        deciding["times_since_ticks"] = stamped
    if parameters.bucket_sets.size:
        deciding["buckets"] = [parameters.bucket_sets.tolist(), list(parameters.bucket_lengths)]
    deciding |= key
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:_DIGITS]
