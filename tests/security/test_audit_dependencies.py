"""What is made of pip-audit's answers: nothing that was not audited passes for sound."""

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
    ("report", "code", "said"),
    [
        (_report(SOUND), 0, "1 dependencies have no known vulnerability"),
        (_report(SOUND, UNKNOWN), 0, "NOT AUDITED: numpy"),
        (_report(UNKNOWN), 0, "NOT AUDITED: the advisories could not be had"),
        ("", 0, "NOT AUDITED: the advisories could not be had"),
        (_report(SOUND, UNKNOWN, AFFECTED), 1, "pyyaml 1: PYSEC-1, mended in 2"),
    ],
)
def test_a_finding_fails_and_silence_is_said_loudly(audit: Any, report: str, code: int, said: str) -> None:
    found, text = audit.verdict(audit.findings(report))
    assert found == code
    assert said in text
