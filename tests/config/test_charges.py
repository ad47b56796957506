"""What the configuration alone decides about payments: F, the maximum lead."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.config.charges import compute_max_lead


@pytest.mark.promise(9, 10)
@pytest.mark.parametrize(
    ("ahead", "stay", "slots"), [("0s", "1ms", 1), ("0s", "1h", 1), ("1h", "15m", 2), ("2h", "61m", 4)]
)
def test_lead_has_the_default_stay(ahead: str, stay: str, slots: int, load: Any) -> None:
    """F is accept_ahead and default_stay, each in whole slots: a check-in that begins at the last moment fits in."""
    assert compute_max_lead(load({"visits.accept_ahead": ahead, "visits.default_stay": stay})) == slots
