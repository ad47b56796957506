"""The version of a configuration: a digest of everything that decides answers, by which instances know their like."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Final

from monitor.public.parameters import AtTimes, OverTime, Parameters, Timed

_DIGITS: Final = 16


def version(parameters: Parameters, fingerprint: str) -> str:
    """16 hexadecimal digits that differ when answers would: by the facts, or by what is made of them and charged.

    Args:
        parameters: what is watched.
        fingerprint: that of the facts.
    """
    deciding = {
        "facts": fingerprint,
        "over_time": [_over_time(monitor) for monitor in parameters.over_time],
        "timed": [_timed(monitor) for monitor in parameters.timed],
    }
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _over_time(monitor: OverTime) -> list[object]:
    rules = zip(monitor.rows, monitor.rules, strict=True)
    return [
        monitor.name,
        [
            [int(row), str(rule.epsilon), rule.answers, rule.threshold, rule.window, rule.max_lead]
            for row, rule in rules
        ],
    ]


def _timed(monitor: Timed) -> list[object]:
    kind, least = ("at_times", monitor.threshold) if isinstance(monitor, AtTimes) else ("hot_spots", monitor.top)
    return [kind, monitor.name, monitor.times.digest(), monitor.horizon, str(monitor.epsilon), least]


def client_id(base: str, of_version: str) -> str:
    """What an instance calls itself in the release group. `base`: what the service's clients are called."""
    return f"{base}-{of_version}"


def versions(base: str, client_ids: Iterable[str]) -> list[str]:
    """The versions of the members with these client ids: "" for one of an earlier build, which tells none.

    A member that is no instance of this service is left out.
    """
    pattern = re.compile(rf"{re.escape(base)}(?:-([0-9a-f]{{{_DIGITS}}}))?")
    return [found[1] or "" for name in client_ids if (found := pattern.fullmatch(name))]
