"""Reads from the configuration of a service what a subscriber needs. The other sections are not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from monitor.config.kafka_and_redis import KafkaSection, check_kafka
from monitor.config.read_sections import SectionReader
from monitor.config.registry import load_registry
from monitor.config.sections import ClockSection, LocationsSection, ServiceSection, SigningSection
from monitor.errors import ConfigError
from monitor.kafka.connections import KafkaConnections, build_kafka_connections
from monitor.values.single_values import Section


@dataclass(frozen=True, slots=True)
class PublishingService:
    """The service whose answers a subscriber reads, and where it publishes them.

    `locations`: the ids of the registry. `slot`: in microseconds. `timed`: whether there may be answers about
    designated times. `public_key`: the key with which answers are verified; None: they are not.
    """

    connections: KafkaConnections
    topic: str
    locations: Sequence[str]
    slot: int
    timed: bool
    public_key: str | None


class _Parts(Section):
    """The sections of the configuration that a subscriber needs."""

    service: ServiceSection
    clock: ClockSection
    locations: LocationsSection
    kafka: KafkaSection
    signing: SigningSection


def read_service(path: Path, environ: Mapping[str, str]) -> PublishingService:
    """Read the sections about the name, the clock, the registry, Kafka and signatures, and the registry itself.

    Raises:
        ConfigError: with all problems of these sections, or those of the registry; or a file with a password or a
            certificate cannot be read.
    """
    reader = SectionReader(path, environ)
    sections = {name: reader.read(name, field)[0] for name, field in _Parts.model_fields.items()}
    if sections["kafka"] is not None:
        reader.problems += check_kafka(sections["kafka"], lambda *_keys: True)
    if problems := reader.list_problems():
        raise ConfigError(str(path), problems)
    parts = _Parts.model_construct(**sections)
    return PublishingService(
        build_kafka_connections(parts.kafka, parts.service.name),
        parts.kafka.topics.alerts,
        load_registry(parts.locations.file).ids,
        parts.clock.slot,
        _has_designated_times(reader.tree.get("monitors")),
        parts.signing.public_key,
    )


def _has_designated_times(monitors: object) -> bool:
    """Return whether a monitor of the configuration has a reporting horizon; True if they are no list."""
    if not isinstance(monitors, list):
        return True
    return any(isinstance(monitor, dict) and "reporting_horizon" in monitor for monitor in monitors)
