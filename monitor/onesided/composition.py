"""Composition with exact rational ε: events record what was published, and an accountant adds up their cost.

Sequential composition adds ε (Takagi et al. [ADP], Theorem 6; docs/literature.md). With one-sided noise the privacy
loss of an answer is exactly its ε in the worst case, so no tighter composition exists (docs/rules.md, rule 12).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from monitor.errors import BudgetError, MixedPoliciesError, PrivacyError, UnknownEventError
from monitor.onesided.policies import RecordPolicy
from monitor.privacy.epsilon import parse_epsilon


class Event:
    """A use of the data. The accountant computes its cost."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Released(Event):
    """An answer of a (P, ε)-ADP mechanism was published."""

    policy: RecordPolicy
    epsilon: Fraction

    def __post_init__(self) -> None:
        """Raise EpsilonError if ε is not an exact rational above 0."""
        parse_epsilon(self.epsilon)


@dataclass(frozen=True, slots=True)
class PostProcessed(Event):
    """A result computed from the published outcome of an event, without another use of the data. It adds no cost.

    For a function h, {h(z) ∈ S} is {z ∈ h^-1(S)}, which is a set of outcomes of the event itself.
    """

    source: Event


@dataclass(frozen=True, slots=True)
class Sequential(Event):
    """Several events on the same data. Each may depend on the published outcomes of earlier ones."""

    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Repeated(Event):
    """The same event, repeated `times` times on the same data."""

    event: Event
    times: int

    def __post_init__(self) -> None:
        """Raise PrivacyError if `times` is below 1."""
        if self.times < 1:
            raise PrivacyError(f"times is {self.times}: expected at least 1; leave out an event that did not happen.")


@dataclass(frozen=True, slots=True)
class Parallel(Event):
    """Several events on disjoint groups of people. `people` names the group of each event; no group occurs twice.

    The group of each person must be public, and fixed before the data is known. It must not depend on the person's
    data, because different data would move the person to another group.
    """

    people: tuple[str, ...]
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        """Raise PrivacyError unless each event has a separate group."""
        if len(self.people) != len(self.events) or len(set(self.people)) != len(self.people):
            raise PrivacyError(
                f"{len(self.events)} parallel events have {len(set(self.people))} different groups of people: expected "
                "a separate group for each event; compose events on the same people in sequence."
            )


class Accountant:
    """The sum of the costs of events under one policy. It refuses events above the budget, and unknown events.

    A P-neighbour differs in one person's record. Every event of a sequence may use this record, so a sequence costs the
    sum of its events. Only one of several parallel events uses it, so parallel events cost the maximum.
    """

    def __init__(self, policy: RecordPolicy, budget: Fraction) -> None:
        """Start with nothing spent. Raise EpsilonError if the budget is not an exact rational above 0."""
        self._policy = policy
        self._budget = parse_epsilon(budget)
        self._spent = Fraction(0)

    @property
    def spent(self) -> Fraction:
        """The ε of all composed events."""
        return self._spent

    @property
    def remaining(self) -> Fraction:
        """The ε of the budget that is not spent."""
        return self._budget - self._spent

    def compose(self, event: Event) -> Self:
        """Add an event, before it happens.

        Raises:
            BudgetError: the event costs more than the remaining ε. Nothing is spent.
            MixedPoliciesError: the guarantee of the event is for a policy that does not cover the accountant's policy.
            UnknownEventError: there is no rule for this kind of event.
        """
        requested = self.cost(event)
        if requested > self.remaining:
            raise BudgetError(
                requested,
                self.remaining,
                "Request fewer or noisier answers, or raise the budget, and publish the new budget.",
            )
        self._spent += requested
        return self

    def cost(self, event: Event) -> Fraction:
        """Return the cost of an event without adding it. Raise MixedPoliciesError or UnknownEventError."""
        match event:
            case Released(policy=policy, epsilon=epsilon):
                return self._compute_released_cost(policy, epsilon)
            case PostProcessed(source=source):
                return self.cost(source)
            case Sequential(events=events):
                return sum((self.cost(part) for part in events), Fraction(0))
            case Repeated(event=part, times=times):
                return self.cost(part) * times
            case Parallel(events=events):
                return max((self.cost(part) for part in events), default=Fraction(0))
            case _:
                raise UnknownEventError(
                    f"The event is a {type(event).__name__}: expected Released, PostProcessed, Sequential, Repeated or "
                    "Parallel; write it as one of these, with a proof of its ε."
                )

    def _compute_released_cost(self, policy: RecordPolicy, epsilon: Fraction) -> Fraction:
        if not policy.covers(self._policy):
            raise MixedPoliciesError(
                "The event is proven for another policy than the accountant's: expected one with the same attributes "
                "and at least its pairs; use one accountant per policy, or prove the mechanism for this policy."
            )
        return epsilon
