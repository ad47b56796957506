"""Metrics under the names that dashboards and alerts use (docs/interface.md, section 5)."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from monitor import __version__
from monitor.operate.metrics import Metrics

NAMES = {
    "location_monitor_visits_total": {"fate"},
    "location_monitor_records_total": set(),
    "location_monitor_dead_letters_total": {"reason"},
    "location_monitor_people_at_several_places_total": set(),
    "location_monitor_ticks_total": {"monitor", "outcome"},
    "location_monitor_answers_total": {"monitor", "status"},
    "location_monitor_recoveries_total": {"cause"},
    "location_monitor_consumer_lag_records": {"partition"},
    "location_monitor_tick_seconds_bucket": {"le"},
    "location_monitor_ingest_batch_seconds_bucket": {"le"},
    "location_monitor_lost_ticks_total": {"partition"},
    "location_monitor_last_tick_timestamp_seconds": {"partition"},
    "location_monitor_build_info": {"version"},
}


@pytest.fixture
def metrics() -> Metrics:
    """Metrics with values for each of them."""
    metrics = Metrics()
    fates = {"applied": 3, "not_watched": 2, "expired": 1, "dead_letter": 2}
    metrics.batch(5, fates, {"not_json": 2, "unknown_location": 1}, 0.02)
    metrics.several_places(2)
    metrics.lag({0: 7, 3: 0})
    metrics.recovery("takeover")
    metrics.tick(0, 1_767_225_600.0, {"stations": "decided"}, {("stations", "safe"): 4, ("stations", "paused"): 1})
    metrics.tick(1, 1_767_229_200.0, {"stations": "unknown"}, {("stations", "unknown"): 5})
    metrics.lost(1, ["stations", "noon"], 3)
    metrics.refused(0, ["stations"])
    metrics.tick_took(0.3)
    return metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The samples by name and labels, as Prometheus parses them."""
    text = generate_latest(metrics.registry).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_interface_metrics_exist(metrics: Metrics) -> None:
    """Each metric of the interface exists with its labels."""
    labels_by_name: dict[str, set[str]] = {}
    for name, labels in samples(metrics):
        labels_by_name.setdefault(name, set()).update(label for label, _ in labels)
    assert {name: labels_by_name.get(name) for name in NAMES} == NAMES


@pytest.mark.promise(22)
def test_no_label_for_locations_or_people(metrics: Metrics) -> None:
    """The closed list of labels contains no location and no person (docs/rules.md, rule 10)."""
    ours = {label for name, labels in samples(metrics) if name.startswith("location_monitor_") for label, _ in labels}
    assert ours == {"fate", "reason", "monitor", "outcome", "status", "cause", "partition", "le", "version"}


def test_events_are_counted(metrics: Metrics) -> None:
    """Fates, reasons, outcomes, statuses and the last tick are recorded."""
    values = samples(metrics)

    def value(name: str, **labels: str) -> float:
        return values[f"location_monitor_{name}", tuple(sorted(labels.items()))]

    assert value("records_total") == 5
    assert [value("visits_total", fate=fate) for fate in ("applied", "not_watched", "expired", "dead_letter")] == [
        3,
        2,
        1,
        2,
    ]
    assert value("dead_letters_total", reason="not_json") == 2
    assert value("dead_letters_total", reason="unknown_location") == 1
    assert value("people_at_several_places_total") == 2
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
    assert value("build_info", version=__version__) == 1


def test_lag_covers_assigned_partitions_only(metrics: Metrics) -> None:
    """The lag of a partition that another instance reads is removed."""
    metrics.lag({3: 2})
    lags = {
        labels: value for (name, labels), value in samples(metrics).items() if name.endswith("consumer_lag_records")
    }
    assert lags == {(("partition", "3"),): 2}


def test_forgotten_partition_has_no_last_tick(metrics: Metrics) -> None:
    """A released partition has no last tick, which would look stuck; its lost ticks stay counted."""
    metrics.forget_partition(1)
    metrics.forget_partition(1)
    values = samples(metrics)
    last = [dict(labels) for name, labels in values if name.endswith("last_tick_timestamp_seconds")]
    assert last == [{"partition": "0"}]
    assert values["location_monitor_lost_ticks_total", (("partition", "1"),)] == 3


def test_lost_ticks_start_at_zero(metrics: Metrics) -> None:
    """lost_ticks exists from the takeover on; a rate would miss the first event of a new counter."""
    metrics.lost(2, ["stations"], 0)
    assert samples(metrics)["location_monitor_lost_ticks_total", (("partition", "2"),)] == 0


def test_fates_start_at_zero() -> None:
    """All fates exist from the start; a rate would miss the first event of a new counter."""
    values = samples(Metrics())
    for fate in ("applied", "not_watched", "expired", "dead_letter"):
        assert values["location_monitor_visits_total", (("fate", fate),)] == 0


def test_instances_count_separately() -> None:
    """Two instances in one process have separate registries."""
    first, second = Metrics(), Metrics()
    first.recovery("takeover")
    assert not any(name.endswith("recoveries_total") for name, _ in samples(second))


def test_promtool_accepts_metrics(metrics: Metrics) -> None:
    """Prometheus's linter accepts the metrics."""
    promtool = shutil.which("promtool")
    if promtool is None:
        message = "server missing: Prometheus (no promtool on the PATH). To run these tests: make test-tools"
        if os.environ.get("CI"):
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    text = generate_latest(metrics.registry)
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (0, "", "")
