"""What operators decide: the configuration and the registry of locations (docs/interface.md, section 3)."""

from monitor.config.load import Read, load_config, read_config
from monitor.config.model import Config
from monitor.config.monitors import AtTimesMonitor, HotSpotsMonitor, Monitor, OverTimeMonitor, TimedMonitor
from monitor.config.registry import Location, check_watched, load_registry
from monitor.config.secret_values import kafka_password, person_key, redis_password, require_files

__all__ = [
    "AtTimesMonitor",
    "Config",
    "HotSpotsMonitor",
    "Location",
    "Monitor",
    "OverTimeMonitor",
    "Read",
    "TimedMonitor",
    "check_watched",
    "kafka_password",
    "load_config",
    "load_registry",
    "person_key",
    "read_config",
    "redis_password",
    "require_files",
]
