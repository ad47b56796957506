"""The figures of the runbooks: how long until an alert fires and clears.

`make soak` measures them and stores them in build/drills/. `python -m tests.deploy.alerts.figures --write` writes them
into the pages. A page keeps the figures of alerts that were not measured again.
"""

from __future__ import annotations

import json
import math
import re
import sys
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.deploy.alerts.drills import DRILLS, NOT_CAUSED, Drill
from tests.deploy.alerts.scaled import DAYS_FACTOR, FACTOR, parse_seconds
from tests.deploy.alerts.site import SLOT_SECONDS
from tests.docs.alerts import ROOT, alerts, find_runbook

RESULTS: Final = ROOT / "build" / "drills"
HEADING: Final = "## Measured"
NONE: Final = "not measured yet"
FIGURE: Final = re.compile(r"[0-9][0-9.,]* (?:s|min|h|d)(?: and [0-9.]+ s)?")
_TIMES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))
_EXPLAINED: Final = (
    "A soak test causes the fault on real servers. A real Prometheus with these rules fires the alert, the test runs "
    f"the commands of this page, and the alert clears. A slot lasted {SLOT_SECONDS} s. The times in the rules were "
    f"divided by {FACTOR} (windows of days by {DAYS_FACTOR:,}). The table has the undivided times of the rules, plus "
    "the measured seconds."
)
_TABLE: Final = "| alert | fault | fires after | clears after |\n|---|---|---|---|\n"
_INTRODUCTION: Final = f"\n{HEADING}\n\n{textwrap.fill(_EXPLAINED, 120)}\n\n{_TABLE}"


@dataclass(frozen=True, slots=True)
class Measured:
    """The seconds from the fault until the alert fired, and from the fault's end until it cleared."""

    detected: float
    cleared: float

    def store(self, alert: str) -> None:
        """Store it for `--write`."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{alert}.json").write_text(json.dumps(asdict(self)), encoding="utf-8")


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


def find_page(alert: str) -> Path:
    """Return the runbook of an alert."""
    (rule,) = (rule for rule in alerts() if rule["alert"] == alert)
    return find_runbook(rule)


def render_row(drill: Drill, measured: Measured | None, page: str) -> str:
    """Return the row of an alert. Without a new measurement it is the one that the page has."""
    if measured is None:
        found = re.search(rf"^\| `{drill.alert}` \|.*\| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
        cells = found.groups() if found else (NONE, NONE)
    else:
        held = DAYS_FACTOR if "7d" in drill.holds else FACTOR
        cells = (
            format_true_figure(measured.detected, drill.waits, FACTOR),
            format_true_figure(measured.cleared, drill.holds, held),
        )
    return f"| `{drill.alert}` | {drill.what} | {cells[0]} | {cells[1]} |\n"


def render(page: Path, results: dict[str, Measured]) -> str:
    """Return the text of a runbook with its figures."""
    text = page.read_text(encoding="utf-8")
    body = text.partition(f"\n{HEADING}\n")[0].rstrip("\n") + "\n"
    here = [alert["alert"] for alert in alerts() if find_runbook(alert) == page]
    rows = [render_row(drill, results.get(drill.alert), text) for drill in DRILLS if drill.alert in here]
    reasons = [f"\n`{alert}` was not measured: {NOT_CAUSED[alert]}\n" for alert in here if alert in NOT_CAUSED]
    table = _INTRODUCTION + "".join(rows) if rows else f"\n{HEADING}\n"
    return body + (table + "".join(reasons) if rows or reasons else "")


def list_pages() -> list[Path]:
    """Return all runbooks."""
    return sorted({find_runbook(alert) for alert in alerts()})


def load_stored() -> dict[str, Measured]:
    """Return the stored measurements by alert."""
    return {file.stem: Measured(**json.loads(file.read_text(encoding="utf-8"))) for file in RESULTS.glob("*.json")}


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.deploy.alerts.figures --write")
    for file in list_pages():
        file.write_text(render(file, load_stored()), encoding="utf-8")
