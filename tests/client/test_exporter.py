"""The published answers as metrics: the states of places over time, from the output topic alone."""

from __future__ import annotations

import threading
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from monitor.client.exporter import (
    CODES,
    MOST_PLACES,
    PUBLIC_METRICS,
    STATES,
    ExportOptions,
    PublicMetrics,
    export,
    export_command,
)
from monitor.client.subscription import open_places
from monitor.client.topic_consumer import read_topic_id
from monitor.client.verification import Trust
from monitor.ledger.sign_ticks import SignedLog
from monitor.records.output_records import OutputRecord
from monitor.service.wiring import Settings
from monitor.time.clock import SteppedClock
from monitor.time.instants import HOUR, SECOND
from tests.client.conftest import Publish
from tests.client.records import REGISTRY, SLOTS, over_time
from tests.conftest import Eventually
from tests.kit.signed import SIGNER


def series(metrics: PublicMetrics) -> dict[tuple[str, ...], float]:
    """Return the values by name, without prefix, and labels, without the metrics of the process."""
    return {
        (sample.name.removeprefix("location_monitor_public_"), *sample.labels.values()): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name.startswith("location_monitor_")
    }


def test_states_follow_the_topic(settings: Settings, publish: Publish, eventually: Eventually) -> None:
    """Each place has the state of its latest answer, and becomes unknown when the answer expires."""
    first, second = REGISTRY.ids[:2]
    publish([over_time(first, 7, 0), over_time(second, 7, 12)])
    clock, stop, metrics = SteppedClock(SLOTS.as_of(7)), threading.Event(), PublicMetrics(REGISTRY.ids, HOUR, 50)
    with open_places(settings.kafka, settings.config.kafka.topics.alerts, REGISTRY, HOUR, clock) as places:
        exporting = threading.Thread(target=export, args=(places, metrics, stop))
        exporting.start()
        try:
            eventually(lambda: ("as_of_timestamp_seconds",) in series(metrics), 30)
            values = series(metrics)
            assert values["as_of_timestamp_seconds",] == SLOTS.as_of(7) / SECOND
            assert (values["state", first], values["state", second]) == (CODES["safe"], CODES["noisy_count"])
            counts = {state: values["places", state] for state in STATES}
            assert counts == {
                "safe": 1,
                "noisy_count": 1,
                "below_since": 0,
                "paused": 0,
                "unknown": len(REGISTRY.ids) - 2,
                "bounded": 0,
            }
            publish([over_time(first, 8, None)])
            clock.move_to(SLOTS.as_of(8))
            eventually(lambda: series(metrics)["state", first] == CODES["unknown"])
            assert series(metrics)["state", second] == CODES["noisy_count"]
            clock.move_to(SLOTS.as_of(12))
            eventually(lambda: series(metrics)["places", "unknown"] == len(REGISTRY.ids))
        finally:
            stop.set()
            exporting.join(30)


@pytest.mark.promise(45)
def test_forged_tick_is_not_verified(settings: Settings, publish: Publish, eventually: Eventually) -> None:
    """With the public key, the gauge says whether answers are not shown because they are not verified.

    tick    7 c  | since      8 c        9      10 c
    value     0  | 1          0          1 (no checkpoint)
    """
    topic, stop, metrics = settings.config.kafka.topics.alerts, threading.Event(), PublicMetrics(REGISTRY.ids, HOUR, 50)
    publish([])
    with closing(settings.kafka.create_admin()) as admin:
        log = SignedLog(SIGNER, "town", read_topic_id(admin, topic), 0)

    def sign(tick: int) -> list[OutputRecord]:
        answers = [over_time("market", tick, 0)]
        return [*answers, log.sign(tick, SLOTS.as_of(tick), answers)]

    publish(sign(7))
    clock, trust = SteppedClock(SLOTS.as_of(8)), Trust(SIGNER.verifier, SLOTS.as_of(7))
    with open_places(settings.kafka, topic, REGISTRY, HOUR, clock, trust=trust) as places:
        exporting = threading.Thread(target=export, args=(places, metrics, stop))
        exporting.start()
        try:
            eventually(lambda: series(metrics)["not_verified",] == 1, 30)
            publish(sign(8))
            eventually(lambda: series(metrics)["not_verified",] == 0)
            assert series(metrics)["places", "safe"] == 1
            publish([over_time("market", 9, 0), *sign(10)])
            eventually(lambda: series(metrics)["not_verified",] == 1)
            assert series(metrics)["places", "unknown"] == len(REGISTRY.ids)
        finally:
            stop.set()
            exporting.join(30)


def test_series_are_capped() -> None:
    """Only the first places have series, and the counts are of all; a million places have no more series."""
    metrics = PublicMetrics(REGISTRY.ids, HOUR, 1)
    values = series(metrics)
    assert [key[1] for key in values if key[0] == "state"] == [REGISTRY.ids[0]]
    assert values["places_left_out",] == len(REGISTRY.ids) - 1
    assert values["places", "unknown"] == len(REGISTRY.ids)
    many = PublicMetrics([f"place-{number}" for number in range(MOST_PLACES + 10)], HOUR, 10**6)
    assert sum(key[0] == "state" for key in series(many)) == MOST_PLACES


def test_every_catalogued_metric_is_exported() -> None:
    """The metrics are those of the catalog; the latest answer's time, and bounds, are absent without an answer."""
    names = {f"public_{key[0]}" for key in series(PublicMetrics(REGISTRY.ids, HOUR, 5))}
    assert names == {metric.name for metric in PUBLIC_METRICS} - {
        "public_as_of_timestamp_seconds",
        "public_count_at_most",
    }


@pytest.mark.promise(22)
def test_command_needs_the_topic_only(
    configured: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """The command runs without Redis, person key and password, and serves nothing but public answers."""
    publish([])
    monkeypatch.setenv("LOCATION_MONITOR__REDIS__URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("LOCATION_MONITOR__VISITS__PERSON_KEY_FILE", "/nowhere/absent.key")
    lines, stop = list[str](), threading.Event()
    serving = threading.Thread(target=export_command, args=(configured, ExportOptions(0, places=2), stop, lines.append))
    serving.start()
    try:
        (line,) = eventually(lambda: lines, 30)
        with urllib.request.urlopen(f"http://{line.rpartition('//')[2]}", timeout=10) as response:
            text = response.read().decode()
    finally:
        stop.set()
        serving.join(30)
    names = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    ours = {name for name in names if not name.startswith(("process_", "python_"))}
    assert ours
    assert all(name.startswith("location_monitor_public_") for name in ours)
