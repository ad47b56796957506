"""The rules between values of the configuration, each with its remedy.

A rule runs where the sections that it compares are valid by themselves, so that all problems are listed at once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from monitor.config.monitors import AnyMonitor, OverTimeMonitor, TimedMonitor
from monitor.config.scalars import MOST_SHARDS
from monitor.config.servers import url_password
from monitor.errors import Problem
from monitor.privacy.epsilon import SMALLEST, format_epsilon
from monitor.public.instants import format_duration, format_instant, to_datetime

if TYPE_CHECKING:
    from monitor.config.model import ClockSettings, ServiceSettings, VisitsSettings
    from monitor.config.servers import KafkaSettings, RedisSettings


MOST_PARTITIONS: Final = 10_000
"""How many partitions Kafka makes at one request."""

_GROUP_OF_ANOTHER: Final = re.compile(r"-(release|[0-9a-f]{16})\Z")


@dataclass(frozen=True, slots=True)
class Sections:
    """The sections that rules compare, None where one is not valid by itself, and the valid monitors by index."""

    clock: ClockSettings | None
    visits: VisitsSettings | None
    kafka: KafkaSettings | None
    redis: RedisSettings | None
    monitors: Mapping[int, AnyMonitor]
    service: ServiceSettings | None = None


def broken_rules(sections: Sections) -> Iterator[Problem]:
    """All broken rules among what is valid by itself."""
    clock, monitors = sections.clock, sections.monitors
    if clock is not None:
        yield from _release(clock)
        if sections.visits is not None:
            yield from _max_lead(clock, sections.visits)
    if sections.service is not None:
        yield from _service_name(sections.service)
    yield from _names(monitors)
    for index, monitor in monitors.items():
        key = f"monitors.{index}"
        if isinstance(monitor, OverTimeMonitor):
            yield from _over_time(key, monitor, clock)
        else:
            yield from _at_times(key, monitor, clock)
    if sections.kafka is not None:
        yield from _topics(sections.kafka)
        yield from _partitions(sections.kafka)
        if sections.service is not None:
            yield from _shards(sections.service, sections.kafka)
        yield from _sasl(sections.kafka)
        yield from _tls(sections.kafka)
    if sections.redis is not None:
        yield from _redis(sections.redis)


def _release(clock: ClockSettings) -> Iterator[Problem]:
    delay, tolerance = clock.release_delay, clock.tolerance
    if delay + 2 * tolerance >= clock.slot:
        most = clock.slot - 2 * tolerance
        yield Problem(
            "clock.release_delay",
            format_duration(delay),
            f"release_delay + 2·tolerance < slot ({format_duration(clock.slot)}), to read a tick before the next",
            f"With a tolerance of {format_duration(tolerance)} set it below {format_duration(most)}."
            if most > 0
            else "Lower clock.tolerance or lengthen clock.slot.",
        )
    if delay <= tolerance:
        yield Problem(
            "clock.release_delay",
            format_duration(delay),
            f"more than clock.tolerance ({format_duration(tolerance)}), after which a tick begins to be read",
            "Raise release_delay or lower tolerance.",
        )


def _max_lead(clock: ClockSettings, visits: VisitsSettings) -> Iterator[Problem]:
    if visits.accept_ahead % clock.slot:
        yield _not_whole("visits.accept_ahead", visits.accept_ahead, clock.slot)


def _not_whole(key: str, duration: int, slot: int) -> Problem:
    below = duration // slot * slot
    near = [format_duration(length) for length in (below, below + slot) if length > 0]
    return Problem(
        key,
        format_duration(duration),
        f"a whole number of slots of {format_duration(slot)}",
        f"The nearest: {' or '.join(near)}.",
    )


def _service_name(service: ServiceSettings) -> Iterator[Problem]:
    ending = _GROUP_OF_ANOTHER.search(service.name)
    if ending is not None:
        yield Problem(
            "service.name",
            repr(service.name),
            "a name that does not end in -release, or in - and 16 hexadecimal digits",
            f"Rename it: a service {service.name[: ending.start()]!r} would have a consumer group of this name, and "
            "instances of the two would take each other's partitions.",
        )


def _names(monitors: Mapping[int, AnyMonitor]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, monitor in monitors.items():
        other = first.setdefault(monitor.name, index)
        if other != index:
            yield Problem(
                f"monitors.{index}.name",
                repr(monitor.name),
                f"a name of its own, but monitors.{other} has it too",
                "Rename one: records carry the monitor's name.",
            )


def _over_time(key: str, monitor: OverTimeMonitor, clock: ClockSettings | None) -> Iterator[Problem]:
    ids = monitor.location_ids
    if not ids:
        yield Problem(f"{key}.locations", "empty", "at least one location", "Name one, or remove the monitor.")
    for location in (name for name, times in Counter(ids).items() if times > 1):
        yield Problem(
            f"{key}.locations", repr(location), "each location once", "Remove the repeat, or give it a larger weight."
        )
    smallest = min(monitor.location_epsilons().values(), default=monitor.epsilon) / monitor.answers_per_window
    if smallest < SMALLEST:
        yield Problem(
            f"{key}.epsilon",
            format_epsilon(monitor.epsilon),
            f"at least {format_epsilon(SMALLEST)} for each answer of each location, so that noise can be drawn",
            "Raise it, or share it among fewer locations or answers.",
        )
    if clock is not None and monitor.window < clock.slot:
        yield _too_short(f"{key}.window", monitor.window, clock.slot)
    elif clock is not None and monitor.window % clock.slot:
        yield _not_whole(f"{key}.window", monitor.window, clock.slot)


def _too_short(key: str, duration: int, slot: int) -> Problem:
    least = format_duration(slot)
    return Problem(key, format_duration(duration), f"at least one slot ({least})", f"Set it to {least} or more.")


def _at_times(key: str, monitor: TimedMonitor, clock: ClockSettings | None) -> Iterator[Problem]:
    if not monitor.at:
        yield Problem(f"{key}.at", "empty", "at least one designated time", 'Add one, such as "18:00".')
    if monitor.daily and monitor.timezone is None:
        yield Problem(
            f"{key}.timezone",
            "missing",
            "the time zone of the daily times in `at`",
            "Add an IANA name, such as Asia/Tokyo or UTC.",
        )
    yield from _repeats(key, monitor)
    if clock is not None and monitor.reporting_horizon < clock.slot:
        yield _too_short(f"{key}.reporting_horizon", monitor.reporting_horizon, clock.slot)


def _repeats(key: str, monitor: TimedMonitor) -> Iterator[Problem]:
    zone = ZoneInfo(monitor.timezone) if monitor.timezone else None
    once = "each designated time once"
    daily = Counter(monitor.daily)
    for at in sorted(at for at, times in daily.items() if times > 1):
        yield Problem(f"{key}.at", at.isoformat(), once, "Remove the repeat.")
    for instant, times in sorted(Counter(monitor.instants).items()):
        if times > 1:
            yield Problem(f"{key}.at", format_instant(instant), once, "Remove the repeat.")
        if zone is not None and to_datetime(instant).astimezone(zone).time() in daily:
            yield Problem(f"{key}.at", format_instant(instant), once, "Remove it: it is one of the daily times.")


def _topics(kafka: KafkaSettings) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for role, topic in kafka.topics:
        # Kafka names metrics by topics, with _ for a dot, and makes no two topics whose metrics would have one name.
        other = first.setdefault(topic.replace(".", "_"), role)
        if other != role:
            what = f"a topic of its own, but kafka.topics.{other} is it too"
            if topic != (differs := getattr(kafka.topics, other)):
                what = f"a topic that Kafka can tell from kafka.topics.{other} ({differs!r}): to it . and _ are one"
            yield Problem(f"kafka.topics.{role}", repr(topic), what, "Rename one.")


def _partitions(kafka: KafkaSettings) -> Iterator[Problem]:
    inputs, outputs = kafka.partitions.visits, kafka.partitions.alerts
    if inputs + 2 * outputs > MOST_PARTITIONS:  # the dead letters' topic has as many as the output
        key = "visits" if inputs > outputs else "alerts"
        yield Problem(
            f"kafka.partitions.{key}",
            str(inputs if key == "visits" else outputs),
            f"visits + 2·alerts of at most {MOST_PARTITIONS}, for Kafka makes no more partitions at once",
            "Lower it; partitions can be added to the input later.",
        )


def _shards(service: ServiceSettings, kafka: KafkaSettings) -> Iterator[Problem]:
    shards, ledger_partitions = service.shards, kafka.partitions.alerts
    if shards % ledger_partitions:
        would_do = [str(number) for number in nearest_multiples(shards, ledger_partitions) if number <= MOST_SHARDS]
        yield Problem(
            "service.shards",
            str(shards),
            f"a multiple of kafka.partitions.alerts ({ledger_partitions}): each shard belongs to one output partition",
            f"Set it to {' or '.join(would_do)}." if would_do else f"Lower kafka.partitions.alerts to {shards}.",
        )


def nearest_multiples(number: int, divisor: int) -> list[int]:
    """The multiples of a divisor next to a number that is none of them, from 1 on."""
    below = number - number % divisor
    return [multiple for multiple in (below, below + divisor) if multiple > 0]


def _sasl(kafka: KafkaSettings) -> Iterator[Problem]:
    protocol = kafka.security_protocol
    given = {
        "sasl_mechanism": kafka.sasl_mechanism is not None,
        "username": kafka.username is not None,
        "password_file": kafka.password_file is not None or kafka.password is not None,
    }
    remedies = {
        "sasl_mechanism": "Add PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.",
        "username": "Add it.",
        "password_file": "Add it, or set LOCATION_MONITOR__KAFKA__PASSWORD.",
    }
    for name, is_given in given.items():
        if kafka.uses_sasl and not is_given:
            yield Problem(f"kafka.{name}", "missing", f"a value, with security_protocol {protocol}", remedies[name])
        if not kafka.uses_sasl and is_given:
            yield _unused(name, protocol, "SASL_SSL or SASL_PLAINTEXT")


def _unused(name: str, protocol: str, wanted: str) -> Problem:
    return Problem(
        f"kafka.{name}",
        "given",
        f"no such key, with security_protocol {protocol}",
        f"Remove it, or set kafka.security_protocol to {wanted}.",
    )


def _tls(kafka: KafkaSettings) -> Iterator[Problem]:
    for name in ("ca_file", "certificate_file", "key_file"):
        if getattr(kafka, name) is not None and not kafka.uses_tls:
            yield _unused(name, kafka.security_protocol, "SSL or SASL_SSL")
    for name, other in (("certificate_file", "key_file"), ("key_file", "certificate_file")):
        if getattr(kafka, name) is None and getattr(kafka, other) is not None:
            yield Problem(
                f"kafka.{name}", "missing", f"a file, as kafka.{other} is given", "Add it, or remove the other."
            )


def _redis(redis: RedisSettings) -> Iterator[Problem]:
    parts = redis.parts
    if redis.ca_file is not None and parts.scheme != "rediss":
        yield Problem(
            "redis.ca_file", "given", "no such key without TLS", "Write rediss:// in redis.url, or remove it."
        )
    if redis.username is not None and parts.username:
        yield Problem("redis.username", "given twice", "one user", "Remove it here, or from redis.url.")
    if redis.password is not None and url_password(redis.url.get_secret_value()) is not None:
        yield Problem("redis.password", "given twice", "one password", "Remove it here, or from redis.url.")
    if redis.cluster and (parts.scheme == "unix" or parts.path.strip("/") not in {"", "0"} or "db=" in parts.query):
        yield Problem(
            "redis.url", redis.address, "database 0 on a network address, with cluster: true", "End it in /0."
        )
