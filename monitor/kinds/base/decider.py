"""The base of the deciders: what a tick asks of the monitors of every kind.

Each kind has a subclass in its `decide.py`. The deciders are pure except for the noise, which is passed in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from monitor.kinds.answer_state import AnswerState
from monitor.kinds.base.keys_and_parameters import Monitor
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import BucketCount, Question, Since, Window
from monitor.kinds.parameters import Parameters
from monitor.privacy.one_sided_noise import Noise
from monitor.records.output_records import OutputRecord


@dataclass(frozen=True, slots=True)
class Tally:
    """A decision while it is made."""

    known: Mapping[str, OutputRecord]
    """The answers of the tick that the ledger contains, by ce_id. They are drawn already."""
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of new answers by (monitor, status)."""
    unknown: set[tuple[int, str]] = field(default_factory=set)
    """The shards with a reading that have an unknown answer, each with the cause (`monitor.records.unknown_causes`)."""


M = TypeVar("M", bound=Monitor)


class MonitorDecider(ABC, Generic[M]):
    """Decides the ticks of one monitor for one ledger partition.

    Args:
        parameters: the parameters of the service.
        monitor: the monitor.
        shards: the shards of this ledger partition.
        noise: the source of one-sided noise.
        first_window: the number of windows of earlier monitors in the questions.
    """

    def __init__(
        self, parameters: Parameters, monitor: M, shards: Sequence[int], noise: Noise, first_window: int
    ) -> None:
        self._parameters = parameters
        self.monitor = monitor
        self._shards = tuple(shards)
        self._noise = noise
        self._first_window = first_window

    def list_windows(self, shard: int, tick: int) -> tuple[Window, ...]:
        """Return the windows to count in a shard of this partition. Their number is the same for all shards."""
        del shard, tick
        return ()

    def list_since(self, shard: int, tick: int, state: AnswerState) -> tuple[Since, ...]:
        """Return the counts to read in a shard by what was reported since an earlier answer."""
        del shard, tick, state
        return ()

    def list_buckets(self, shard: int, tick: int, state: AnswerState) -> tuple[BucketCount, ...]:
        """Return the buckets to count in a shard."""
        del shard, tick, state
        return ()

    def ask(self, tick: int) -> Question:
        """Return what to read of each shard about designated times. A monitor about all places asks all shards."""
        del tick
        return Question()

    @abstractmethod
    def list_ids(self, tick: int, drawn: Collection[tuple[str, int]]) -> list[str]:
        """Return the ce_ids of the answers of a tick, in their order.

        `drawn`: the monitors and designated times whose only answer was drawn. They have no other.
        """

    @abstractmethod
    def decide(self, tick: int, evidence: Evidence, state: AnswerState, tally: Tally) -> list[OutputRecord]:
        """Draw each answer of a tick once, and record the spent ε in `state`. Return all records of the tick."""
