"""Finds values of the configuration that make records too large for Kafka, and suggests values that fit."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.config.model import Config
from monitor.contracts.parameters import OverTime, Parameters
from monitor.contracts.record_sizes import (
    LARGEST_OF_ONE_PLACE,
    LARGEST_SNAPSHOT,
    estimate_shards,
    find_max_answers_per_record,
    measure_hot_spots,
    measure_place,
    measure_snapshots,
)
from monitor.errors import Problem


def find_oversized_records(config: Config, parameters: Parameters) -> Iterator[Problem]:
    """Yield a problem for each value that makes records too large. The parameters are those of the configuration."""
    places = {monitor.name: monitor for monitor in parameters.over_time}
    tops = {monitor.name: monitor.top for monitor in parameters.hot_spots}
    for index, monitor in enumerate(config.monitors):
        if monitor.name in places:
            yield from _check_answers(f"monitors.{index}", places[monitor.name])
        if monitor.name in tops:
            yield from _check_top(f"monitors.{index}", parameters, tops[monitor.name])
    if parameters.at_times:
        yield from _check_snapshots(parameters)


def _check_answers(key: str, monitor: OverTime) -> Iterator[Problem]:
    largest = max(set(monitor.rules), key=measure_place)
    size = measure_place(largest)
    if size > LARGEST_OF_ONE_PLACE:
        yield Problem(
            f"{key}.answers_per_window",
            str(largest.answers),
            f"records of at most {LARGEST_OF_ONE_PLACE} bytes: each record repeats all answers that still count, and "
            f"may take {size} bytes",
            f"Set it to {find_max_answers_per_record(largest)} or less, or use a shorter window or longer slots.",
        )


def _check_top(key: str, parameters: Parameters, top: int) -> Iterator[Problem]:
    size = measure_hot_spots(parameters, top)
    if size > LARGEST_SNAPSHOT:
        yield Problem(
            f"{key}.top",
            str(top),
            f"a record of at most {LARGEST_SNAPSHOT} bytes: {top} locations may take {size} bytes",
            "Use a smaller number.",
        )


def _check_snapshots(parameters: Parameters) -> Iterator[Problem]:
    size = max(measure_snapshots(parameters))
    if size > LARGEST_SNAPSHOT:
        yield Problem(
            "service.shards",
            str(parameters.registry.shards),
            f"snapshots of at most {LARGEST_SNAPSHOT} bytes: one with all locations of a shard may take {size} bytes",
            f"Set it to {2 * estimate_shards(parameters, LARGEST_SNAPSHOT)} or more.",
        )
