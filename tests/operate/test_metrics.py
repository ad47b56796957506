"""What is counted, under the names that dashboards and alerts rely on (docs/interface.md, section 5)."""

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
    """All of them, each with something counted."""
    made = Metrics()
    fates = {"applied": 3, "not_watched": 2, "expired": 1, "dead_letter": 2}
    made.batch(5, fates, {"not_json": 2, "unknown_location": 1}, 0.02)
    made.several_places(2)
    made.lag({0: 7, 3: 0})
    made.recovery("takeover")
    made.tick(0, 1_767_225_600.0, {"stations": "decided"}, {("stations", "safe"): 4, ("stations", "paused"): 1})
    made.tick(1, 1_767_229_200.0, {"stations": "unknown"}, {("stations", "unknown"): 5})
    made.lost(1, ["stations", "noon"], 3)
    made.refused(0, ["stations"])
    made.tick_took(0.3)
    return made


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """By name and labels, as Prometheus reads them."""
    text = generate_latest(metrics.registry).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_metric_of_the_interface_is_there_with_its_labels(metrics: Metrics) -> None:
    """Names and labels stay as they are: others query them."""
    found: dict[str, set[str]] = {}
    for name, labels in samples(metrics):
        found.setdefault(name, set()).update(label for label, _ in labels)
    assert {name: found.get(name) for name in NAMES} == NAMES


def test_no_label_can_hold_a_location_or_a_person(metrics: Metrics) -> None:
    """Labels are a closed list, and none of it is about a place or a visitor (docs/rules.md, rule 10)."""
    ours = {label for name, labels in samples(metrics) if name.startswith("location_monitor_") for label, _ in labels}
    assert ours == {"fate", "reason", "monitor", "outcome", "status", "cause", "partition", "le", "version"}


def test_what_happened_is_counted(metrics: Metrics) -> None:
    """Fates, reasons, ticks by outcome, answers by status, the last tick's as_of."""
    found = samples(metrics)

    def value(name: str, **labels: str) -> float:
        return found[f"location_monitor_{name}", tuple(sorted(labels.items()))]

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


def test_the_lag_is_that_of_the_partitions_which_are_read_now(metrics: Metrics) -> None:
    """One that went to another instance is not shown as stuck."""
    metrics.lag({3: 2})
    lags = {
        labels: value for (name, labels), value in samples(metrics).items() if name.endswith("consumer_lag_records")
    }
    assert lags == {(("partition", "3"),): 2}


def test_a_partition_that_was_let_go_has_no_last_tick(metrics: Metrics) -> None:
    """Its gauge would stand still, and look like a partition that nobody decides; what was lost stays counted."""
    metrics.forget_partition(1)
    metrics.forget_partition(1)
    found = samples(metrics)
    last = [dict(labels) for name, labels in found if name.endswith("last_tick_timestamp_seconds")]
    assert last == [{"partition": "0"}]
    assert found["location_monitor_lost_ticks_total", (("partition", "1"),)] == 3


def test_that_ticks_can_be_lost_is_shown_from_the_takeover_on(metrics: Metrics) -> None:
    """A rate over a counter that appears with its first event misses that event."""
    metrics.lost(2, ["stations"], 0)
    assert samples(metrics)["location_monitor_lost_ticks_total", (("partition", "2"),)] == 0


def test_fates_are_shown_before_anything_happened() -> None:
    """A rate over a counter that appears with its first event misses that event."""
    found = samples(Metrics())
    for fate in ("applied", "not_watched", "expired", "dead_letter"):
        assert found["location_monitor_visits_total", (("fate", fate),)] == 0


def test_two_instances_in_one_process_count_apart() -> None:
    """Each has a registry of its own."""
    one, other = Metrics(), Metrics()
    one.recovery("takeover")
    assert not any(name.endswith("recoveries_total") for name, _ in samples(other))


def test_promtool_finds_nothing_to_mend(metrics: Metrics) -> None:
    """Prometheus's own linter, on what is served."""
    promtool = shutil.which("promtool")
    if promtool is None:
        message = "server missing: Prometheus (no promtool on the PATH). To run these tests: make test-tools"
        if os.environ.get("CI"):
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    text = generate_latest(metrics.registry)
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (0, "", "")
