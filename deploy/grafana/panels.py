"""Queries and panels of the dashboards, in the vocabulary of Grafana's SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.cog import builder as cog
from grafana_foundation_sdk.cog import variants
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    GraphDrawStyle,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    Panel,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

JOB: Final = 'job=~"$job"'
"""The label matcher of every selector."""

SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The data source of every panel, chosen by the variable `$datasource`."""

GOOD: Final = "green"
WARNING: Final = "orange"
BAD: Final = "red"

Rows = Mapping[str, Sequence[cog.Builder[Panel]]]
"""The panels of a dashboard by the title of their row."""

Steps = Mapping[float, str]
"""The colours of a panel: from each value upwards, this colour. Below the lowest value a panel is green."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a panel in PromQL, and the name of its series in the legend."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Text:
    """What a panel shows: its title, a description of the values and of what to do, and the unit by Grafana's name."""

    title: str
    description: str
    unit: str


def metric(name: str, *matchers: str) -> str:
    """Return the selector of a metric of the service; `name` has no prefix."""
    return f"location_monitor_{name}{{{', '.join((JOB, *matchers))}}}"


def rate(name: str, by: str, *matchers: str) -> str:
    """Return the rate of a counter, in events per second, summed over the instances."""
    return f"sum by ({by}) (rate({metric(name, *matchers)}[$__rate_interval]))"


def events(name: str, by: str, *matchers: str, within: str = "$__rate_interval") -> str:
    """Return the increase of a counter within each step, summed over the instances."""
    return f"sum by ({by}) (increase({metric(name, *matchers)}[{within}]))"


def share_of_answers(status: str, by: str, within: str = "$__rate_interval") -> str:
    """Return the share of the answers with a status; without a value if there were no answers."""
    some = events("answers_total", by, f'status="{status}"', within=within)
    return f"{some} / ({events('answers_total', by, within=within)} > 0)"


def quantiles(name: str) -> list[Query]:
    """Return the median and the 99th percentile of a histogram of all instances of a job."""
    buckets = f"sum by (job, le) (rate({metric(f'{name}_bucket')}[$__rate_interval]))"
    return [
        Query(f"histogram_quantile({share}, {buckets})", f"{label} ({{{{job}}}})")
        for share, label in (("0.5", "median"), ("0.99", "99 %"))
    ]


def make_stat(text: Text, queries: Sequence[Query], steps: Steps, words: Mapping[str, str] | None = None) -> stat.Panel:
    """Return a panel with the present value, large and coloured.

    Args:
        text: title, description and unit.
        queries: instant queries.
        steps: the colours from each value upwards.
        words: what to show instead of a value, by value.
    """
    panel = stat.Panel().title(text.title).description(text.description).unit(text.unit).datasource(SOURCE)
    panel.height(4).span(4).no_value("no data").thresholds(_thresholds(steps))
    panel.color_mode(BigValueColorMode.BACKGROUND).graph_mode(BigValueGraphMode.NONE)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    if words is not None:
        shown = {value: ValueMappingResult(text=word) for value, word in words.items()}
        panel.mappings([ValueMap(options=shown)])
    return panel.targets(_targets(queries, instant=True))


def make_chart(
    text: Text,
    queries: Sequence[Query],
    steps: Steps | None = None,
    style: Literal["lines", "bars", "areas"] = "lines",
) -> timeseries.Panel:
    """Return a panel with a chart of values over time.

    Args:
        text: title, description and unit.
        queries: range queries.
        steps: the colours of dashed threshold lines, from each value upwards; None or empty without such lines.
        style: `bars` stacks events by step, `areas` stacks parts of a whole; `lines` is for everything else.
    """
    panel = timeseries.Panel().title(text.title).description(text.description).unit(text.unit).datasource(SOURCE)
    panel.height(8).span(12).min(0)
    panel.legend(
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(show_legend=True)
    )
    if steps:
        panel.thresholds(_thresholds(steps))
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED))
    if style == "bars":
        panel.draw_style(GraphDrawStyle.BARS)
    if style != "lines":
        panel.fill_opacity(80)
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A"))
    return panel.targets(_targets(queries, instant=False))


def make_timeline(text: Text, query: Query, states: Mapping[int, tuple[str, str]]) -> statetimeline.Panel:
    """Return a panel with a line for each series that shows its state over time.

    `states`: the word and the colour of each value.
    """
    panel = statetimeline.Panel().title(text.title).description(text.description).unit(text.unit).datasource(SOURCE)
    panel.height(12).span(24).row_height(0.9)
    options = {str(value): ValueMappingResult(text=word, color=colour) for value, (word, colour) in states.items()}
    panel.mappings([ValueMap(options=options)])
    return panel.targets(_targets([query], instant=False))


def make_table(text: Text, query: Query, hidden: Sequence[str]) -> table.Panel:
    """Return a panel with one line for each series, without the columns `hidden`."""
    panel = table.Panel().title(text.title).description(text.description).unit(text.unit).datasource(SOURCE)
    panel.height(8).span(12).no_value("none")
    columns = {"excludeByName": dict.fromkeys(hidden, True)}
    panel.with_transformation(DataTransformerConfig(id_val="organize", options=columns))
    target = _target(query, 0, instant=True)
    return panel.targets([target.format(PromQueryFormat.TABLE)])


def _thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    listed = [Threshold(value=None, color=GOOD), *(Threshold(value=at, color=steps[at]) for at in sorted(steps))]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(listed)


def _targets(queries: Sequence[Query], *, instant: bool) -> list[cog.Builder[variants.Dataquery]]:
    return [_target(query, index, instant=instant) for index, query in enumerate(queries)]


def _target(query: Query, index: int, *, instant: bool) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expression).legend_format(query.legend).ref_id(chr(ord("A") + index))
    target.datasource(SOURCE)
    return target.instant() if instant else target.range()
