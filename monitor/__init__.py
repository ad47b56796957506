"""Location-safety monitor: one-sided "safe / noisy count" alerts under asymmetric differential privacy."""

from importlib.metadata import version

__version__ = version("location-monitor")
