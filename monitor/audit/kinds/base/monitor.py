"""The base of the audit of a kind: what the rest of the audit asks of every monitor.

Each kind has a module with subclasses of `Monitor` (its terms), `Counts` (its recount) and `Check`, and the form of its
answers. The rest of the audit calls these methods and names no kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from monitor.audit.findings import FORM, Findings
from monitor.audit.history import History
from monitor.audit.parse_values import format_utc
from monitor.audit.record_fields import Record
from monitor.audit.recount_payments import Payments
from monitor.audit.shared_terms import Grid, SharedTerms
from monitor.audit.visits import AcceptedVisit

Prove = Callable[[], None]
"""A function that compares an answer with the recount."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What the checks of one configuration share."""

    terms: SharedTerms
    history: History
    payments: Payments
    findings: Findings


class Part(NamedTuple):
    """One of the output partitions. `partitions`: how many there are."""

    partition: int
    partitions: int

    def has(self, number: int) -> bool:
        """Return whether the partition has the records of a shard, or of a hash."""
        return number % self.partitions == self.partition


class Use(IntEnum):
    """What a monitor does with a visit.

    IN_WINDOW, IN_TIME: an answer counts it, over time or about a designated time. OUT_OF_WINDOW, TOO_LATE: only answers
    of earlier ticks would. NONE: no answer is about it.
    """

    NONE = auto()
    OUT_OF_WINDOW = auto()
    TOO_LATE = auto()
    IN_WINDOW = auto()
    IN_TIME = auto()


class Counts(ABC):
    """The recount of one monitor. `whole`: it has every visit that the next answers may count."""

    whole = True

    @abstractmethod
    def add(self, visit: AcceptedVisit) -> Use:
        """Add a visit, and return what becomes of it."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of visits that later answers may count."""

    @abstractmethod
    def forget(self, tick: int) -> None:
        """Forget what only answers before a tick count."""


C = TypeVar("C", bound=Counts)


class Monitor(ABC, Generic[C]):
    """The terms of one monitor."""

    kind: ClassVar[str]
    """Its kind in the configuration and in records."""
    answers: ClassVar[Any]
    """The form of its answers."""
    public: ClassVar[frozenset[str]]
    """The fields of an answer that follow from the configuration alone, and so show which one was in force."""
    charged: ClassVar[tuple[str, ...]] = ()
    """The kinds of its charges per designated time."""
    own_oracles: ClassVar[Mapping[str, str]] = {}
    """What only the audit of this kind proves, by the name of the finding."""
    name: str

    @classmethod
    @abstractmethod
    def parse(cls, keys: Any, terms: SharedTerms) -> Monitor[C]:
        """Parse the keys of a monitor, which are texts."""

    @abstractmethod
    def list_charges(self) -> Iterator[Hashable]:
        """Yield each charge of the monitor, as an owner record states it."""

    @abstractmethod
    def find_lifetime(self, grid: Grid) -> int:
        """Return how many slots after its last one no answer counts a visit any more."""

    def find_watched_rows(self, terms: SharedTerms) -> Collection[int] | None:
        """Return the rows of the locations that the answers are about; None if they are about all."""
        del terms
        return None

    @abstractmethod
    def create_counts(self, terms: SharedTerms) -> C:
        """Create an empty recount."""

    @abstractmethod
    def create_check(self, scope: Scope, counts: C | None) -> Check:
        """Create the check. `counts` is None if there is no input to compare with."""


class Check(ABC):
    """The check of one monitor's records, which it takes in order of tick.

    `statuses` counts the records by status. `safe`, `noisy` and `bounds` are the numbers of "safe" answers, noisy
    counts and lower bounds that were checked. `early`: the noisy counts of fewer people than the threshold, but of at
    least half of it. `noise`: those of fewer people than half of it.
    """

    def __init__(self, scope: Scope) -> None:
        self._terms = scope.terms
        self._history = scope.history
        self._payments = scope.payments
        self._findings = scope.findings
        self.statuses: Counter[str] = Counter()
        self.safe = self.noisy = self.bounds = self.early = self.noise = 0

    def _count_alarm(self, people: int, threshold: int) -> None:
        """Count a noisy count by what it says: true from the threshold on, early from half of it on, else noise."""
        self.early += people < threshold <= 2 * people
        self.noise += 2 * people < threshold

    @abstractmethod
    def take(self, record: Record) -> Prove | None:
        """Check the next record. Return the comparison with the recount; None if the record cannot be compared.

        Raises:
            FormError: a field is not in the form of docs/interface.md.
        """

    @abstractmethod
    def list_facts(self, form: Any) -> dict[str, Any]:
        """Return the fields that follow from the configuration and the tick; nothing if the monitor has no such answer.

        A configuration that has other ones did not publish the answer, or published it wrongly.
        """

    @abstractmethod
    def expect_records(self, tick: int, part: Part, found: int) -> int:
        """Return how many records of a tick an output partition should have, of which `found` have been read."""

    def _check_facts(self, record: Record, key: str) -> None:
        """Check the fields and headers that follow from the configuration, the subject and the tick."""
        form = record.form
        as_of = self._terms.grid.as_of(form.tick)
        headers = {
            "ce_type": f"org.location-monitor.{record.kind}",
            "ce_specversion": "1.0",
            "ce_source": self._terms.service,
            "ce_time": format_utc(as_of),
            "content-type": "application/json",
        }
        wrong = [name for name, text in headers.items() if record.headers.get(name) != text]
        facts = {"kind": record.kind, "as_of": as_of, **self.list_facts(form)}
        wrong += [name for name, fact in facts.items() if getattr(form, name) != fact]
        for name in wrong:
            text = f"{key}/{form.tick} ({record.position}): {name} is not that of the configuration and the tick"
            self._findings.add(FORM, text)
