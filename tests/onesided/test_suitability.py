"""Which mechanism a policy and a query allow, and what the error says of the others."""

from __future__ import annotations

import pytest

from monitor.errors import UnsuitableError
from monitor.onesided.policies import VISITED, Policy, RecordPolicy, Sensitivity, sum_sensitivity
from monitor.onesided.suitability import Mechanism, applicable, require


def test_counts_of_visitors_allow_all_that_adds_noise() -> None:
    """Under "having been there is sensitive" counts never rise."""
    query = sum_sensitivity(RecordPolicy.uniform(VISITED, 2), lambda record: [int(value == 1) for value in record])
    assert applicable(query) == (
        Mechanism.UPWARDS,
        Mechanism.TWO_SIDED,
        Mechanism.CERTAINLY_BELOW,
        Mechanism.NOISY_MAX,
        Mechanism.SPARSE_VECTOR,
    )
    for mechanism in applicable(query):
        require(mechanism, query)


def test_under_differential_privacy_two_sided_noise_alone_is_left_and_theorem_4_says_why() -> None:
    """The same counts, under the symmetric policy."""
    symmetric = RecordPolicy.uniform(Policy.symmetric((0, 1)), 1)
    query = sum_sensitivity(symmetric, lambda record: [int(value == 1) for value in record])
    assert applicable(query) == (Mechanism.TWO_SIDED,)
    with pytest.raises(UnsuitableError, match=r"symmetric policy .* Theorem 4.* What applies: two-sided"):
        require(Mechanism.NOISY_MAX, query)


def test_noise_to_the_wrong_side_is_refused() -> None:
    """An increasing query under upward noise would rule outcomes out."""
    rising = Sensitivity("increasing", 1, 1, 1)
    assert Mechanism.DOWNWARDS in applicable(rising)
    assert Mechanism.SPARSE_VECTOR_ABOVE in applicable(rising)
    with pytest.raises(UnsuitableError, match="expected decreasing; noise to the wrong side"):
        require(Mechanism.UPWARDS, rising)


def test_where_the_noise_is_not_scaled_a_component_may_change_by_one() -> None:
    """Visits, of which a person has three, in the place of people."""
    visits = Sensitivity("decreasing", 3, 3, 1)
    require(Mechanism.UPWARDS, visits)
    with pytest.raises(UnsuitableError, match="changes by up to 3: expected at most 1; count people once"):
        require(Mechanism.SPARSE_VECTOR, visits)


def test_a_constant_query_allows_everything() -> None:
    """It says nothing of anyone."""
    assert applicable(Sensitivity("constant", 0, 0, 0)) == tuple(Mechanism)
