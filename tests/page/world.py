"""A town whose answers tests publish by hand, to a real Kafka, and a page that shows them. The clock is stepped."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from monitor.config.sections import SigningSettings
from monitor.config.valid_config import load_valid_config
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.at_times.record import NoisyCount, make_at_times_record
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.ledger.sign_ticks import SignedLog
from monitor.page.page_threads import PageParts
from monitor.privacy.over_time import Mark, step
from monitor.records.output_records import OutputRecord
from monitor.time.clock import SteppedClock
from monitor.time.instants import HOUR
from tests.builders import select, write_answer
from tests.kit.signed import SIGNER
from tests.kit.topics import create_topic
from tests.shared_kafka import SharedKafka

CONFIG = Path(__file__).parents[2] / "config"
HOURLY = Path(__file__).parents[1] / "kit" / "configs" / "demo.yaml"
FIRST = 24
"""The first tick that tests publish."""


@dataclass
class Town:
    """The answers of a town. `publish` appends the records of a tick to the topic, and moves the clock.

    `signed`: the log that signs the ticks; the page then verifies them. None: they are not signed.
    """

    parts: PageParts
    topic: str
    clock: SteppedClock
    producer: Any
    marks: dict[str, tuple[Mark, ...]] = field(default_factory=dict)
    noisy: dict[int, dict[str, tuple[int, int]]] = field(default_factory=dict)
    signed: SignedLog | None = None

    def with_page(self, **settings: Any) -> PageParts:
        """Return the parts with the topic of this town, and with other settings of the page."""
        config = self.parts.config
        topics = config.kafka.topics.model_copy(update={"alerts": self.topic})
        update = {
            "kafka": config.kafka.model_copy(update={"topics": topics}),
            "page": config.page.model_copy(update=settings),
            "signing": SigningSettings(public_key=None if self.signed is None else str(SIGNER.verifier)),
        }
        return replace(self.parts, config=config.model_copy(update=update))

    @property
    def environment(self) -> dict[str, str]:
        """The environment with which the command `page` shows this town, given the demo's configuration."""
        return {
            "LOCATION_MONITOR__KAFKA__BOOTSTRAP_SERVERS": ",".join(self.parts.kafka.bootstrap_servers),
            "LOCATION_MONITOR__KAFKA__TOPICS__ALERTS": self.topic,
        }

    def publish(
        self,
        tick: int,
        counts: Mapping[str, int | None] | None = None,
        noon: Mapping[str, int] | None = None,
        *,
        complete: bool = True,
    ) -> None:
        """Publish a tick. `counts`: people by place (None: incomplete input); `noon`: new noisy counts at 12:30."""
        grid = self.parts.parameters.grid
        at = grid.as_of(tick)
        records = [*self.alerts(tick, counts or {}), *self.snapshots(tick, noon or {}, complete=complete)]
        checkpoint = [] if self.signed is None else [self.signed.sign(tick, at, records)]
        for key, value, headers, timestamp in [*records, *checkpoint]:
            self.producer.send(self.topic, key=key, value=value, headers=list(headers), timestamp_ms=timestamp)
        self.producer.flush(timeout=10)
        self.clock.move_to(at + HOUR // 100)

    def alerts(self, tick: int, counts: Mapping[str, int | None]) -> Iterable[OutputRecord]:
        """Return the records of the monitor `places`, without noise."""
        parameters = self.parts.parameters
        monitor = select(parameters, OverTime)[0]
        for row, rule in zip(monitor.rows, monitor.rules, strict=True):
            place = parameters.registry.ids[row]
            answer = step(rule, self.marks.get(place, ()), tick, counts.get(place, 0), 0)
            self.marks[place] = answer.marks
            yield write_answer(place, rule, tick, answer, parameters.grid, monitor=monitor.name)

    def snapshots(self, tick: int, noon: Mapping[str, int], *, complete: bool) -> Iterable[OutputRecord]:
        """Return the records of the monitor `midday` about all its live times. `noon` is about the latest of them."""
        parameters = self.parts.parameters
        monitor, grid = select(parameters, AtTimes)[0], parameters.grid
        as_of = grid.as_of(tick)
        live = monitor.list_live_times(as_of)
        for time in live:
            drawn = self.noisy.setdefault(time, {})
            if time == live[-1]:
                drawn |= {place: (tick, count) for place, count in noon.items()}
            for shard, rows in enumerate(parameters.registry.by_shard):
                members = {parameters.registry.ids[row] for row in rows.tolist()}
                yield make_at_times_record(
                    source="demo",
                    monitor=monitor.name,
                    time=time,
                    shard=shard,
                    shards=parameters.registry.shards,
                    tick=tick,
                    as_of=as_of,
                    complete=complete,
                    final=monitor.is_final(time, as_of, grid),
                    registry=parameters.registry.digest,
                    locations=len(rows),
                    threshold=monitor.threshold,
                    epsilon=monitor.epsilon,
                    noisy_counts={place: NoisyCount(*at) for place, at in drawn.items() if place in members},
                )


def make_town(kafka: SharedKafka, folder: Path) -> Town:
    """Return a town with a topic of its own, of one partition, at the origin of its clock.

    Its configuration is that of a town with slots of an hour, with thresholds that few people reach. One place has no
    coordinates.
    """
    shutil.copy(CONFIG / "demo-map.geojson", folder)
    text = HOURLY.read_text(encoding="utf-8").replace("../../../config/", "")
    text = text.replace("threshold: 60", "threshold: 10").replace("threshold: 80", "threshold: 9")
    (folder / "demo.yaml").write_text(text, encoding="utf-8")
    registry = (CONFIG / "demo-locations.csv").read_text(encoding="utf-8")
    (folder / "demo-locations.csv").write_text(f"{registry}bus-library,Library on Wheels,,,library\n", encoding="utf-8")
    valid = load_valid_config(folder / "demo.yaml", {})
    connections, topic = KafkaConnections((kafka.bootstrap_servers,)), f"alerts-{uuid.uuid4().hex[:10]}"
    create_topic(connections, topic)
    parts = PageParts(valid.config, valid.parameters, valid.locations, connections)
    return Town(parts, topic, SteppedClock(valid.parameters.grid.as_of(FIRST)), connections.create_producer())
