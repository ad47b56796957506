"""The conditions that relate values of the configuration to each other, each with its remedy.

A condition is checked if all values that it compares are valid. An invalid value therefore does not prevent the checks
of the others, and all problems are listed at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from monitor.config.conditions_of_connections import (
    SENTINEL_USER,
    TLS_FILES,
    check_certificate,
    check_redis,
)
from monitor.config.kafka_and_redis import SASL_MECHANISMS, KafkaSettings
from monitor.config.sections import ClockSettings, ServiceSettings, VisitsSettings
from monitor.config.whole_config import Config
from monitor.errors import Problem
from monitor.kinds.base.monitor import ConfiguredMonitor, ValidKeys, are_valid
from monitor.time.instants import format_duration
from monitor.values.single_values import MAX_SHARDS
from monitor.values.whole_slots import report_not_whole

SLOTS: Final = 2**31
"""The limit of W + F. The last slot of a visit is stored as a signed number of 32 bits."""

MAX_PARTITIONS: Final = 10_000
"""The maximum number of partitions that Kafka creates per request."""

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
    yield from _check_kafka(values)
    if has(*(f"redis.{name}" for name in ("url", "username", "cluster", "sentinels", *SENTINEL_USER, *TLS_FILES))):
        yield from check_redis(values.config.redis)


def _check_kafka(values: Values) -> Iterator[Problem]:
    has, kafka = values.has, values.config.kafka
    if has("kafka.topics"):
        yield from _check_topics(kafka)
    if has("kafka.partitions"):
        yield from _check_partitions(kafka)
    if has("kafka.partitions.alerts", "service.shards"):
        yield from _check_shards(values.config.service, kafka)
    if has("kafka.security_protocol"):
        yield from _check_sasl(values)
        yield from _check_tls(values)
    if has("kafka.certificate_file", "kafka.key_file"):
        yield from check_certificate("kafka", kafka)


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


def _check_topics(kafka: KafkaSettings) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for role, topic in kafka.topics:
        # Kafka replaces dots with _ in metric names, and refuses a topic whose metric names would collide.
        other = first.setdefault(topic.replace(".", "_"), role)
        if other != role:
            what = f"a topic different from kafka.topics.{other}"
            if topic != (name := getattr(kafka.topics, other)):
                what += f" ({name!r}): Kafka treats . and _ as equal"
            yield Problem(f"kafka.topics.{role}", repr(topic), what, "Rename one of them.")


def _check_partitions(kafka: KafkaSettings) -> Iterator[Problem]:
    inputs, outputs = kafka.partitions.visits, kafka.partitions.alerts
    if inputs + 2 * outputs > MAX_PARTITIONS:  # the dead-letter topic has as many partitions as the output topic
        key = "visits" if inputs > outputs else "alerts"
        yield Problem(
            f"kafka.partitions.{key}",
            str(inputs if key == "visits" else outputs),
            f"visits + 2·alerts of at most {MAX_PARTITIONS}, the most partitions that Kafka creates at once",
            "Lower it; partitions can be added to the input topic later.",
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


def _check_sasl(values: Values) -> Iterator[Problem]:
    kafka, protocol, mechanism = (
        values.config.kafka,
        values.config.kafka.security_protocol,
        values.config.kafka.sasl_mechanism,
    )
    is_set = {
        "sasl_mechanism": mechanism is not None,
        "username": kafka.username is not None,
        "password_file": kafka.password_file is not None or kafka.password is not None,
        "token_file": kafka.token_file is not None,
    }
    remedies = {
        "sasl_mechanism": f"Add {', '.join(SASL_MECHANISMS[:-1])} or {SASL_MECHANISMS[-1]}.",
        "password_file": "Add it, or set LOCATION_MONITOR__KAFKA__PASSWORD.",
    }
    by_login = {"token_file"} if mechanism == "OAUTHBEARER" else {"username", "password_file"}
    wanted = {"sasl_mechanism", *by_login} if kafka.uses_sasl else set()
    for name, present in is_set.items():
        if not values.has(f"kafka.{name}") or present == (name in wanted):
            continue
        if not present:
            remedy = remedies.get(name, "Add it.")
            yield Problem(f"kafka.{name}", "missing", f"a value with security_protocol {protocol}", remedy)
        elif kafka.uses_sasl:
            yield Problem(f"kafka.{name}", "set", f"no such key with sasl_mechanism {mechanism}", "Remove it.")
        else:
            yield _report_unused_key(name, protocol, "SASL_SSL or SASL_PLAINTEXT")


def _report_unused_key(name: str, protocol: str, wanted: str) -> Problem:
    remedy = f"Remove it, or set kafka.security_protocol to {wanted}."
    return Problem(f"kafka.{name}", "set", f"no such key with security_protocol {protocol}", remedy)


def _check_tls(values: Values) -> Iterator[Problem]:
    kafka = values.config.kafka
    for name in TLS_FILES:
        if values.has(f"kafka.{name}") and getattr(kafka, name) is not None and not kafka.uses_tls:
            yield _report_unused_key(name, kafka.security_protocol, "SSL or SASL_SSL")
