"""The charges of listed places in owner records."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from monitor.privacy.epsilon import format_epsilon


def group_by_share(shares: Mapping[str, Fraction]) -> dict[str, tuple[str, ...]]:
    """Return the sorted locations by their ε_l as text, in the order of the texts, for an owner record."""
    grouped: dict[str, list[str]] = {}
    for location, epsilon in shares.items():
        grouped.setdefault(format_epsilon(epsilon), []).append(location)
    return {epsilon: tuple(sorted(places)) for epsilon, places in sorted(grouped.items())}
