"""The result of `check --live`: what `run` would decide now, and what would change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from monitor.operate.check.report import make_tree
from monitor.time.instants import format_instant


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why `run` would refuse to start (exit code 3), in the words of `run`. `kind`: the name of the error."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A topic that exists: its configuration key and name, and its partitions, replicas and `retention.ms` in Kafka."""

    key: str
    topic: str
    partitions: int
    replicas: int
    retention_ms: str


@dataclass(frozen=True, slots=True)
class PeriodPayment:
    """What one person may pay in a period, with the answers that were published under earlier configurations."""

    stated: Fraction
    """The ε that the configuration states (`privacy.epsilon`)."""
    worst: Fraction
    """Under the new configuration alone."""
    total: Fraction
    """With earlier answers."""
    added: Mapping[str, Fraction]
    """For each monitor with published answers, how much smaller the total would be without them."""
    fits_from: int | None
    """The instant from which the total fits; None if it fits now, or never."""
    fences_others: bool | None
    """Whether a takeover would fence instances with another configuration, because the sum is too large while both
    answer; None if there are no such instances.
    """

    @property
    def fits(self) -> bool:
        """Whether the total is at most the stated ε."""
        return self.total <= self.stated


@dataclass(frozen=True, slots=True)
class PartitionStart:
    """The offsets of an input partition that would be read, and why reading does not continue where the facts end.

    `cause`: a label of `recoveries_total`, or `CONTINUES`.
    """

    partition: int
    start: int
    end: int
    cause: str


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of the new configuration, and the records that an instance would read before it is ready."""

    fingerprint: str
    exist: bool
    """Whether Redis has facts with this fingerprint."""
    partitions: tuple[PartitionStart, ...]
    complete_from: int
    """The instant from which the facts are complete after reading."""

    @property
    def records(self) -> int:
        """The largest number of records that would be read."""
        return sum(max(0, partition.end - partition.start) for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class Silence:
    """The answers that a monitor could not give after a takeover now. Times are instants; None if not applicable."""

    monitor: str
    kind: str
    places: int | None = None
    """How many places an `over_time` monitor watches."""
    paused: int = 0
    """How many of them are paused."""
    longer: int = 0
    """How many of the paused places stay paused for longer than was published."""
    first_resumes: int | None = None
    last_resumes: int | None = None
    """`first_resumes`, `last_resumes`: when the first and the last paused place can answer again, at the earliest."""
    unknown_until: int | None = None
    """The last as_of with unknown answers, because earlier facts are missing."""
    times_unknown_before: int | None = None
    """Designated times before this instant stay unknown."""

    @property
    def is_silent(self) -> bool:
        """Whether any answer is missing."""
        return bool(self.paused) or self.unknown_until is not None or self.times_unknown_before is not None


@dataclass(frozen=True, slots=True)
class LiveReport:
    """The whole result. A part is None if an earlier problem prevented finding it out."""

    at: int
    """The instant of the check."""
    refusals: tuple[Refusal, ...] = ()
    """Why `run` would not start; `run` itself reports only the first one."""
    obstacles: tuple[str, ...] = ()
    """Why `run` would wait and try again, such as a server that does not answer."""
    warnings: tuple[str, ...] = ()
    topics: tuple[TopicSummary, ...] = ()
    ledger_partitions: int | None = None
    last_answers: int | None = None
    """The as_of of the last decided tick."""
    cost: PeriodPayment | None = None
    facts: Facts | None = None
    facts_unknown: str = ""
    silences: tuple[Silence, ...] = ()
    members: int | None = None
    other_members: int | None = None
    """How many members of the release group have another configuration; a new instance waits until they have left."""

    def to_tree(self) -> dict[str, Any]:
        """Return the report as an object for JSON: ε as exact strings, times as RFC 3339."""
        tree = make_tree(self)
        for entry, names in (
            (tree, ("at", "last_answers")),
            (tree["cost"], ("fits_from",)),
            (tree["facts"], ("complete_from",)),
            *((silence, _SILENCE_TIMES) for silence in tree["silences"]),
        ):
            for name in names if entry is not None else ():
                entry[name] = None if entry[name] is None else format_time(entry[name])
        if self.cost is not None:
            tree["cost"]["fits"] = self.cost.fits
        if self.facts is not None:
            tree["facts"]["records"] = self.facts.records
        return tree


_SILENCE_TIMES = ("first_resumes", "last_resumes", "unknown_until", "times_unknown_before")


def format_time(instant: int) -> str | None:
    """Return an instant as RFC 3339; None if it is outside the years 1 to 9999."""
    try:
        return format_instant(instant)
    except OverflowError:
        return None
