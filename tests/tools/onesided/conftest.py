"""The exact enumeration of losses, as fixtures."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction

import pytest

from tests.privacy import exact_loss


@pytest.fixture(scope="session")
def worst_ratio() -> Callable[[exact_loss.Mechanism, Hashable, exact_loss.Choices], Fraction | float]:
    """The function that computes the greatest Pr[D]/Pr[D'] of a mechanism over all choices."""
    return exact_loss.worst_ratio


@pytest.fixture(scope="session")
def one_sided() -> Callable[[Fraction, int], tuple[tuple[int, Fraction], ...]]:
    """The function that lists the draws of geometric noise with their exact chances."""
    return exact_loss.one_sided
