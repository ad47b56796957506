"""Generate docs/metrics.md from the catalog of metrics: `python -m tests.docs.metrics --write`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from monitor.client.metric_catalog import PUBLIC_METRICS
from monitor.operate.metric_catalog import METRICS, Metric
from monitor.page.metric_catalog import PAGE_METRICS
from monitor.tools.auditor.metric_catalog import AUDITOR_METRICS

PAGE: Final = Path(__file__).parents[2] / "docs" / "metrics.md"

_HEAD: Final = """# Metrics

`/metrics` on `metrics.port` serves these metrics to Prometheus, as text or as OpenMetrics. No label names a person or a
place, so the number of series is bounded: at most the values listed here, times the number of monitors, partitions or
servers. Series with a closed set of label values exist from the start with the value 0. Values are exact totals for
operators, who are trusted.

Names, labels and meanings are stable (see [the interface](interface.md#5-metrics-and-health)). This page is generated
from `monitor/operate/metric_catalog.py`. [Alerts](runbooks.md) lists the alerting rules that use these metrics.

| metric | type | labels | meaning |
|---|---|---|---|
"""
_AUDITOR: Final = """
## The auditor

`location-monitor audit --follow` is a separate process and serves these metrics on `auditor.port`, under its own job
label ([the auditor](operations.md#the-auditor)). They are from `monitor/tools/auditor/metric_catalog.py`.

| metric | type | labels | meaning |
|---|---|---|---|
"""
_PAGE: Final = """
## The public page

`location-monitor page` serves these metrics on `page.metrics_port`, under its own job label
([metrics of the page](page.md#metrics-and-health)). They are from `monitor/page/metric_catalog.py`.

| metric | type | labels | meaning |
|---|---|---|---|
"""
_PUBLIC: Final = """
## The published answers

`location-monitor watch --metrics` is a subscriber, and serves these metrics about the answers that it reads
([public answers](dashboards.md#public-answers)). They are the only ones with a place as a label: each value is public
already. They are from `monitor/client/metric_catalog.py`.

| metric | type | labels | meaning |
|---|---|---|---|
"""
_FOOT: Final = """
The Prometheus client adds its usual metrics of a Python process (`process_…`, `python_info`).
"""


def render() -> str:
    """Return the page."""
    service = "".join(_row(metric) for metric in METRICS)
    others = ((_AUDITOR, AUDITOR_METRICS), (_PAGE, PAGE_METRICS), (_PUBLIC, PUBLIC_METRICS))
    return _HEAD + service + "".join(head + "".join(map(_row, metrics)) for head, metrics in others) + _FOOT


def _row(metric: Metric) -> str:
    labels = "; ".join(f"`{label}`: {_values(values)}" for label, values in metric.labels.items())
    meaning = f"{metric.help}. {metric.note}".strip()
    return f"| `{metric.exposed_name}` | {metric.kind} | {labels} | {meaning} |\n"


def _values(values: Sequence[str] | str) -> str:
    return values if isinstance(values, str) else ", ".join(f"`{value}`" for value in values)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.docs.metrics --write")
    PAGE.write_text(render(), encoding="utf-8")
