"""An independent recount of a run (docs/rules.md, section 8).

It checks that every published answer is true and that no more ε was spent than stated. It imports nothing from the rest
of `monitor`, so that it cannot repeat an error of the service. It recomputes everything from the input and the
configuration, as docs/interface.md defines it. `compare_ticks.py` judges and counts, tick by tick; the records come
from files or topics. Only the connections to Kafka are given to it: `monitor.audit.live` opens them with the service's
code.
"""

from __future__ import annotations

import logging

from monitor.audit.audit_once import audit, audit_topics
from monitor.audit.findings import AuditReport
from monitor.audit.parse_values import AuditError
from monitor.audit.print_report import render

__all__ = [
    "AuditError",
    "AuditReport",
    "audit",
    "audit_topics",
    "render",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())  # only a program that sets up logging shows findings
