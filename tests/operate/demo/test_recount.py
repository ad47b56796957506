"""The file with the result of the demo's recount, which its page reads."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

from monitor.audit import AuditReport
from monitor.audit.kinds.all_kinds import OWN_ORACLES
from monitor.operate.demo.page import write_recount


def test_recount_counts_all_statements(tmp_path: Path) -> None:
    """The file counts every false statement, and states the ε that the answers may have cost."""
    report = AuditReport(
        records=9,
        ticks=3,
        first_tick=0,
        last_tick=2,
        whole_until=2,
        answers={},
        safe=1,
        noisy=2,
        bounds=1,
        violations={},
        totals={"safe": 1, "noisy_count": 2, "at_least": 4, **dict.fromkeys(OWN_ORACLES, 8), "form": 16, "paid": 32},
        spent=Fraction(7, 2),
        may_pay=Fraction(5),
        fates={},
    )
    write_recount(tmp_path / "recount.json", report, 0)
    written = json.loads((tmp_path / "recount.json").read_text())
    assert written == {"up_to": "1970-01-01T00:00:00Z", "false": 1 + 2 + 4 + 8, "epsilon_at_most": "7/2"}
