"""The reading of pip-audit's reports: a dependency that was not audited is never reported as sound."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def audit() -> Any:
    path = Path(__file__).with_name("audit_dependencies.py")
    spec = importlib.util.spec_from_file_location("audit_dependencies_under_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _report(*entries: dict[str, Any]) -> str:
    return "Found something\n" + json.dumps({"dependencies": list(entries), "fixes": []})


SOUND = {"name": "redis", "version": "7.0.1", "vulns": []}
UNKNOWN = {"name": "numpy", "skip_reason": "Dependency not found on PyPI and could not be audited"}
AFFECTED = {"name": "pyyaml", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"], "aliases": []}]}


@pytest.mark.parametrize(
    ("report", "required", "code", "message"),
    [
        (_report(SOUND), True, 0, "1 dependencies have no known vulnerability"),
        (_report(SOUND, UNKNOWN), True, 0, "NOT AUDITED: numpy"),
        (_report(UNKNOWN), False, 0, "NOT AUDITED: no advisories were read"),
        (_report(UNKNOWN), True, 1, "NOT AUDITED: no advisories were read"),
        ("", False, 0, "NOT AUDITED: no advisories were read"),
        ("", True, 1, "NOT AUDITED: no advisories were read"),
        (_report(SOUND, UNKNOWN, AFFECTED), False, 1, "pyyaml 1: PYSEC-1, fixed in 2"),
    ],
)
def test_audit_verdict(audit: Any, report: str, required: bool, code: int, message: str) -> None:
    """A finding fails. So does a run that audited nothing, if it is required; else it says so."""
    exit_code, text = audit.judge(audit.parse_report(report), required=required)
    assert exit_code == code
    assert message in text
