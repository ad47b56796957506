"""The configuration and the registry of locations, both written by operators (docs/interface.md, section 3)."""

from monitor.config.load import ParsedConfig, load_config, read_config
from monitor.config.registry import Location, Locations, load_registry
from monitor.config.valid_config import ValidConfig, load_valid_config, validate_config
from monitor.config.whole_config import Config

__all__ = [
    "Config",
    "Location",
    "Locations",
    "ParsedConfig",
    "ValidConfig",
    "load_config",
    "load_registry",
    "load_valid_config",
    "read_config",
    "validate_config",
]
