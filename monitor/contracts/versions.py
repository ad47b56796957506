"""The version that ledger records state, so that a later build can change their format."""

from __future__ import annotations

from typing import Final

LEDGER_VERSION: Final = 1
"""The version of the ledger format that this build writes and reads."""
