"""One drill for each alert: the fault that fires it.

To add an alert: add its Drill here, or add it to NOT_CAUSED if one machine cannot cause its fault.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

from tests.deploy.alerts import faults
from tests.deploy.alerts.site import Site

Fault = Callable[[Site, Callable[..., Any]], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Drill:
    """A drill of an alert: the fault that fires it. `spoils`: whether the site cannot be used afterwards."""

    alert: str
    fault: Fault
    spoils: bool = False


DRILLS: Final = (
    Drill("LocationMonitorTicksMissing", faults.foreign_member),
    Drill("LocationMonitorAnswersUnknown", faults.full_store),
    Drill("LocationMonitorReadingStalled", faults.full_store),
    Drill("LocationMonitorNotReady", faults.frozen_store),
    Drill("LocationMonitorFactsLate", faults.stalling_store),
    Drill("LocationMonitorTicksNotDecided", faults.full_store),
    Drill("LocationMonitorStoresDiffer", faults.other_store),
    Drill("LocationMonitorInstancesDiffer", faults.other_key),
    Drill("LocationMonitorDeadLetters", faults.refused_visits),
    Drill("LocationMonitorInputRecordsLost", faults.lost_input),
    Drill("LocationMonitorAbsent", faults.stopped_service),
    Drill("LocationMonitorAuditorAbsent", faults.stopped_auditor),
    Drill("LocationMonitorPageAbsent", faults.stopped_page),
    Drill("LocationMonitorPageRefuses", faults.crowded_page),
    Drill("LocationMonitorPageStale", faults.frozen_broker),
    Drill("LocationMonitorAuditTicksMissing", faults.lost_ticks),
    Drill("LocationMonitorAuditIncomplete", faults.wrong_configuration),
    Drill("LocationMonitorAuditorCutOff", faults.hanging_transaction),
    Drill("LocationMonitorAuditorNoSuccess", faults.hanging_transaction),
    Drill("LocationMonitorAuditFinding", faults.stranger, spoils=True),
    Drill("LocationMonitorLedgerAhead", faults.ledger_ahead, spoils=True),
)

NOT_CAUSED: Final = ("LocationMonitorRecordsLate",)
"""The alerts whose fault one machine cannot cause. docs/runbooks.md states the reasons."""
