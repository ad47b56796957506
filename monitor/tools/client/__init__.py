"""A subscriber: derives the current state of each location from the records of the output topic."""

from monitor.tools.client.command import watch_command
from monitor.tools.client.known import About, Answer, Known, Reason, State
from monitor.tools.client.known_places import KnownPlaces
from monitor.tools.client.places import Places, Update, connect, subscribe

__all__ = [
    "About",
    "Answer",
    "Known",
    "KnownPlaces",
    "Places",
    "Reason",
    "State",
    "Update",
    "connect",
    "subscribe",
    "watch_command",
]
