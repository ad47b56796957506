"""Generate docs/alerts.md from the rules in deploy/prometheus/: `python -m tests.docs.alerts --write`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "alerts.md"
RULES: Final = ROOT / "deploy" / "prometheus" / "rules.yml"
AUDITOR_RULES: Final = ROOT / "deploy" / "prometheus" / "auditor.yml"
RUNBOOK_BASE: Final = "https://location-monitor.example/docs/"
"""The address of docs/ in the rules, which operators replace by their own."""

PAGE_RULES: Final = ROOT / "deploy" / "prometheus" / "page.yml"

_HEAD: Final = """# Alerts

`deploy/prometheus/rules.yml` contains recording and alerting rules for Prometheus. They expect the job label
`location-monitor` on every instance. `deploy/prometheus/prometheus.yml` shows how to load them. This page is generated
from the rules.

The links to the runbooks (`runbook_url`) begin with a placeholder. Replace it by the address at which your people read
the folder `docs/` of this project. In the chart, `monitoring.prometheusRule.runbookBase` does this.

<!-- not run: changes files of the checkout -->
```sh
sed -i 's|https://location-monitor.example/docs|https://wiki.example.org/location-monitor|' deploy/prometheus/*.yml
```

Objectives are counted in ticks and not in minutes, because a service with slots of an hour decides 24 ticks in a day. A
**page** needs a person now. A **ticket** can wait for the next working day. Each alert has a runbook with meaning,
impact, diagnosis and mitigation.
`deploy/prometheus/alertmanager.yml` is an example for Alertmanager: it sends pages and tickets to different receivers.

| alert | severity | summary | runbook |
|---|---|---|---|
"""


_AUDITOR: Final = """
## The auditor

`deploy/prometheus/auditor.yml` has the rules for [the auditor](operations.md#the-auditor), with the job label
`location-monitor-auditor`. Load it only where an auditor runs, because one of the rules pages if there is none. There
is no error budget: one finding pages.

| alert | severity | summary | runbook |
|---|---|---|---|
"""

_PAGE: Final = """
## The public page

`deploy/prometheus/page.yml` has the rules for [the public page](page.md#metrics-and-health), with the job label
`location-monitor-page`. Load it only where Prometheus scrapes a page.

| alert | severity | summary | runbook |
|---|---|---|---|
"""


def alerts(*files: Path) -> list[dict[str, Any]]:
    """Return the alerting rules of some files in their order; of all files if none is given."""
    found = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files or (RULES, AUDITOR_RULES, PAGE_RULES)]
    groups = [group for rules in found for group in rules["groups"]]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def find_runbook(alert: dict[str, Any]) -> Path:
    """Return the runbook that the link of an alert leads to."""
    return ROOT / "docs" / str(alert["annotations"]["runbook_url"]).removeprefix(RUNBOOK_BASE)


def render() -> str:
    """Return the page."""
    parts = ((_HEAD, RULES), (_AUDITOR, AUDITOR_RULES), (_PAGE, PAGE_RULES))
    return "".join(head + "".join(map(_row, alerts(rules))) for head, rules in parts)


def _row(alert: dict[str, Any]) -> str:
    annotations = alert["annotations"]
    link = annotations["runbook_url"].removeprefix(RUNBOOK_BASE)
    # Without the formatting of a value, because a `|` would end the cell.
    summary = re.sub(r"\{\{ \$(?:labels\.)?(\w+)(?: \| \w+)? \}\}", r"`\1`", annotations["summary"])
    return f"| `{alert['alert']}` | {alert['labels']['severity']} | {summary} | [{Path(link).stem}]({link}) |\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.docs.alerts --write")
    PAGE.write_text(render(), encoding="utf-8")
