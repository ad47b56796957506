"""An independent recount of a run (docs/runtime.md, section 6).

It checks that every published answer is true and that no more ε was spent than stated. It imports nothing from the rest
of `monitor`, so that it cannot repeat an error of the service. It recomputes everything from the input, the
configuration and docs/interface.md. It counts in a plain loop over the visits, for all ticks at once; the service
updates its counts tick by tick.
"""

from __future__ import annotations

from monitor.tools.audit.audit import audit, audit_files, audit_topics
from monitor.tools.audit.findings import AuditReport
from monitor.tools.audit.planted import find_planted
from monitor.tools.audit.rendering import render, render_kept
from monitor.tools.audit.text import AuditError

__all__ = ["AuditError", "AuditReport", "audit", "audit_files", "audit_topics", "find_planted", "render", "render_kept"]
