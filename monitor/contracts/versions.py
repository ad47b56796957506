"""The versions that ledger records state, so that builds of different versions can share a ledger."""

from __future__ import annotations

from typing import Final

LEDGER_VERSION: Final = 1
"""The version of the ledger format that this build writes and reads."""
COUNTING: Final = 2
"""The version of counting: 2 counts visits reported before as_of; 1 also counted some visits reported later."""
FENCE: Final = 2
"""The version of the owners' transactional id: 2 begins with `location-monitor.`; 1 began with the topic's id."""
