"""The load and the servers to compute with: from the configuration, from options, or from defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from monitor.config import ValidConfig
from monitor.contracts.instants import DAY, SECOND
from monitor.contracts.parameters import Parameters, Timed
from monitor.kafka.topics import list_topic_needs

_REPLICAS: Final = 3


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `size`. `places`, `watched` and `kafka_replicas` come from the configuration if None."""

    visits_per_hour: int
    people: int
    places: int | None = None
    watched: int | None = None
    places_per_person: float = 10.0
    busy_factor: float = 3.0
    catch_up: float = 5.0
    visit_bytes: int = 150
    kafka_replicas: int | None = None
    redis_replicas: int = 1
    redis_gib: float = 32.0
    broker_tib: float = 4.0
    broker_mib_per_second: float = 50.0


@dataclass(frozen=True, slots=True)
class Load:
    """All numbers that the calculation starts from. Durations are in seconds.

    `live` is the largest number of designated times that are live at once. `timed` counts only those of `at_times`
    monitors, which a tick evaluates for all places, and counts each time once for each monitor.
    """

    options: Options
    places: int
    watched: int
    slot: float
    input_retention: float
    output_retention: float
    live: int
    timed: int
    kafka_replicas: int


def read_load(valid: ValidConfig, options: Options) -> Load:
    """Combine a configuration with options."""
    config, parameters = valid.config, valid.parameters
    visits, alerts, _ = list_topic_needs(parameters, config.kafka)
    settings = [{setting.key: setting.create for setting in need.settings} for need in (visits, alerts)]
    return Load(
        options,
        options.places or len(valid.locations),
        int(parameters.watched_rows.size) if options.watched is None else options.watched,
        parameters.grid.length / SECOND,
        _read_retention(settings[0]),
        _read_retention(settings[1]),
        _count_live(parameters, distinct=True),
        _count_live(parameters, distinct=False),
        options.kafka_replicas or config.kafka.replication_factor or _REPLICAS,
    )


def _read_retention(settings: Mapping[str, str]) -> float:
    return int(settings["retention.ms"]) / 1_000


def _count_live(parameters: Parameters, *, distinct: bool) -> int:
    """Return the most designated times that are live at once.

    If `distinct`, a time that several monitors share counts once. Otherwise only `at_times` monitors count, and a time
    counts once for each of them.
    """
    if not distinct:
        return sum(_count_times(monitor) for monitor in parameters.at_times)
    longest: dict[object, Timed] = {}
    for monitor in parameters.timed:
        schedule = monitor.times
        known = longest.get((schedule.instants, schedule.daily, schedule.zone))
        if known is None or known.horizon < monitor.horizon:
            longest[(schedule.instants, schedule.daily, schedule.zone)] = monitor
    return sum(_count_times(monitor) for monitor in longest.values())


def _count_times(monitor: Timed) -> int:
    instants, horizon = monitor.times.instants, monitor.horizon
    daily = len(monitor.times.daily) * -(-horizon // DAY)
    most = max((sum(at <= other < at + horizon for other in instants) for at in instants), default=0)
    return daily + most
