"""Policy functions, their neighbours and relaxations, and how OSDP and ADP relate, by enumeration."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from monitor.errors import PolicyError, TrivialPolicyError
from monitor.onesided.mechanisms import AsymmetricGeometric
from monitor.onesided.osdp.exclusion import Law, one_sided_loss, worst_ratio
from monitor.onesided.osdp.policies import OneSidedPolicy, Records, from_asymmetric, minimum_relaxation
from monitor.onesided.policies import Policy, RecordPolicy
from monitor.privacy.one_sided_noise import Noise
from tests.privacy.laws import HALF, ONE, laws_of, two_sided

UNIVERSE = ("a", "b", "c")


def list_policies() -> Iterator[OneSidedPolicy]:
    """Yield every policy over three records with a sensitive one."""
    for size in (1, 2, 3):
        for sensitive in combinations(UNIVERSE, size):
            yield OneSidedPolicy(frozenset(UNIVERSE), frozenset(sensitive))


def list_asymmetric_policies() -> Iterator[Policy]:
    """Yield every ADP policy of one attribute with three values."""
    pairs = [(a, b) for a, b in product(UNIVERSE, UNIVERSE) if a != b]
    for chosen in product((False, True), repeat=len(pairs)):
        yield Policy(frozenset(UNIVERSE), frozenset(p for p, taken in zip(pairs, chosen, strict=True) if taken))


def test_only_sensitive_records_are_replaced() -> None:
    """With `a` sensitive, the neighbours of (a, b) replace a by b or c; those of (b, c) do not exist."""
    policy = OneSidedPolicy.from_function(UNIVERSE, lambda record: int(record != "a"))
    assert set(policy.neighbours(("a", "b"))) == {("b", "b"), ("c", "b")}
    assert list(policy.neighbours(("b", "c"))) == []


def test_extended_neighbours_add_any_record() -> None:
    """A sensitive record may be removed, and any record added, also where no record is sensitive."""
    policy = OneSidedPolicy(frozenset(UNIVERSE), frozenset("a"))
    assert set(policy.extended_neighbours(("a", "b"))) == {("b",), *(("a", "b", other) for other in UNIVERSE)}
    assert set(policy.extended_neighbours(())) == {("a",), ("b",), ("c",)}


@pytest.mark.parametrize(
    "policy", list(list_policies()), ids=lambda policy: "".join(sorted(map(str, policy.sensitive)))
)
def test_osdp_is_an_adp_policy(policy: OneSidedPolicy) -> None:
    """For every policy, the OSDP neighbours of every dataset of two people are its ADP neighbours, and back."""
    asymmetric = policy.to_asymmetric()
    for dataset in product(UNIVERSE, repeat=2):
        rows = tuple((record,) for record in dataset)
        expected = {tuple(record for (record,) in other) for other in asymmetric.neighbours(rows)}
        assert set(policy.neighbours(dataset)) == expected
    assert from_asymmetric(asymmetric.attributes[0]) == policy


def test_few_adp_policies_are_osdp() -> None:
    """Of the 64 ADP policies of three values, exactly the 7 with all pairs of their sensitive values are OSDP."""
    converted = [from_asymmetric(policy) for policy in list_asymmetric_policies()]
    assert len(converted) == 64
    assert {policy for policy in converted if policy} == set(list_policies())
    assert sum(policy is not None for policy in converted) == 7


def test_osdp_covers_adp_policies() -> None:
    """Every ADP policy is covered by the OSDP policy with the same sensitive values: OSDP implies ADP there."""
    for policy in list_asymmetric_policies():
        sensitive = frozenset(value for value in policy.values if policy.is_sensitive(value))
        if sensitive:
            assert OneSidedPolicy(policy.values, sensitive).to_asymmetric().covers(RecordPolicy((policy,)))


def step_law(policy: Policy, start: Hashable, q: Fraction) -> Callable[[Records], Law]:
    """Return the law of Proposition 3's mechanism: 1 with chance c q^h, h = 0, 1 or 2 pairs away from the start."""
    scale = (1 - q) / (1 - q**3)

    def law_of(dataset: Records) -> Law:
        steps = policy.minimum_step(start, dataset[0])
        chance = scale * q ** (2 if steps is None else min(steps, 2))
        return {1: chance, 0: 1 - chance}

    return law_of


def test_missing_pair_separates_adp_from_osdp() -> None:
    """For every missing pair of every ADP policy, a mechanism has ADP loss 1/q and OSDP loss q^-2 (Proposition 3)."""
    q, separated = Fraction(2, 3), 0
    for policy in list_asymmetric_policies():
        sensitive = frozenset(value for value in policy.values if policy.is_sensitive(value))
        for start, other in product(sensitive, UNIVERSE):
            if start == other or policy.allows(start, other):
                continue
            law_of = step_law(policy, start, q)
            pairs = [(law_of((a,)), law_of((b,))) for a, b in policy.pairs]
            assert (worst_ratio(pairs) or 0) <= 1 / q
            assert one_sided_loss(law_of, OneSidedPolicy(policy.values, sensitive), 1) == q**-2
            separated += 1
    assert separated == 96


def upward_law(dataset: Records, q: Fraction = HALF) -> Law:
    """Return the law of the counts at two places with noise that only adds, for sums of at most 4."""
    counts = [dataset.count("market"), dataset.count("station")]
    return {
        outcome: (1 - q) ** 2 * q ** (sum(outcome) - sum(counts))
        for outcome in product(range(5), repeat=2)
        if all(z >= count for z, count in zip(outcome, counts, strict=True))
    }


def test_adp_does_not_imply_osdp() -> None:
    """Noise that only adds has loss 1/q towards "nowhere", and an unbounded loss towards the other place."""
    universe = frozenset({"market", "station", "nowhere"})
    asymmetric = Policy(universe, frozenset({("market", "nowhere"), ("station", "nowhere")}))
    pairs = [
        (upward_law(dataset), upward_law(tuple(record for (record,) in other)))
        for dataset in product(universe, repeat=2)
        for other in RecordPolicy((asymmetric,)).neighbours(tuple((record,) for record in dataset))
    ]
    assert worst_ratio(pairs) == 2
    one_sided = OneSidedPolicy(universe, frozenset({"market", "station"}))
    assert one_sided_loss(upward_law, one_sided, 2) is None


def test_all_sensitive_is_differential_privacy() -> None:
    """Under P_all the neighbours are all datasets that differ in one record, in both directions (Lemma 3.2)."""
    everything = OneSidedPolicy.all_sensitive(UNIVERSE)
    for one, other in product(product(UNIVERSE, repeat=2), repeat=2):
        differing = sum(a != b for a, b in zip(one, other, strict=True))
        assert (other in set(everything.neighbours(one))) == (differing == 1)
    assert everything.to_asymmetric().attributes[0].is_symmetric


def publish_two_sided(dataset: Records, noise: Noise) -> tuple[int, ...]:
    counts = [dataset.count(each) for each in UNIVERSE]
    return tuple(np.clip(AsymmetricGeometric(ONE, 2, "not monotone").release(counts, noise), -1, 3).tolist())


TWO_SIDED_LAW = laws_of(publish_two_sided, two_sided(3), HALF, ONE / 2, signed=True)


@pytest.mark.parametrize(
    "policy", list(list_policies()), ids=lambda policy: "".join(sorted(map(str, policy.sensitive)))
)
def test_differential_privacy_implies_every_policy(policy: OneSidedPolicy) -> None:
    """Counts with two-sided noise at ε/2 have an OSDP loss of at most ε under every policy (Lemma 3.1)."""
    assert policy.is_relaxation_of(OneSidedPolicy.all_sensitive(UNIVERSE))
    assert one_sided_loss(TWO_SIDED_LAW, policy, 2) == HALF**-2


def test_relaxation_has_fewer_neighbours() -> None:
    """P1 is a relaxation of P2 if and only if the neighbours under P1 are among those under P2, for all datasets."""
    for weaker, stricter in product(list_policies(), list_policies()):
        fewer = all(
            set(weaker.neighbours(dataset)) <= set(stricter.neighbours(dataset))
            for dataset in product(UNIVERSE, repeat=2)
        )
        assert weaker.is_relaxation_of(stricter) == fewer


def test_minimum_relaxation_is_the_strictest() -> None:
    """The minimum relaxation is one of each policy, and every common relaxation is one of it."""
    for one, other in product(list_policies(), list_policies()):
        if not one.sensitive & other.sensitive:
            continue
        least = minimum_relaxation(one, other)
        common = [each for each in list_policies() if each.is_relaxation_of(one) and each.is_relaxation_of(other)]
        assert least in common
        assert all(each.is_relaxation_of(least) for each in common)
        assert all(least(record) == max(one(record), other(record)) for record in UNIVERSE)


def test_invalid_policies_are_refused() -> None:
    """A policy that marks no record, every record, or a record outside the universe is refused."""
    with pytest.raises(TrivialPolicyError, match="No record is sensitive"):
        OneSidedPolicy.from_function(UNIVERSE, lambda _: 1)
    with pytest.raises(TrivialPolicyError, match="Every record is sensitive"):
        OneSidedPolicy.from_function(UNIVERSE, lambda _: 0)
    with pytest.raises(TrivialPolicyError, match="No record is sensitive"):
        OneSidedPolicy(frozenset(), frozenset())
    with pytest.raises(TrivialPolicyError):
        minimum_relaxation(
            OneSidedPolicy(frozenset(UNIVERSE), frozenset("a")), OneSidedPolicy(frozenset(UNIVERSE), frozenset("b"))
        )
    with pytest.raises(PolicyError, match="neither 0 nor 1"):
        OneSidedPolicy.from_function(UNIVERSE, lambda _: 2)
    with pytest.raises(PolicyError, match="not in the universe"):
        OneSidedPolicy(frozenset("ab"), frozenset("c"))
    with pytest.raises(PolicyError, match="has the type str"):
        OneSidedPolicy(frozenset(UNIVERSE), frozenset("a"))("d")
    with pytest.raises(PolicyError, match="There are 0 policies"):
        minimum_relaxation()
