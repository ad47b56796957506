"""Find answers that are in the ledger, but that no subscriber with the isolation level read_committed can read.

The open transaction of any producer hides all records after its first one. The service does not wait for it, so only
this check shows that the answers reach nobody.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from monitor.errors import UnreachableError
from monitor.ticks.input_topic import InputTopic

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 10.0  # between two checks
OPEN_SECONDS: Final = 60.0  # longer than any transaction of a tick: the coordinator aborts those of killed owners


class HiddenAnswers:
    """A repeated check of the output topic. Used by one thread at a time; others may read `trouble`.

    `trouble`: the ledger partitions that subscribers cannot read to their ends, and the reason; empty without any.

    Args:
        input_topic: knows the output topic too.
        partitions: the number of ledger partitions.
        monotonic: returns seconds.
    """

    def __init__(
        self, input_topic: InputTopic, partitions: int, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.trouble = ""
        self._input_topic, self._partitions, self._monotonic = input_topic, partitions, monotonic
        self._checked_at = -CHECK_SECONDS
        self._since: Mapping[tuple[int, int], float] = {}  # by partition and offset: when it was first seen

    @property
    def is_due(self) -> bool:
        """Whether the time for the next check has come."""
        return self._monotonic() - self._checked_at >= CHECK_SECONDS

    def check(self) -> None:
        """Check whether subscribers can read all answers, if that is due. Log when this changes."""
        if not self.is_due:
            return
        now = self._checked_at = self._monotonic()
        try:
            hidden = self._input_topic.find_hidden(range(self._partitions))
        except UnreachableError:  # the other checks report it
            return
        self._since = {place: self._since.get(place, now) for place in hidden.items()}
        before = self.trouble
        self.trouble = "; ".join(
            f"subscribers cannot read ledger partition {partition} beyond offset {offset}: a producer has an open "
            "transaction there; stop it, or abort the transaction with kafka-transactions.sh"
            for (partition, offset), since in sorted(self._since.items())
            if now - since >= OPEN_SECONDS
        )
        if self.trouble and self.trouble != before:
            log.error("%s", self.trouble)
        elif before and not self.trouble:
            log.warning("subscribers can read all ledger partitions again")
