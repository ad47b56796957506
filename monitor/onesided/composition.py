"""Composition: privacy FACTS (frozen events) apart from privacy ARITHMETIC (an accountant), with exact rational ε.

Sequential composition adds ([ADP], Theorem 6). With one-sided noise an answer's loss is exactly its ε, not a random ±,
so nothing better is to be had (docs/rules.md, rule 12).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from monitor.errors import BudgetError, MixedPoliciesError, PrivacyError, UnknownEventError
from monitor.onesided.policies import RecordPolicy
from monitor.privacy.epsilon import parse_epsilon


class Event:
    """Something that happened to the data. What it costs is the accountant's matter."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Released(Event):
    """An answer of a (P, ε)-ADP mechanism was published."""

    policy: RecordPolicy
    epsilon: Fraction

    def __post_init__(self) -> None:
        """Raise EpsilonError for an ε that is not an exact rational above zero."""
        parse_epsilon(self.epsilon)


@dataclass(frozen=True, slots=True)
class PostProcessed(Event):
    """Something was computed from what an event had published, without looking at the data again: it adds nothing.

    For a function h, {h(z) ∈ S} is the set {z ∈ h^-1(S)} of outcomes of the event itself.
    """

    source: Event


@dataclass(frozen=True, slots=True)
class Sequential(Event):
    """All of the events happened to the same data, each perhaps chosen by what earlier ones had published."""

    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Repeated(Event):
    """The same event happened a number of times to the same data."""

    event: Event
    times: int

    def __post_init__(self) -> None:
        """Raise PrivacyError for fewer than one time."""
        if self.times < 1:
            raise PrivacyError(f"times is {self.times}: expected at least 1; leave out what did not happen.")


@dataclass(frozen=True, slots=True)
class Parallel(Event):
    """Each event looked at people of its own: `people` names the part of each event, and no part occurs twice.

    Who is in which part must be public, and fixed before the data is known: by a person's answers it may not go, as
    another answer would move the person.
    """

    people: tuple[str, ...]
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        """Raise PrivacyError unless there is one part of its own for each event."""
        if len(self.people) != len(self.events) or len(set(self.people)) != len(self.people):
            raise PrivacyError(
                f"{len(self.events)} parallel events have {len(set(self.people))} different groups of people: expected "
                "one of its own for each event; compose events on the same people in sequence."
            )


class Accountant:
    """Adds up what events cost under one policy, and refuses what exceeds the budget, or what it does not know.

    A person's P-neighbours change one record: so a sequence costs the sum, and parallel events, of which one alone
    sees the person, the greatest.
    """

    def __init__(self, policy: RecordPolicy, budget: Fraction) -> None:
        """Start with nothing spent. Raises EpsilonError for a budget that is not an exact rational above zero."""
        self._policy = policy
        self._budget = parse_epsilon(budget)
        self._spent = Fraction(0)

    @property
    def spent(self) -> Fraction:
        """The ε of all that has been composed."""
        return self._spent

    @property
    def remaining(self) -> Fraction:
        """The ε that is left."""
        return self._budget - self._spent

    def compose(self, event: Event) -> Self:
        """Add an event, before it happens.

        Raises:
            BudgetError: it costs more than what remains; nothing is spent.
            MixedPoliciesError: it is proven for another policy that does not cover this one.
            UnknownEventError: there is no rule for it.
        """
        requested = self.cost(event)
        if requested > self.remaining:
            raise BudgetError(
                requested,
                self.remaining,
                "Ask for fewer or noisier answers, or raise the budget where it is stated to the people concerned.",
            )
        self._spent += requested
        return self

    def cost(self, event: Event) -> Fraction:
        """What an event costs, without adding it. Raises MixedPoliciesError and UnknownEventError as `compose`."""
        match event:
            case Released(policy=policy, epsilon=epsilon):
                return self._released(policy, epsilon)
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

    def _released(self, policy: RecordPolicy, epsilon: Fraction) -> Fraction:
        if not policy.covers(self._policy):
            raise MixedPoliciesError(
                "The event is proven for another policy than the accountant's: expected one with the same attributes "
                "and at least its pairs; keep one accountant for each policy, or prove the mechanism for this one."
            )
        return epsilon
