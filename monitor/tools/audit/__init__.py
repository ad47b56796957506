"""An independent recount: whether all that was published is true, and within its ε (docs/runtime.md, section 6).

It shares no code with the service, so that an error of the service is not repeated here: nothing of the rest of
`monitor` is imported, and everything is worked out anew from the input, the configuration and the interface.
Counts are made in one go for all ticks, not kept up to date as the service does.
"""

from __future__ import annotations

from monitor.tools.audit.audit import audit, audit_topics
from monitor.tools.audit.findings import AuditReport
from monitor.tools.audit.planted import find_planted
from monitor.tools.audit.rendering import render, render_kept
from monitor.tools.audit.text import AuditError

__all__ = ["AuditError", "AuditReport", "audit", "audit_topics", "find_planted", "render", "render_kept"]
