"""The version of a configuration: a digest of everything that decides answers. Instances compare their versions."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Final

from monitor.contracts.parameters import AtTimes, Dwell, OverTime, Parameters, Timed

_DIGITS: Final = 16


def compute_version(parameters: Parameters, fingerprint: str) -> str:
    """Return 16 hexadecimal digits that change whenever the answers or their charges would change.

    Args:
        parameters: the parameters of the service.
        fingerprint: the fingerprint of the facts.
    """
    deciding: dict[str, object] = {
        "facts": fingerprint,
        "over_time": [_describe_over_time(monitor) for monitor in parameters.over_time],
        "timed": [_describe_timed(monitor) for monitor in parameters.timed],
    }
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _describe_over_time(monitor: OverTime) -> list[object]:
    rules = zip(monitor.rows, monitor.rules, strict=True)
    return [
        monitor.name,
        [
            [int(row), str(rule.epsilon), rule.answers, rule.threshold, rule.window, rule.max_lead]
            for row, rule in rules
        ],
    ]


def _describe_timed(monitor: Timed) -> list[object]:
    if isinstance(monitor, Dwell):
        rule = monitor.rule
        return [
            "dwell",
            monitor.name,
            monitor.times.digest(),
            monitor.horizon,
            str(rule.epsilon),
            rule.longest,
            rule.per_person,
        ]
    kind, limit = ("at_times", monitor.threshold) if isinstance(monitor, AtTimes) else ("hot_spots", monitor.top)
    bounds = [str(monitor.at_least)] if isinstance(monitor, AtTimes) and monitor.at_least is not None else []
    return [kind, monitor.name, monitor.times.digest(), monitor.horizon, str(monitor.epsilon), limit, *bounds]


def make_member_client_id(base: str, version: str) -> str:
    """Return the client id of an instance in the release group. `base`: the client id of its other clients."""
    return f"{base}-{version}"


def read_member_versions(base: str, client_ids: Iterable[str]) -> list[str]:
    """Return the versions of the members with these client ids. Other clients are left out."""
    pattern = re.compile(rf"{re.escape(base)}-([0-9a-f]{{{_DIGITS}}})")
    return [match[1] for client_id in client_ids if (match := pattern.fullmatch(client_id))]
