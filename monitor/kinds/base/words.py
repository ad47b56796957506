"""The base of what `check`, `plan`, `register` and `schema` say about a kind of monitor.

Each kind has a subclass in its `words.py`. The commands call these methods and name no kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Generic, TypeVar

from monitor.kinds.base.examples import AnswerExample
from monitor.kinds.base.keys_and_parameters import ConfiguredMonitor
from monitor.kinds.designs import Design
from monitor.kinds.report_delays import ReportDelays
from monitor.kinds.timing import Timing
from monitor.privacy.alarm_chances import compute_false_alarm, compute_mean_noise, find_threshold
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.payment_of_one_person import Charge

SELDOM: Final = 0.05
"""Up to this chance of a false alarm at an empty location, a monitor is fine. Proposed thresholds keep below it."""

Keys = TypeVar("Keys", bound=ConfiguredMonitor)


@dataclass(frozen=True, slots=True)
class Note:
    """The figures that only one kind has."""

    tree: Mapping[str, object]
    """For JSON."""
    heading: str
    text: str
    """A sentence, which `check` prints below `heading` and `introduction`."""
    introduction: str = ""
    is_silence: bool = False
    """Whether it is about when the monitor is silent."""


@dataclass(frozen=True)
class Words(ABC, Generic[Keys]):
    """What there is to say about a monitor. The default of a method is that of a kind which has nothing to say.

    Args:
        monitor: the monitor of the configuration.
        timing: the times that all monitors share.
        locations: the number of locations of the registry.
    """

    monitor: Keys
    timing: Timing
    locations: int

    per: ClassVar[str]
    """What one visit is charged for."""
    limit: ClassVar[str]
    """The key that limits how late a visit may be reported."""
    meaning: ClassVar[str] = ""
    """The line of the public notice about the answers of this kind."""
    in_both_directions: ClassVar[tuple[str, str] | None] = None
    """Texts of the registry entry about a kind whose promise is ordinary differential privacy: the relation, and the
    noise.
    """
    note_key: ClassVar[str]
    """The key of `note` in the JSON of `check`."""
    other_share_key: ClassVar[str] = "first_answer"
    """The key of `find_other_share` there."""
    charged_per_place: ClassVar[bool] = False
    """Whether a person who is at several places at once pays at each."""

    @staticmethod
    @abstractmethod
    def list_examples() -> Iterator[AnswerExample]:
        """Yield examples of the answers, for the published schemas. The first one is the most common answer."""

    @property
    def threshold(self) -> int | None:
        """The number of people from which a number is published; None if no location is called safe."""
        return None

    @property
    def updates(self) -> int:
        """The number of answers that together are one occasion for a false alarm."""
        return 1

    @property
    @abstractmethod
    def shares(self) -> Counter[Fraction]:
        """The number of locations by the ε of an answer about them."""

    @property
    @abstractmethod
    def one_visit(self) -> Fraction:
        """The most ε that one visit costs for each `per`."""

    @property
    def visit_shares(self) -> Mapping[str, Fraction]:
        """The ε of one visit by location; empty if it is `one_visit` at every location."""
        return {}

    def count_in_sight(self, people: int) -> float:
        """Return the expected number of locations that show an alarm at any time, if each has this number of people."""
        design, threshold = self.make_design(), self.threshold
        if design is None or threshold is None:
            return 0.0
        return sum(
            locations * design.compute_share_in_sight(compute_false_alarm(epsilon, threshold, people))
            for epsilon, locations in self.shares.items()
        )

    @property
    def counts_consent(self) -> bool:
        """Whether people who consented are counted in public."""
        return False

    @property
    def longest_delay(self) -> int:
        """The value of the key `limit`, in microseconds."""
        longest: int = getattr(self.monitor, self.limit)
        return longest

    @abstractmethod
    def ask(self) -> str:
        """Return the question that the monitor answers."""

    @abstractmethod
    def explain(self, charge: Charge) -> str:
        """Return how the charge is computed."""

    @abstractmethod
    def describe_width(self) -> str:
        """Return how far a published number may be from the truth."""

    def note(self) -> Note | None:
        """Return the figures that only this kind has."""
        return None

    def describe_false_alarms(self, chance: float) -> str:
        """Return a sentence on false alarms at all locations together, given the chance at one; or nothing."""
        del chance
        return ""

    def list_useless_keys(self) -> Iterator[str]:
        """Yield a sentence for each key that only makes answers worse, with what to do."""
        return iter(())

    def find_other_share(self, delays: ReportDelays) -> Fraction | None:
        """Return the share of visits that an earlier answer counts; None if there is only one answer about a visit."""
        del delays
        return None

    @abstractmethod
    def describe_counted(self, in_time: str, other: str) -> str:
        """Return what answers count. `in_time`: the visits that are reported in time; `other`: the other share."""

    def make_design(self) -> Design | None:
        """Return the design without T and ε, for `plan`; None if the monitor has no threshold."""
        return None

    def list_changes(self) -> Iterator[tuple[str, Mapping[str, int]]]:
        """Yield neighbouring values of the keys that only this kind has, each with its name."""
        return iter(())


def describe_noise(shares: Counter[Fraction]) -> str:
    """Return how much one-sided noise adds to a count, for each ε of an answer."""
    widths = (
        f"{compute_mean_noise(epsilon):,.2g} people on average "
        f"and fewer than {find_threshold(epsilon, 1, SELDOM)} with a chance of "
        f"95 % (ε of an answer {format_epsilon(epsilon)})"
        for epsilon in sorted(shares, reverse=True)
    )
    return f"Noise adds to a count {'; '.join(widths)}. Each number is a certain upper bound."
