"""The bases of one monitor, in the configuration and as parameters: what is asked of every kind.

Each kind has both subclasses in its `keys_and_parameters.py`. The configuration and the service call these methods and
name no kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from monitor.errors import Problem
from monitor.kinds.base.charged_times import ChargedTimes
from monitor.kinds.facts_and_questions import NeededFacts
from monitor.kinds.locations import Registry
from monitor.kinds.timing import Timing
from monitor.privacy.over_time import Mark, OverTimeRule
from monitor.privacy.payment_of_one_person import Charge
from monitor.privacy.published_numbers import TimeNumber
from monitor.records.charges_record import PlaceCharges
from monitor.time.slot_grid import SlotGrid
from monitor.values.single_values import Epsilon, Name, Section

Scope = Literal["place", "shard", "all places"]


class Monitor(ABC):
    """The parameters of one monitor. The default of a method is that of a kind which has nothing of the sort."""

    kind: ClassVar[str]
    """Its kind in the configuration and in records."""
    scope: ClassVar[Scope]
    """What one answer is about."""
    statuses: ClassVar[tuple[str, ...]]
    """The statuses of its answers."""
    name: str

    @property
    @abstractmethod
    def needed(self) -> NeededFacts:
        """The facts that the answers are computed from."""

    @abstractmethod
    def list_deciding(self) -> list[object]:
        """Return everything that decides the answers and their charges, for JSON (`monitor.ticks.rollout`)."""

    @abstractmethod
    def measure_largest(self, registry: Registry) -> int:
        """Return the maximum bytes of a record."""

    def measure_by_shard(self, registry: Registry) -> NDArray[np.int64]:
        """Return the maximum bytes of the record about each shard; empty if a record is not about a shard."""
        del registry
        return np.empty(0, np.int64)

    def find_oversized(self, key: str, registry: Registry) -> Iterator[Problem]:
        """Yield a problem if a record would be too large because of a key of this monitor. `key` is the monitor's."""
        del key, registry
        return iter(())

    def measure_with_marks(self, registry: Registry, marks: Mapping[str, tuple[Mark, ...]], tick: int) -> int:
        """Return the maximum bytes of a record that repeats the marks which run at a tick, by location; 0 if none does.

        The marks may come from earlier rules.
        """
        del registry, marks, tick
        return 0

    def measure_with_numbers(
        self, registry: Registry, noisy: Mapping[tuple[str, int], Mapping[str, Sequence[TimeNumber]]], as_of: int
    ) -> int:
        """Return the maximum bytes of a record of the tick with this as_of that repeats published numbers; 0 if none.

        `noisy` has them by monitor and designated time, and by location. They may come from an earlier, larger k.
        """
        del registry, noisy, as_of
        return 0

    def list_rules(self, registry: Registry) -> Mapping[str, OverTimeRule]:
        """Return the rules of the locations whose noisy answers leave marks (Algorithm 3), by id."""
        del registry
        return {}

    def declare_places(self, registry: Registry) -> tuple[PlaceCharges, ...]:
        """Return the charges of the watched locations."""
        del registry
        return ()

    def covers(self, registry: Registry, location: str, mark: Mark) -> bool:
        """Return whether the charge of this monitor includes a published number of one of its locations.

        Numbers of rules that `list_rules` returns are not asked for: the period check adds them up itself.
        """
        del registry, location, mark
        return False

    def find_first_known(self, complete_from: int) -> int:
        """Return the first tick that can answer, if the facts are complete for visits from a slot on."""
        return complete_from + self.needed.window - 1

    @property
    def charged_times(self) -> tuple[ChargedTimes, ...]:
        """What is charged per designated time: first the answers themselves, then what is charged in addition."""
        return ()

    def reads_all_shards(self, tick: int, grid: SlotGrid) -> bool:
        """Return whether an answer of this tick is computed from the facts of all shards."""
        del tick, grid
        return False


def are_valid(keys: Iterable[str], invalid: Iterable[str]) -> bool:
    """Return whether the values of all these dotted keys are valid, with everything above and below them."""
    return not any(
        f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}.") for key in keys for other in invalid
    )


@dataclass(frozen=True, slots=True)
class ValidKeys:
    """The keys of a monitor that a condition may read. `key` is the monitor's own; `slot` is None if it is invalid."""

    key: str
    invalid: frozenset[str]
    slot: int | None

    def has(self, *names: str) -> bool:
        """Return whether the values of all these keys of the monitor are valid."""
        return are_valid((f"{self.key}.{name}" for name in names), self.invalid)


class ConfiguredMonitor(Section):
    """One monitor of the configuration. Durations are in microseconds, ε is exact.

    A monitor with invalid keys lacks them. `find_problems` then reads the others.
    """

    charged: ClassVar[tuple[str, ...]] = ()
    """The kinds of its charges per designated time, as in owner records."""
    reads_lengths: ClassVar[bool] = False
    """Whether its answers are computed from the lengths of visits, which its kind then names in the fingerprint."""

    name: Name = Field(description="the monitor's name: letters, digits, - and _")
    kind: str
    epsilon: Epsilon

    @property
    def location_ids(self) -> tuple[str, ...]:
        """The ids of the watched locations, in the order written; () if the monitor does not list any."""
        return ()

    @property
    def longest_window(self) -> int:
        """How far back visits count before a tick; 0 if the monitor has no window."""
        return 0

    def find_timezone(self) -> str | None:
        """Return the time zone in which the monitor has times of day; None if it has none."""
        return None

    @abstractmethod
    def find_problems(self, keys: ValidKeys) -> Iterator[Problem]:
        """Yield a problem for each broken condition between valid keys of the monitor and the slot."""

    @abstractmethod
    def derive(self, registry: Registry, timing: Timing) -> Monitor:
        """Return the parameters. Every watched location must be in the registry."""

    @abstractmethod
    def charge(self, timing: Timing) -> Charge:
        """Return the most that the monitor may charge one person within any period."""
