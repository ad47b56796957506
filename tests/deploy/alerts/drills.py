"""One drill for each alert: the fault that fires it, and which of the rule's times a person waits for.

To add an alert: add its Drill here, run `make soak` (or test_drills.py alone), and write the row that it prints into
docs/runbooks.md. If one machine cannot cause its fault, add the reason to
NOT_CAUSED instead.
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
    """A drill of an alert. `what`: the fault, in words for the runbook.

    `waits`: the times of the rule before the alert fires. `holds`: those before it clears. Tests shorten them, and the
    printed figures contain the true ones. `spoils`: whether the site cannot be used afterwards.
    """

    alert: str
    fault: Fault
    what: str
    waits: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    spoils: bool = False


_HOUR: Final = ("1h",)

DRILLS: Final = (
    Drill("LocationMonitorTicksMissing", faults.foreign_member, "a foreign consumer joins the release group"),
    Drill("LocationMonitorAnswersUnknown", faults.full_store, "Redis refuses writes for lack of memory"),
    Drill("LocationMonitorReadingStalled", faults.full_store, "as for AnswersUnknown", ("10m", "5m")),
    Drill("LocationMonitorNotReady", faults.frozen_store, "the process of Redis is frozen", ("30m",)),
    Drill(
        "LocationMonitorFactsLate",
        faults.stalling_store,
        "Redis delays writes for 7 s, again and again",
        ("30m",),
        ("30m",),
    ),
    Drill(
        "LocationMonitorTicksNotDecided",
        faults.full_store,
        "Redis refuses writes for lack of memory",
        holds=("7d",),
    ),
    Drill(
        "LocationMonitorStoresDiffer",
        faults.other_store,
        "a second instance uses another Redis, under traffic",
        ("5m",),
    ),
    Drill("LocationMonitorInstancesDiffer", faults.other_key, "a second instance has another person key", ("2h",)),
    Drill(
        "LocationMonitorDeadLetters",
        faults.refused_visits,
        "visits of a place that the registry lacks",
        ("10m",),
        _HOUR,
    ),
    Drill(
        "LocationMonitorInputRecordsLost",
        faults.lost_input,
        "records are deleted while no instance runs",
        holds=_HOUR,
    ),
    Drill("LocationMonitorAbsent", faults.stopped_service, "the only instance is stopped", ("2m",)),
    Drill("LocationMonitorAuditorAbsent", faults.stopped_auditor, "the auditor is stopped", ("5m",)),
    Drill("LocationMonitorRedisMemory", faults.small_store, "the limit of Redis is made small", ("15m",)),
    Drill("LocationMonitorPageAbsent", faults.stopped_page, "the page is stopped", ("5m",)),
    Drill(
        "LocationMonitorPageRefuses",
        faults.crowded_page,
        "more subscribers come than the page allows",
        ("10m",),
        ("30m",),
    ),
    Drill("LocationMonitorPageStale", faults.frozen_broker, "the process of Kafka is frozen", ("1m",)),
    Drill("LocationMonitorAuditTicksMissing", faults.lost_ticks, "no instance runs for four slots", holds=_HOUR),
    Drill(
        "LocationMonitorAuditIncomplete",
        faults.wrong_configuration,
        "the auditor is started with a configuration that is not in force",
    ),
    Drill(
        "LocationMonitorAuditorCutOff",
        faults.hanging_transaction,
        "a producer leaves a transaction open on the input",
        ("5m",),
    ),
    Drill("LocationMonitorAuditorNoSuccess", faults.hanging_transaction, "as for CutOff", ("1m",)),
    Drill(
        "LocationMonitorAuditFinding",
        faults.stranger,
        "another program writes to the output topic",
        holds=_HOUR,
        spoils=True,
    ),
    Drill(
        "LocationMonitorLedgerAhead",
        faults.ledger_ahead,
        "the test appends a record from a minute ahead, because one machine has one clock",
        holds=_HOUR,
        spoils=True,
    ),
)

NOT_CAUSED: Final = (
    "LocationMonitorCertificateExpires",
    "LocationMonitorCertificateExpiresSoon",
    "LocationMonitorRecordsLate",
)
"""The alerts whose fault one machine cannot cause. docs/runbooks.md states the reasons."""
