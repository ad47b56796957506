"""An independent recount: whether everything published is true, and within its ε (docs/runtime.md, section 6).

The audit imports nothing of the rest of `monitor`, so that it does not repeat an error of the service. It computes
everything again from the input, the configuration and docs/interface.md. Its kernel is a plain loop over the visits,
for all ticks at once; the service updates its counts tick by tick.
"""

from __future__ import annotations

from monitor.tools.audit.audit import audit, audit_topics
from monitor.tools.audit.findings import AuditReport
from monitor.tools.audit.planted import find_planted
from monitor.tools.audit.rendering import render, render_kept
from monitor.tools.audit.text import AuditError

__all__ = ["AuditError", "AuditReport", "audit", "audit_topics", "find_planted", "render", "render_kept"]
