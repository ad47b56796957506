"""The whole configuration: its sections as in the file (docs/interface.md, section 3)."""

from __future__ import annotations

from pydantic import Field

from monitor.config.kafka_and_redis import AuditorSettings, KafkaSection, MetricsSettings, RedisSettings
from monitor.config.sections import (
    ClockSection,
    LocationsSection,
    PageSettings,
    PrivacySettings,
    ServiceSection,
    SigningSection,
    VisitsSettings,
)
from monitor.kinds.all_kinds import AnyMonitor
from monitor.values.single_values import Section


class Config(Section):
    """The whole configuration, as `load_config` reads it. The model does not check the conditions between values."""

    service: ServiceSection
    clock: ClockSection
    locations: LocationsSection
    visits: VisitsSettings = Field(description="a mapping with default_stay and accept_ahead")
    privacy: PrivacySettings = Field(description="a mapping with epsilon and period")
    monitors: tuple[AnyMonitor, ...] = Field(min_length=1, description="a list of monitors, at least one")
    kafka: KafkaSection
    redis: RedisSettings = Field(description="a mapping with the url")
    metrics: MetricsSettings = Field(default_factory=MetricsSettings, description="a mapping with the port")
    signing: SigningSection
    page: PageSettings = Field(default_factory=PageSettings, description="a mapping with the port of the public page")
    auditor: AuditorSettings = Field(
        default_factory=AuditorSettings, description="a mapping with the port of audit --follow"
    )
