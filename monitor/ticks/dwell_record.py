"""Build the ledger record of dwell times."""

from __future__ import annotations

from monitor.contracts.dwell import make_dwell_record
from monitor.contracts.parameters import Dwell, Parameters
from monitor.privacy.paired import PairedTotals
from monitor.ticks.ledger import EncodedRecord


def build_dwell_record(
    parameters: Parameters, monitor: Dwell, time: int, tick: int, totals: PairedTotals | None
) -> EncodedRecord:
    """Return the record about one designated time at its final tick. `totals`: None if the input is not complete."""
    as_of = parameters.grid.as_of(tick)
    key, value, headers = make_dwell_record(
        source=parameters.name,
        monitor=monitor.name,
        time=time,
        tick=tick,
        as_of=as_of,
        registry=parameters.registry.digest,
        locations=len(parameters.registry.ids),
        epsilon=monitor.rule.epsilon,
        longest=monitor.rule.longest,
        per_person=monitor.rule.per_person,
        totals=totals,
    )
    return EncodedRecord(key, value, tuple(headers), as_of // 1_000)
