"""A subscriber: derives the current state of each location from the records of the output topic."""

from monitor.client.command import watch_command

__all__ = ["watch_command"]
