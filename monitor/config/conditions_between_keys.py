"""The conditions that relate values of the configuration to each other, each with its remedy.

A condition is checked if all values that it compares are valid. An invalid value therefore does not prevent the checks
of the others, and all problems are listed at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from monitor.config.kafka_and_redis import SENTINEL_USER, TLS_FILES, KafkaSettings, check_kafka, check_redis
from monitor.config.sections import ClockSettings, ServiceSettings, VisitsSettings
from monitor.config.whole_config import Config
from monitor.errors import Problem
from monitor.kinds.base.keys_and_parameters import ConfiguredMonitor, ValidKeys, are_valid
from monitor.time.instants import format_duration
from monitor.values.single_values import MAX_SHARDS, find_similar
from monitor.values.whole_slots import report_not_whole

SLOTS: Final = 2**31
"""The limit of W + F. The last slot of a visit is stored as a signed number of 32 bits."""

_SEARCHES: Final = 20
_COMPARABLE: Final = 10_000  # the search for a similar id takes linear time, so the number of searches is limited

_GROUP_OF_ANOTHER: Final = re.compile(r"-(release|[0-9a-f]{16})\Z")


@dataclass(frozen=True, slots=True)
class Values:
    """The valid values of a configuration, the monitors by index, and the keys of the invalid values.

    A section or monitor lacks its invalid values, so a condition reads only values that it `has`.
    """

    config: Config
    monitors: Mapping[int, ConfiguredMonitor]
    invalid: frozenset[str] = frozenset()

    def has(self, *keys: str) -> bool:
        """Return whether the values of all these keys are valid, with everything above and below them."""
        return are_valid(keys, self.invalid)


def find_broken_conditions(values: Values) -> Iterator[Problem]:
    """Yield a problem for each broken condition."""
    has = values.has
    if has("clock.release_delay", "clock.slot", "clock.tolerance"):
        yield from _check_release_delay(values.config.clock)
    if has("clock.slot", "visits.accept_ahead"):
        yield from _check_max_lead(values.config.clock, values.config.visits)
    if has("clock.slot", "visits.accept_ahead", "visits.default_stay"):
        yield from _check_reach(values)
    if has("service.name"):
        yield from _check_service_name(values.config.service)
    yield from _check_monitor_names(values)
    slot = values.config.clock.slot if has("clock.slot") else None
    for index, monitor in values.monitors.items():
        yield from monitor.find_problems(ValidKeys(f"monitors.{index}", values.invalid, slot))
    yield from check_kafka(values.config.kafka, has)
    if has("kafka.partitions.alerts", "service.shards"):
        yield from _check_shards(values.config.service, values.config.kafka)
    if has(*(f"redis.{name}" for name in ("url", "username", "cluster", "sentinels", *SENTINEL_USER, *TLS_FILES))):
        yield from check_redis(values.config.redis)


def _check_release_delay(clock: ClockSettings) -> Iterator[Problem]:
    delay, tolerance = clock.release_delay, clock.tolerance
    if delay + 2 * tolerance >= clock.slot:
        most = clock.slot - 2 * tolerance
        yield Problem(
            "clock.release_delay",
            format_duration(delay),
            f"release_delay + 2·tolerance < slot ({format_duration(clock.slot)}), so that ticks do not overlap",
            f"With a tolerance of {format_duration(tolerance)} set it below {format_duration(most)}."
            if most > 0
            else "Lower clock.tolerance or lengthen clock.slot.",
        )
    if delay <= tolerance:
        yield Problem(
            "clock.release_delay",
            format_duration(delay),
            f"more than clock.tolerance ({format_duration(tolerance)}), because a tick is read that long after its end",
            "Raise release_delay or lower tolerance.",
        )


def _check_max_lead(clock: ClockSettings, visits: VisitsSettings) -> Iterator[Problem]:
    if visits.accept_ahead % clock.slot:
        yield report_not_whole("visits.accept_ahead", visits.accept_ahead, clock.slot)


def _check_reach(values: Values) -> Iterator[Problem]:
    """Check that the last slot of a visit fits in 32 bits, as a difference to the slot of its record (W + F slots)."""
    slot, visits = values.config.clock.slot, values.config.visits
    windows = {
        f"monitors.{index}.window": monitor.longest_window
        for index, monitor in values.monitors.items()
        if values.has(f"monitors.{index}.window")
    }
    lead = {"visits.accept_ahead": visits.accept_ahead, "visits.default_stay": visits.default_stay}
    slots = sum(-(-part // slot) for part in (*lead.values(), max(windows.values(), default=0)))
    if slots >= SLOTS:
        parts = windows | lead
        key = max(parts, key=parts.__getitem__)
        yield Problem(
            key,
            format_duration(parts[key]),
            f"fewer than 2^31 slots of {format_duration(slot)} for the widest window, accept_ahead and default_stay "
            f"together, which now take {slots}",
            "Lower it, or lengthen clock.slot.",
        )


def _check_service_name(service: ServiceSettings) -> Iterator[Problem]:
    ending = _GROUP_OF_ANOTHER.search(service.name)
    if ending is not None:
        yield Problem(
            "service.name",
            repr(service.name),
            "a name that does not end in -release, or in - and 16 hexadecimal digits",
            f"Rename it: a service {service.name[: ending.start()]!r} would use a consumer group of this name, and the "
            "two services would take each other's partitions.",
        )


def _check_monitor_names(values: Values) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, monitor in values.monitors.items():
        if not values.has(f"monitors.{index}.name"):
            continue
        other = first.setdefault(monitor.name, index)
        if other != index:
            yield Problem(
                f"monitors.{index}.name",
                repr(monitor.name),
                f"a unique name, but monitors.{other} has the same",
                "Rename one: records contain the monitor's name.",
            )


def _check_shards(service: ServiceSettings, kafka: KafkaSettings) -> Iterator[Problem]:
    shards, ledger_partitions = service.shards, kafka.partitions.alerts
    if shards % ledger_partitions:
        candidates = [
            str(number) for number in find_nearest_multiples(shards, ledger_partitions) if number <= MAX_SHARDS
        ]
        yield Problem(
            "service.shards",
            str(shards),
            f"a multiple of kafka.partitions.alerts ({ledger_partitions}): each shard belongs to one output partition",
            f"Set it to {' or '.join(candidates)}." if candidates else f"Lower kafka.partitions.alerts to {shards}.",
        )


def find_nearest_multiples(number: int, divisor: int) -> list[int]:
    """Return the positive multiples of a divisor just below and just above a number that is not a multiple."""
    below = number - number % divisor
    return [multiple for multiple in (below, below + divisor) if multiple > 0]


def find_unknown_locations(monitors: Mapping[int, ConfiguredMonitor], ids: Sequence[str]) -> Iterator[Problem]:
    """Yield a problem for each watched location whose id is not in the registry. `monitors` maps index to monitor."""
    unknown = set(chain.from_iterable(monitor.location_ids for monitor in monitors.values())).difference(ids)
    compared = 0
    for index, monitor in monitors.items():
        for location in monitor.location_ids:
            if location in unknown:
                compared += len(ids)
                near = find_similar(location, ids) if compared <= _SEARCHES * _COMPARABLE else None
                hint = f"Did you mean {near!r}?" if near else "Add it to locations.file, or remove it from the monitor."
                key = f"monitors.{index}.locations"
                yield Problem(key, repr(location), "a location of the registry", hint)
