"""A subscriber: derives the current state of each location from the records of the output topic."""

from monitor.client.answer_types import About, Answer, Known, Reason, State
from monitor.client.known_at_a_moment import KnownPlaces
from monitor.client.subscription import Places, Update, connect, subscribe

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
