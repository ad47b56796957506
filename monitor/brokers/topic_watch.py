"""The topics' settings, looked at again now and then: someone may change them while the service runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.topics import TopicNeeds, check_existing_topics
from monitor.errors import UnreachableError

log = logging.getLogger(__name__)


class TopicWatch:
    """Looks at the settings of the topics once in `every_seconds`. `monotonic` gives seconds; used by one thread.

    A topic that is gone is not told of here: who reads or writes it notices, and knows what follows.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        wanted: Sequence[TopicNeeds],
        every_seconds: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._connections = connections
        self._wanted = tuple(wanted)
        self._every = every_seconds
        self._monotonic = monotonic
        self._looked = monotonic()

    def look(self) -> bool:
        """Look, if it is time to; True if the settings were seen, and suffice. Brokers that are away are asked later.

        Raises:
            TopicError: with every setting that does not suffice any more, and what mends it.
        """
        if self._monotonic() - self._looked < self._every:
            return False
        self._looked = self._monotonic()
        try:
            check_existing_topics(self._connections, self._wanted)
        except UnreachableError as error:
            log.info("the topics' settings cannot be looked at now: %s", error)
            return False
        return True
