"""Generate docs/alerts.md from deploy/prometheus/rules.yml: `python -m tests.docs.alerts --write`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "alerts.md"
RULES: Final = ROOT / "deploy" / "prometheus" / "rules.yml"

_HEAD: Final = """# Alerts

`deploy/prometheus/rules.yml` contains recording and alerting rules for Prometheus. They expect the job label
`location-monitor` on every instance. `deploy/prometheus/prometheus.yml` shows how to load them. This page is generated
from the rules.

Objectives are counted in ticks and not in minutes, because a service with slots of an hour decides 24 ticks in a day. A
**page** needs a person now: nobody gets new answers. A **ticket** can wait for the next working day. Each alert has a
runbook with meaning, impact, diagnosis and mitigation. Its annotation `runbook_url` is a path in this repository.

| alert | severity | summary | runbook |
|---|---|---|---|
"""


def alerts() -> list[dict[str, Any]]:
    """Return the alerting rules in their order."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def render() -> str:
    """Return the page."""
    return _HEAD + "".join(_row(alert) for alert in alerts())


def _row(alert: dict[str, Any]) -> str:
    annotations = alert["annotations"]
    link = annotations["runbook_url"].removeprefix("docs/")
    summary = annotations["summary"].replace("{{ $labels.", "`").replace(" }}", "`").replace("{{ $", "`")
    return f"| `{alert['alert']}` | {alert['labels']['severity']} | {summary} | [{Path(link).stem}]({link}) |\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.docs.alerts --write")
    PAGE.write_text(render(), encoding="utf-8")
