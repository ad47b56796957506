"""How long a stop may take. The service, and the units and charts of deploy/ agree on these times.

    SIGTERM                                    the process has ended      SIGKILL
    ├── FINISH_SECONDS: work in progress ──┤ leave the groups, close ├────┤
    ├── STOP_SECONDS: the process has ended ─────────────────────────┤    │
    ├── GRACE_SECONDS: then systemd, compose or Kubernetes kills it ──────┤

A healthy instance stops in 6 to 12 seconds. It spends most of them waiting for a release that is due within ten
seconds. The limits below are for servers that do not answer (docs/operations.md, "How long a stop takes").
"""

from __future__ import annotations

from typing import Final

FINISH_SECONDS: Final = 30.0
"""The time in which all threads together finish their work. The next instance does the rest."""

STOP_SECONDS: Final = 65.0
"""The time in which a process ends after SIGTERM: `FINISH_SECONDS`, and half a minute to leave both groups."""

GRACE_SECONDS: Final = 70.0
"""The time between SIGTERM and SIGKILL that deploy/ gives the service: longer than a stop may take."""
