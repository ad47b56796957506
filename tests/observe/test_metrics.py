"""Metrics under the names that dashboards and alerts use (docs/reference.md)."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from monitor import __version__
from monitor.client.exporter import PublicMetrics
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.observe.prometheus_metric import PREFIX, Collectors
from monitor.observe.service_metrics import FATES, METRICS, OUTCOMES, STATUSES
from monitor.observe.update_service_metrics import Metrics
from monitor.page.metrics import PageMetrics
from monitor.time.instants import HOUR, MINUTE
from tests.needed_programs import run_promtool

STATUSES_OF: Final = {"stations": OverTime.statuses, "noon": AtTimes.statuses}


def test_catalog_has_all_statuses() -> None:
    """The catalog lists the statuses of every kind."""
    assert set(STATUSES) == {status for statuses in STATUSES_OF.values() for status in statuses}


@pytest.fixture
def metrics() -> Metrics:
    """Metrics with values for each of them."""
    metrics = Metrics(lambda: 1_767_225_600.0)
    metrics.describe_configuration(3600.0, 30.0, (Fraction(2), Fraction(1, 2)), STATUSES_OF)
    metrics.watch_readiness(lambda: True)
    fates = {"applied": 3, "too_late": 4, "not_watched": 2, "expired": 1, "dead_letter": 2}
    metrics.count_batch(5, fates, {"not_json": 2, "unknown_location": 1}, 0.02)
    metrics.observe_timestamps(1_767_225_598.5, {0: 1_767_225_599.0, 3: 1_767_225_500.0})
    metrics.observe_report_delays([3, 3, *[5] * 11, 6], 50.5)
    metrics.observe_report_delays([1] * 14, 0)
    metrics.count_people_at_several_places(2)
    metrics.count_cut(4)
    metrics.set_lag({0: 7, 3: 0})
    metrics.count_recovery("takeover")
    metrics.count_tick(
        0, 1_767_225_600.0, {"stations": "decided"}, {("stations", "safe"): 4, ("stations", "paused"): 1}
    )
    metrics.count_tick(1, 1_767_229_200.0, {"stations": "unknown"}, {("stations", "unknown"): 5})
    metrics.count_lost(1, ["stations", "noon"], 3)
    metrics.count_refused(0, ["stations"])
    metrics.observe_tick(0.3, 30.2)
    metrics.count_unknown({"input_behind": 2})
    metrics.set_missing({2: 7, 3: 0})
    metrics.describe_instance("0123456789abcdef", "3f2a", "redis://redis:6379")
    return metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return the samples by name and labels, as Prometheus parses them."""
    text = generate_latest(metrics.registry).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_catalogued_metric_is_exposed(metrics: Metrics) -> None:
    """Each metric of the catalog exists with its labels, and no other metric has the prefix."""
    labels_by_name: dict[str, set[str]] = {}
    for name, labels in samples(metrics):
        if name.startswith(PREFIX):
            labels_by_name.setdefault(re.sub("_(bucket|sum|count)$", "", name), set()).update(dict(labels))
    assert {name: labels - {"le"} for name, labels in labels_by_name.items()} == {
        metric.exposed_name: set(metric.labels) for metric in METRICS
    }


@pytest.mark.promise(22)
def test_no_label_for_locations_or_people(metrics: Metrics) -> None:
    """The closed list of labels contains no location and no person (docs/rules.md, rule 10)."""
    ours = {label for name, labels in samples(metrics) if name.startswith("location_monitor_") for label, _ in labels}
    closed = {"fate", "reason", "monitor", "outcome", "status", "cause"}
    assert ours == closed | {"partition", "le", "version", "configuration", "person_key", "store"}


def test_events_are_counted(metrics: Metrics) -> None:
    """Fates, reasons, outcomes, statuses and the last tick are recorded."""
    values = samples(metrics)

    def value(name: str, **labels: str) -> float:
        return values[f"location_monitor_{name}", tuple(sorted(labels.items()))]

    assert value("records_total") == 5
    assert [value("visits_total", fate=fate) for fate in FATES] == [3, 4, 2, 1, 2]
    assert value("dead_letters_total", reason="not_json") == 2
    assert value("dead_letters_total", reason="unknown_location") == 1
    assert value("people_at_several_places_total") == 2
    assert value("visits_cut_total") == 4
    assert value("recoveries_total", cause="takeover") == 1
    for monitor, outcome, ticks in (
        ("stations", "decided", 1),
        ("stations", "unknown", 1),
        ("stations", "skipped", 3),
        ("noon", "skipped", 3),
        ("stations", "refused", 1),
    ):
        assert value("ticks_total", monitor=monitor, outcome=outcome) == ticks
    assert value("answers_total", monitor="stations", status="safe") == 4
    assert [value("lost_ticks_total", partition=partition) for partition in ("0", "1")] == [0, 3]
    last = [value("last_tick_timestamp_seconds", partition=partition) for partition in ("0", "1")]
    assert last == [1_767_225_600, 1_767_229_200]
    assert value("tick_seconds_sum") == 0.3
    assert value("ingest_batch_seconds_count") == 1
    assert value("fact_delay_seconds_sum") == 1.5
    within = {bound: value("report_delay_seconds_bucket", le=bound) for bound in ("3600.0", "21600.0", "+Inf")}
    assert within == {"3600.0": 4, "21600.0": 6, "+Inf": 7}
    assert (value("report_delay_seconds_count"), value("report_delay_seconds_sum")) == (7, 50.5)
    assert value("input_timestamp_seconds", partition="3") == 1_767_225_500
    assert value("build_info", version=__version__) == 1


def test_lag_covers_assigned_partitions_only(metrics: Metrics) -> None:
    """The lag and the time of a partition that another instance reads are removed."""
    metrics.set_lag({3: 2})
    for ending in ("consumer_lag_records", "input_timestamp_seconds"):
        assert [dict(labels) for name, labels in samples(metrics) if name.endswith(ending)] == [{"partition": "3"}]
    assert samples(metrics)["location_monitor_consumer_lag_records", (("partition", "3"),)] == 2


def test_unknown_missing_records_are_absent(metrics: Metrics) -> None:
    """If it is not known which records a tick lacked, no value is shown: 0 means that the tick was complete."""
    name = "location_monitor_tick_missing_records"
    assert samples(metrics)[name, (("partition", "2"),)] == 7
    metrics.set_missing({})
    assert not [labels for exposed, labels in samples(metrics) if exposed == name]


def test_forgotten_partition_has_no_last_tick(metrics: Metrics) -> None:
    """A released partition has no last tick, which would look stuck; its lost ticks stay counted."""
    metrics.forget_partition(1)
    metrics.forget_partition(1)
    values = samples(metrics)
    last = [dict(labels) for name, labels in values if name.endswith("last_tick_timestamp_seconds")]
    assert last == [{"partition": "0"}]
    assert values["location_monitor_lost_ticks_total", (("partition", "1"),)] == 3


def test_lost_ticks_start_at_zero(metrics: Metrics) -> None:
    """The counters of losses exist from the takeover on; a rate would miss the first event of a new counter."""
    names = [(f"location_monitor_lost_{what}_total", (("partition", "2"),)) for what in ("ticks", "answers")]
    for answers, expected in ((None, [0, 0]), (3, [1, 3]), (2, [2, 5])):
        metrics.count_lost(2, [], 0 if answers is None else 1, answers or 0)
        values = samples(metrics)
        assert [values[name] for name in names] == expected


def test_closed_sets_start_at_zero() -> None:
    """Every series with a closed set of label values exists from the start; a rate misses the first event of others."""
    values = samples(Metrics())
    closed = [metric for metric in METRICS if metric.kind == "counter" and metric.list_closed_labels()]
    assert {metric.name for metric in closed} == {"visits", "dead_letters", "recoveries", "unknown_shards"}
    for metric in closed:
        for combination in metric.list_closed_labels():
            assert values[metric.exposed_name, tuple(zip(metric.labels, combination, strict=True))] == 0


def test_series_of_monitors_start_at_zero() -> None:
    """The series of each configured monitor exist from the start."""
    metrics = Metrics()
    metrics.describe_configuration(3600.0, 30.0, (Fraction(2), Fraction(1)), STATUSES_OF)
    values = samples(metrics)
    for monitor, statuses in STATUSES_OF.items():
        for outcome in OUTCOMES:
            assert values["location_monitor_ticks_total", (("monitor", monitor), ("outcome", outcome))] == 0
        for status in statuses:
            assert values["location_monitor_answers_total", (("monitor", monitor), ("status", status))] == 0


def test_no_created_series(metrics: Metrics) -> None:
    """No counter has a second series with the time of its creation."""
    assert not [name for name, _ in samples(metrics) if name.endswith("_created")]


def test_consecutive_unknown_ticks_are_counted(metrics: Metrics) -> None:
    """Unknown ticks of a partition add up, and a known tick sets the number to 0."""
    name, labels = "location_monitor_consecutive_unknown_ticks", (("partition", "1"),)
    assert samples(metrics)[name, labels] == 1
    metrics.count_tick(1, 1_767_232_800.0, {"stations": "unknown", "noon": "decided"}, {})
    assert samples(metrics)[name, labels] == 2
    metrics.count_tick(1, 1_767_236_400.0, {"stations": "decided"}, {})
    assert samples(metrics)[name, labels] == 0


@pytest.mark.parametrize("kind", ["service", "page", "public answers"])
def test_promtool_accepts_metrics(metrics: Metrics, kind: str) -> None:
    """Prometheus's linter accepts the metrics of the service, of the page and of a subscriber."""
    page, public = PageMetrics(MINUTE, MINUTE, float, str, str, list), PublicMetrics(["inn"], HOUR, 5)
    page.set_as_of(HOUR)
    page.set_written(HOUR, 1)
    public.show((), "2026-01-05T00:00:00Z")
    collectors: dict[str, Collectors] = {"service": metrics, "page": page, "public answers": public}
    text = generate_latest(collectors[kind].registry)
    assert run_promtool("check", "metrics", text=text.decode()) == ""


def test_instance_has_one_description(metrics: Metrics) -> None:
    """The description of an instance replaces the earlier one, for example after the input topic was re-created."""
    metrics.describe_instance("new", "3f2a", "redis://redis:6379")
    found = [dict(labels)["configuration"] for name, labels in samples(metrics) if name == f"{PREFIX}_instance_info"]
    assert found == ["new"]
