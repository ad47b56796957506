"""Exclusion attacks: an outcome reveals whether a record is sensitive ([OSDP], section 3.2).

All functions enumerate exact laws (outcome → chance, as a Fraction in q = e^-ε), so their results are exact.
docs/literature.md defines [OSDP].
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product

from monitor.errors import NoDataError, PrivacyError
from monitor.onesided.osdp.policies import OneSidedPolicy, Record, Records

Law = Mapping[Hashable, Fraction]
"""The chance of each outcome."""

LawOf = Callable[[Records], Law]
Prior = Mapping[Record, Fraction]
"""An adversary's belief about one person's record: a chance for each possible record."""

UNBOUNDED = None
"""The ratio if an outcome is impossible under the neighbour."""


def worst_ratio(pairs: Iterable[tuple[Law, Law]]) -> Fraction | None:
    """Return the greatest Pr[outcome | D]/Pr[outcome | D'] over pairs of laws; UNBOUNDED if it is infinite.

    It also bounds every set of outcomes. Raise NoDataError if there are no pairs.
    """
    worst = Fraction(0)
    for law, neighbour in pairs:
        for outcome, chance in law.items():
            if chance and not neighbour.get(outcome):
                return UNBOUNDED
            worst = max(worst, chance / neighbour[outcome] if chance else worst)
    if not worst:
        raise NoDataError(
            "There are no pairs of laws: expected at least one; enumerate datasets with sensitive records."
        )
    return worst


def one_sided_loss(law_of: LawOf, policy: OneSidedPolicy, people: int) -> Fraction | None:
    """Return e^ε for the least ε at which a mechanism is (P, ε)-OSDP, over all datasets of `people` people."""
    return worst_ratio(_list_pairs(law_of, policy.neighbours, policy, (people,)))


def extended_loss(law_of: LawOf, policy: OneSidedPolicy, people: int) -> Fraction | None:
    """Return e^ε for the least ε at which a mechanism is (P, ε)-eOSDP, over all datasets of at most `people` people."""
    return worst_ratio(_list_pairs(law_of, policy.extended_neighbours, policy, range(people + 1)))


def odds_change(law_of: LawOf, policy: OneSidedPolicy, priors: Sequence[Prior], target: int) -> Fraction | None:
    """Return the greatest factor by which an outcome raises the odds of a sensitive record against any other record.

    The adversary's belief is a product of beliefs about each person (`priors`), and `target` is the person attacked.
    This is the e^φ of [OSDP], Definition 3.4, for this belief. By Theorem 3.1 it is at most e^ε for (P, ε)-OSDP. Proof:
    by Bayes' rule, the factor is the ratio of the chances of the outcome given the two records of the target. Both are
    averages with the same weights over the other people's records, and by OSDP each term of the one is at most e^ε
    times the same term of the other.

    Raise PrivacyError if a belief does not sum to 1.
    """
    if any(sum(prior.values()) != 1 for prior in priors):
        raise PrivacyError("A prior does not sum to 1: expected the chances of all possible records; complete it.")
    likelihoods = {record: _compute_likelihood(law_of, priors, target, record) for record in policy.universe}
    believed = [record for record in policy.universe if priors[target].get(record)]
    return worst_ratio(
        (likelihoods[sensitive], likelihoods[other])
        for sensitive, other in product(believed, believed)
        if policy(sensitive) == 0 and sensitive != other
    )


def _compute_likelihood(law_of: LawOf, priors: Sequence[Prior], target: int, record: Record) -> Law:
    """Return the law of the outcome given the target's record, averaged over the other people's records."""
    mixed: dict[Hashable, Fraction] = {}
    choices = [{record: Fraction(1)} if person == target else prior for person, prior in enumerate(priors)]
    for dataset in product(*choices):
        weight = Fraction(1)
        for person, chosen in enumerate(dataset):
            weight *= choices[person][chosen]
        for outcome, chance in law_of(dataset).items():
            mixed[outcome] = mixed.get(outcome, Fraction(0)) + weight * chance
    return mixed


def _list_pairs(
    law_of: LawOf, neighbours: Callable[[Records], Iterator[Records]], policy: OneSidedPolicy, sizes: Iterable[int]
) -> Iterator[tuple[Law, Law]]:
    for size in sizes:
        for dataset in product(policy.universe, repeat=size):
            for neighbour in neighbours(dataset):
                yield law_of(dataset), law_of(neighbour)
