"""The parts of pages that the site has and the repository has not, from the code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import click

from monitor import errors
from monitor.audit.live.metrics import AUDITOR_METRICS
from monitor.cli import main
from monitor.client.exporter import PUBLIC_METRICS
from monitor.observe.prometheus_metric import Metric
from monitor.observe.service_metrics import METRICS
from monitor.page.metrics import PAGE_METRICS
from monitor.records.visit_contract import Reason

WIDTH: Final = 100


def write_commands() -> str:
    """Return the help of each command, below a heading."""
    parent = main.make_context("location-monitor", [], resilient_parsing=True)
    parts = []
    for name, command in sorted(main.commands.items()):
        context = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH)
        parts.append(f"### {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def write_reasons() -> str:
    """Return the list of reasons for dead letters, each with its meaning."""
    return inspect.getdoc(Reason).partition("\n\n")[2]  # type: ignore[union-attr]  # it has a docstring


def write_errors() -> str:
    """Return the tree of errors with their exit codes."""
    return f"```text\n{errors.__doc__}```"


def write_metrics(metrics: Sequence[Metric]) -> str:
    """Return a table of metrics with their labels and meanings."""
    return "| metric | type | labels | meaning |\n|---|---|---|---|\n" + "".join(map(_write_row, metrics))


def _write_row(metric: Metric) -> str:
    labels = "; ".join(f"`{label}`: {_write_values(values)}" for label, values in metric.labels.items())
    meaning = f"{metric.help}. {metric.note}".strip()
    return f"| `{metric.exposed_name}` | {metric.kind} | {labels} | {meaning} |\n"


def _write_values(values: Sequence[str] | str) -> str:
    return values if isinstance(values, str) else ", ".join(f"`{value}`" for value in values)


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "commands": write_commands,
    "reasons": write_reasons,
    "errors": write_errors,
    "metrics of the service": lambda: write_metrics(METRICS),
    "metrics of the auditor": lambda: write_metrics(AUDITOR_METRICS),
    "metrics of the page": lambda: write_metrics(PAGE_METRICS),
    "metrics of the answers": lambda: write_metrics(PUBLIC_METRICS),
}
"""The parts by the names in the comments of pages, such as `<!-- generated: errors -->`."""
