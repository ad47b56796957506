"""Log and count what becomes of the ticks of one ledger partition: decided, unknown, skipped or incomplete."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final

from monitor.errors import UnreachableError
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.records.unknown_causes import INPUT_BEHIND, count_causes, explain, explain_hidden
from monitor.ticks.collect_answers import Decision
from monitor.ticks.owner import Owner, Rest
from monitor.ticks.shared_by_partitions import TickContext
from monitor.time.instants import SECOND, format_instant

log = logging.getLogger(__name__)

REPEAT_SECONDS: Final = 60.0  # between two lines about unknown ticks with the same causes


class TickReports:
    """The reports about the ticks of one ledger partition. Used by one thread.

    A loss is expected before the append that makes it final, and reported once the ledger contains this append. If the
    outcome of the append is not known, the next takeover shows it. So each loss is logged and counted once.
    """

    def __init__(self, partition: int, context: TickContext) -> None:
        self._partition, self._context = partition, context
        self._skipped: tuple[int, int] | None = None  # the first and the last tick
        self._incomplete: tuple[Rest, Sequence[str]] | None = None  # and the monitors for which the tick is skipped
        self._causes: frozenset[str] = frozenset()
        self._causes_logged_at = 0.0

    def _format_end(self, tick: int) -> str:
        return format_instant(self._context.parameters.grid.as_of(tick))

    def expect_skipped(self, first: int, last: int) -> None:
        """Note which ticks the next append skips; none if `first` is after `last`."""
        self._skipped = (first, last) if first <= last else None

    def expect_incomplete(self, rest: Rest, monitors: Sequence[str] = ()) -> None:
        """Note which answers are lost with the next append. `monitors`: those for which the tick counts as skipped."""
        self._incomplete = rest, monitors

    def report_takeover(self, owner: Owner, reason: str) -> None:
        """Count a takeover, and report what the ledger has lost if the append before it was committed."""
        metrics, incomplete = self._context.metrics, self._incomplete
        metrics.count_recovery("takeover")
        metrics.count_lost(self._partition, self._context.monitors, 0)
        if incomplete is not None and (owner.rest, owner.state.incomplete) != (None, incomplete[0].tick):
            self._incomplete = None  # nothing is lost yet, or the rest is given up again
        self.report_losses(owner.state.last_tick, reason)

    def report_losses(self, last_tick: int | None, reason: str) -> None:
        """Report the expected losses, after an append.

        `last_tick`: the ledger's last tick. `reason`: why no instance has decided the ticks that are skipped.
        """
        skipped, self._skipped = self._skipped, None
        if skipped is not None and last_tick is not None and last_tick > skipped[1]:
            self._report_skipped(*skipped, reason)
        incomplete, self._incomplete = self._incomplete, None
        if incomplete is not None:
            self._report_incomplete(*incomplete)

    def _report_skipped(self, first: int, last: int, reason: str) -> None:
        """Report ticks that no instance has decided."""
        log.error(
            "ledger partition %d: the ticks of %s to %s are lost (%d): %s",
            self._partition,
            self._format_end(first),
            self._format_end(last),
            last - first + 1,
            reason,
        )
        self._context.metrics.count_lost(self._partition, self._context.monitors, last - first + 1)

    def _report_incomplete(self, rest: Rest, monitors: Sequence[str]) -> None:
        """Report a tick of which answers are lost."""
        log.error(
            "ledger partition %d: %s answers of the tick of %s are lost: %s",
            self._partition,
            "some" if rest.lost is None else rest.lost,
            self._format_end(rest.tick),
            rest.reason,
        )
        self._context.metrics.count_lost(self._partition, monitors, 1, rest.lost or 0)

    def report_unknown(self, tick: int, evidence: Evidence, decision: Decision) -> str:
        """Count the causes of an unknown tick, and log them in one line, the same causes at most once a minute.

        Return what an operator has to end: a transaction that keeps the input from being read. Empty if there is none.
        """
        metrics = self._context.metrics
        metrics.set_missing({partition: end - reached for partition, (reached, end) in evidence.behind.items()})
        causes = count_causes(evidence.causes.values(), decision.unknown)
        before, self._causes = self._causes, frozenset(causes)
        if not causes:
            if before:
                log.warning("ledger partition %d: ticks are known again", self._partition)
            return ""
        metrics.count_unknown(causes)
        stable = self._read_stable_ends(evidence) if INPUT_BEHIND in causes else {}
        hidden = "; ".join(explain_hidden(evidence.behind, stable))
        now = time.monotonic()
        if self._causes == before and now - self._causes_logged_at < REPEAT_SECONDS:
            return hidden
        self._causes_logged_at = now
        reasons = explain(causes, evidence.behind, stable)
        log.warning(
            "ledger partition %d: the tick of %s is unknown: %s", self._partition, self._format_end(tick), reasons
        )
        return hidden

    def _read_stable_ends(self, evidence: Evidence) -> Mapping[int, int]:
        """Return the last stable offsets of the partitions that a tick lacks; nothing if Kafka does not answer."""
        try:
            short = [partition for partition, (reached, end) in evidence.behind.items() if reached < end]
            return self._context.input_topic.read_stable_ends(short)
        except UnreachableError:  # the next tick will notice it too
            return {}

    def report_decided(self, tick: int, decision: Decision, worked: float) -> None:
        """Count a decided tick and its answers. `worked`: the seconds of work, without the wait for the release."""
        metrics, as_of = self._context.metrics, self._context.parameters.grid.as_of(tick)
        metrics.observe_tick(worked, (self._context.clock.now() - as_of) / SECOND)
        unknown = {monitor for monitor, status in decision.answers if status == "unknown"}
        outcomes = {name: "unknown" if name in unknown else "decided" for name in self._context.monitors}
        metrics.count_tick(self._partition, as_of / SECOND, outcomes, decision.answers)

    def end(self) -> None:
        """Drop the partition's metrics."""
        self._context.metrics.forget_partition(self._partition)
