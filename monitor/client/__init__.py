"""A subscriber: from the records of the output topic to what is known about each location now."""

from monitor.client.command import watch_command

__all__ = ["watch_command"]
