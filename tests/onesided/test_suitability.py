"""The mechanisms that a policy and a query allow, and the reasons for refusing the others."""

from __future__ import annotations

import pytest

from monitor.errors import UnsuitableError
from monitor.onesided.policies import VISITED, Policy, RecordPolicy, Sensitivity, sum_sensitivity
from monitor.onesided.suitability import Mechanism, list_applicable, require


def test_visitor_counts_allow_upward_noise() -> None:
    """Under the policy "a visit is sensitive" counts never rise, so all mechanisms with upward noise are valid."""
    query = sum_sensitivity(RecordPolicy.uniform(VISITED, 2), lambda record: [int(value == 1) for value in record])
    assert list_applicable(query) == (
        Mechanism.UPWARDS,
        Mechanism.TWO_SIDED,
        Mechanism.CERTAINLY_BELOW,
        Mechanism.NOISY_MAX,
        Mechanism.SPARSE_VECTOR,
    )
    for mechanism in list_applicable(query):
        require(mechanism, query)


def test_symmetric_policy_allows_two_sided_noise() -> None:
    """Under the symmetric policy only two-sided noise is valid, and the error names Theorem 4."""
    symmetric = RecordPolicy.uniform(Policy.symmetric((0, 1)), 1)
    query = sum_sensitivity(symmetric, lambda record: [int(value == 1) for value in record])
    assert list_applicable(query) == (Mechanism.TWO_SIDED,)
    with pytest.raises(UnsuitableError, match=r"symmetric policy .* Theorem 4.* Valid mechanisms: two-sided"):
        require(Mechanism.NOISY_MAX, query)


def test_wrong_direction_is_refused() -> None:
    """Upward noise for an increasing query is refused, because it would make outcomes impossible."""
    rising = Sensitivity("increasing", 1, 1, 1)
    assert Mechanism.DOWNWARDS in list_applicable(rising)
    assert Mechanism.SPARSE_VECTOR_ABOVE in list_applicable(rising)
    with pytest.raises(UnsuitableError, match="expected decreasing; noise on the wrong side"):
        require(Mechanism.UPWARDS, rising)


def test_large_changes_are_refused() -> None:
    """Where noise is not scaled to the sensitivity, a component that changes by 3 is refused."""
    visits = Sensitivity("decreasing", 3, 3, 1)
    require(Mechanism.UPWARDS, visits)
    with pytest.raises(UnsuitableError, match="changes by up to 3: expected at most 1; count people once"):
        require(Mechanism.SPARSE_VECTOR, visits)


def test_constant_query_allows_everything() -> None:
    """A constant query depends on nobody, so every mechanism is valid."""
    assert list_applicable(Sensitivity("constant", 0, 0, 0)) == tuple(Mechanism)
