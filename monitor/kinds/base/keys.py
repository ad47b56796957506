"""The base of the monitors of the configuration: what is asked of every kind before anything is computed.

Each kind has a subclass in its `keys.py`, with its keys and the conditions between them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import Field

from monitor.errors import Problem
from monitor.kinds.base.monitor import Monitor
from monitor.kinds.locations import Registry
from monitor.kinds.timing import Timing
from monitor.privacy.payment_of_one_person import Charge
from monitor.values.single_values import Epsilon, Name, Section


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
