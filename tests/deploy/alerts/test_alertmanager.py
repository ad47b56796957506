"""The example for Alertmanager: Alertmanager accepts it, and it sends each alert to the right receiver."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.deploy.alerts.runbooks import ROOT, alerts
from tests.needed_programs import find_program

pytestmark = pytest.mark.long

EXAMPLE: Final = Path("deploy/prometheus/alertmanager.yml")
RECEIVERS: Final = {"critical": "person-on-call", "ticket": "tickets"}


@pytest.fixture(scope="module")
def amtool() -> str:
    return find_program("amtool", "Alertmanager")


def run(*words: str) -> str:
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def find_alerts() -> dict[str, str]:
    """Return the severity of each alert."""
    return {rule["alert"]: rule["labels"]["severity"] for rule in alerts()}


def test_alertmanager_accepts_example(amtool: str) -> None:
    """Alertmanager's own check finds the routes, the inhibition and both receivers."""
    printed = run(amtool, "check-config", str(EXAMPLE))
    assert "SUCCESS" in printed
    assert "1 inhibit rules" in printed
    assert "2 receivers" in printed


def test_severity_decides_receiver(amtool: str) -> None:
    """Alertmanager's own router sends pages to the person on call, and tickets to the tickets."""
    for severity, receiver in RECEIVERS.items():
        words = (amtool, "config", "routes", "test", f"--config.file={EXAMPLE}", f"severity={severity}", "job=any")
        assert run(*words).strip() == receiver


def test_labels_of_example_exist() -> None:
    """The rules have the severities that the example routes, and the alert that it inhibits with."""
    example = yaml.safe_load((ROOT / EXAMPLE).read_text(encoding="utf-8"))
    severities = find_alerts()
    assert set(severities.values()) == set(RECEIVERS)
    (inhibition,) = example["inhibit_rules"]
    assert inhibition["source_matchers"] == ['alertname="LocationMonitorAbsent"']
    assert severities["LocationMonitorAbsent"] == "critical"
