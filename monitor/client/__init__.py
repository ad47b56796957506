"""A subscriber: derives the current state of each location from the records of the output topic."""

from monitor.client.current_answers import KnownPlaces
from monitor.client.known import About, Answer, Known, Reason, State
from monitor.client.places import Places, Update, connect, subscribe

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
]
