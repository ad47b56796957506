"""The figures of the runbooks: how long until an alert fires and clears."""

from __future__ import annotations

import math
from typing import Final

from tests.deploy.alerts.drills import Drill
from tests.deploy.alerts.scaled import DAYS_FACTOR, FACTOR, parse_seconds

_TIMES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def format_true_figure(measured: float, times: tuple[str, ...], factor: int) -> str:
    """Return a figure with the true times of the rule in place of the shortened ones.

    `7 d and 12 s`: 7 days are the rule's, 12 seconds were measured. Minutes are rounded up.
    """
    waited = sum(map(parse_seconds, times))
    rest = max(0, round(measured - waited / factor))
    if not waited:
        return f"{math.ceil(max(rest, 1) / 6) / 10:.1f} min"
    size, unit = next((size, unit) for size, unit in _TIMES if waited % size == 0)
    return f"{waited // size} {unit} and {rest} s"


def format_figures(drill: Drill, detected: float, cleared: float) -> str:
    """Return the last cells of the row of an alert in docs/runbooks.md.

    `detected`: the seconds from the fault until the alert fired. `cleared`: from the fault's end until it cleared.
    """
    held = DAYS_FACTOR if "7d" in drill.holds else FACTOR
    fires, clears = format_true_figure(detected, drill.waits, FACTOR), format_true_figure(cleared, drill.holds, held)
    return f"{drill.what} | {fires} | {clears}"
