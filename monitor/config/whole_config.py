"""The whole configuration: its sections as in the file (docs/interface.md, section 3)."""

from __future__ import annotations

from pydantic import Field

from monitor.config.kafka_and_redis import AuditorSettings, KafkaSettings, MetricsSettings, RedisSettings
from monitor.config.sections import (
    ClockSettings,
    LocationsSettings,
    PageSettings,
    PrivacySettings,
    ServiceSettings,
    SigningSettings,
    VisitsSettings,
)
from monitor.kinds.all_kinds import AnyMonitor
from monitor.values.single_values import Section


class Config(Section):
    """The whole configuration, as `load_config` reads it. The model does not check the conditions between values."""

    service: ServiceSettings = Field(description="a mapping with the service's name")
    clock: ClockSettings = Field(description="a mapping with slot, origin and release_delay")
    locations: LocationsSettings = Field(description="a mapping with the file of locations")
    visits: VisitsSettings = Field(description="a mapping with default_stay and accept_ahead")
    privacy: PrivacySettings = Field(description="a mapping with epsilon and period")
    monitors: tuple[AnyMonitor, ...] = Field(min_length=1, description="a list of monitors, at least one")
    kafka: KafkaSettings = Field(description="a mapping with bootstrap_servers and topics")
    redis: RedisSettings = Field(description="a mapping with the url")
    metrics: MetricsSettings = Field(default_factory=MetricsSettings, description="a mapping with the port")
    signing: SigningSettings = Field(
        default_factory=SigningSettings, description="a mapping with key_file and public_key"
    )
    page: PageSettings = Field(default_factory=PageSettings, description="a mapping with the port of the public page")
    auditor: AuditorSettings = Field(
        default_factory=AuditorSettings, description="a mapping with the port of audit --follow"
    )
