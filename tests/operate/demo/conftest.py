"""A demo's story without servers: fixtures build the published records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from monitor.config.derive_parameters import derive_parameters
from monitor.config.load import load_config
from monitor.config.registry import load_registry
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.at_times.record import NoisyCount, make_at_times_record
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.kinds.parameters import Parameters
from monitor.observe.update_service_metrics import Metrics
from monitor.operate.demo.story import Story
from monitor.privacy.over_time import Mark, step
from monitor.records.output_records import OutputRecord
from tests.builders import select, write_answer

HOURLY = Path(__file__).parents[2] / "kit" / "configs" / "demo.yaml"


@pytest.fixture
def story() -> Story:
    """Two days of a town with slots of an hour."""
    config = load_config(HOURLY, {})
    locations = load_registry(config.locations.file)
    names = {location.id: location.name for location in locations if location.name}
    return Story(derive_parameters(config, locations.ids), 0, 47, names)


Published = Callable[..., list[OutputRecord]]


@pytest.fixture
def published(story: Story) -> Published:
    """A function that builds all records of a tick.

    `published(13, 2)`: at tick 13 the first two places of the monitor over time, and four places of the monitor at
    designated times (one per shard), have noisy counts.
    """

    def build(tick: int, noisy: int = 0) -> list[OutputRecord]:
        return [*_over_time(story.parameters, tick, noisy), *_at_times(story.parameters, tick, noisy)]

    return build


@pytest.fixture
def metrics() -> Metrics:
    """The metrics of a service that has read a hundred visits, two of them invalid."""
    metrics = Metrics()
    metrics.count_batch(3, {"applied": 98, "dead_letter": 2}, {}, 0.1)
    return metrics


def _over_time(parameters: Parameters, tick: int, noisy: int) -> Iterator[OutputRecord]:
    monitor = select(parameters, OverTime)[0]
    for n, (row, rule) in enumerate(zip(monitor.rows, monitor.rules, strict=True)):
        mark = Mark(tick - 1, 12, rule.answer_epsilon, tick + rule.mark_lifetime - 2)
        answer = step(rule, (mark,) if noisy and n == 0 else (), tick, 70 if n < noisy else 0, 0)
        yield write_answer(parameters.registry.ids[row], rule, tick, answer, parameters.grid, monitor=monitor.name)


def _at_times(parameters: Parameters, tick: int, noisy: int) -> Iterator[OutputRecord]:
    timed, registry = select(parameters, AtTimes)[0], parameters.registry
    for time in timed.list_live_times(parameters.grid.as_of(tick)):
        for shard, rows in enumerate(registry.by_shard):
            yield make_at_times_record(
                source="demo",
                monitor=timed.name,
                time=time,
                shard=shard,
                shards=registry.shards,
                tick=tick,
                as_of=parameters.grid.as_of(tick),
                complete=True,
                final=False,
                registry=registry.digest,
                locations=len(rows),
                threshold=timed.threshold,
                epsilon=Fraction(1),
                noisy_counts={registry.ids[row]: NoisyCount(tick, 11) for row in rows[:1]} if noisy else {},
            )
