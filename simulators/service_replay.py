"""Replay visits of public data through the service itself, on a real Kafka and Valkey."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from rich.console import Console

from monitor.config.valid_config import load_valid_config
from monitor.errors import FailedError
from monitor.kinds.all_records import read_record
from monitor.kinds.at_times.record import AtTimesSnapshot
from monitor.kinds.over_time.record import OverTimeAlert
from monitor.operate.convert.files import REGISTRY_HEADER, VISITS_HEADER
from monitor.operate.replay.driver import Summary, plan_replay, replay, start_embedded, write_output
from monitor.operate.replay.progress import show_progress
from monitor.records.output_records import OutputRecord
from simulators.write_results import write_csv

CONFIG: Final = "config.yaml"
VISITS: Final = "visits.csv"
ALERTS: Final = "alerts.jsonl"

Entry = OverTimeAlert | AtTimesSnapshot
Observe = Callable[[int, Entry], None]
"""A function that is called with a tick and each answer published at it."""


def write_files(
    folder: Path, location_ids: Iterable[str], visits: Iterable[Sequence[str]], sections: Mapping[str, object]
) -> None:
    """Write the registry, the visits (rows of a replay file) and the configuration.

    `sections`: the sections `service`, `clock`, `visits`, `privacy` and `monitors` of the configuration.
    """
    write_csv(folder / "locations.csv", REGISTRY_HEADER, ((name, "", "", "") for name in location_ids))
    write_csv(folder / VISITS, VISITS_HEADER, visits)
    config = {
        **sections,
        "locations": {"file": "locations.csv"},
        "kafka": {
            "bootstrap_servers": ["localhost:9092"],
            "topics": {"visits": "visits", "alerts": "alerts", "dead_letters": "dead-letters"},
            "partitions": {"visits": 1, "alerts": 1},
        },
        "redis": {"url": "redis://localhost:6379/0"},
    }
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML


def replay_files(folder: Path, title: str, observe: Observe, console: Console) -> Summary:
    """Replay the files of a folder, and write the output topic to ALERTS.

    Raises:
        EmbeddedError: the servers cannot start.
        FailedError: an answer was "unknown", or the replay failed.
    """
    unknown = 0
    valid = load_valid_config(folder / CONFIG, {})
    with start_embedded(valid, lambda text: console.print(text, highlight=False, soft_wrap=True)) as settings:
        planned = plan_replay(folder / VISITS, settings.parameters, None, lambda: None)
        total = max(0, planned.last_tick - planned.first_tick + 1)
        with closing(planned.lines), show_progress(f"{title}, by the service", total, "ticks", console) as steps:

            def on_tick(tick: int, records: Sequence[OutputRecord]) -> None:
                nonlocal unknown
                for record in records:
                    entry = read_record(record.key, record.value, record.headers)
                    if isinstance(entry, Entry):
                        unknown += entry.status == "unknown"
                        observe(tick, entry)
                steps.advance()

            summary = replay(settings, planned, on_tick)
        write_output(settings.kafka, valid.config.kafka.topics.alerts, 1, folder / ALERTS)
    if unknown:
        raise FailedError(f"{title}: {unknown} answers were unknown; run it again on a less busy machine")
    return summary
