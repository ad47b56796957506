"""The list of all kinds of monitors. Only this module names them all."""

from __future__ import annotations

from typing import Any, Final

from monitor.audit.findings import ANSWER_ORACLES, RULE_ORACLES
from monitor.audit.kinds.at_times import AtTimesMonitor
from monitor.audit.kinds.base.monitor import Monitor
from monitor.audit.kinds.dwell import DwellMonitor
from monitor.audit.kinds.hot_spots import HotSpotsMonitor
from monitor.audit.kinds.over_time import OverTimeMonitor
from monitor.audit.kinds.upper_bound import UpperBoundMonitor

KINDS: Final[dict[str, type[Monitor[Any]]]] = {
    kind.kind: kind for kind in (OverTimeMonitor, AtTimesMonitor, HotSpotsMonitor, DwellMonitor, UpperBoundMonitor)
}
"""All kinds by name."""

OWN_ORACLES: Final = {name: proven for kind in KINDS.values() for name, proven in kind.own_oracles.items()}
"""What the audit of one kind alone proves, by the name of the finding."""

ORACLES: Final = {**ANSWER_ORACLES, **OWN_ORACLES, **RULE_ORACLES}
"""All that the audit proves, by the name of the finding."""
