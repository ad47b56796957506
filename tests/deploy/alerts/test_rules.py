"""The alerting rules: Prometheus accepts them, each fires and does not fire when it should, and each has a runbook."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from monitor.audit.live.metrics import AUDITOR_METRICS
from monitor.observe.prometheus_metric import PREFIX
from monitor.observe.service_metrics import METRICS
from monitor.page.metrics import PAGE_METRICS
from tests.deploy.alerts.runbooks import (
    AUDITOR_RULES,
    PAGE_RULES,
    ROOT,
    RULES,
    RUNBOOK_BASE,
    alerts,
    find_anchor,
    read_runbooks,
)
from tests.needed_programs import find_program, run_promtool

pytestmark = pytest.mark.long

CASES = {
    RULES: ("rules_test.yml", "rules_of_days_test.yml"),
    AUDITOR_RULES: ("auditor_test.yml",),
    PAGE_RULES: ("page_test.yml",),
}
FOLDER = Path(__file__).parent
PARTS = ["Impact", "Diagnosis", "Mitigation"]


@pytest.mark.parametrize("rules", CASES, ids=lambda rules: str(rules.stem))
def test_prometheus_accepts_rules(rules: Path) -> None:
    """Prometheus accepts the rules, and its linter finds nothing."""
    assert "SUCCESS" in run_promtool("check", "rules", "--lint=all", "--lint-fatal", str(rules))


@pytest.mark.parametrize("cases", [name for names in CASES.values() for name in names])
def test_rules_fire_as_stated(cases: str) -> None:
    """Every case of the rules passes: fires, does not fire, first increment, restart, absent series."""
    assert "SUCCESS" in run_promtool("test", "rules", str(FOLDER / cases))


@pytest.mark.parametrize("rules", CASES, ids=lambda rules: str(rules.stem))
def test_every_alert_has_both_cases(rules: Path) -> None:
    """Each alert has at least one case in which it fires and one in which it does not."""
    cases = [
        (case["alertname"], bool(case.get("exp_alerts")))
        for name in CASES[rules]
        for test in yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))["tests"]
        for case in test["alert_rule_test"]
    ]
    expected = {(alert["alert"], fires) for alert in alerts(rules) for fires in (True, False)}
    assert set(cases) == expected


def test_rules_name_existing_metrics() -> None:
    """Every metric in the rules is in the catalog."""
    metrics = (*METRICS, *AUDITOR_METRICS, *PAGE_METRICS)
    known = {metric.exposed_name + suffix for metric in metrics for suffix in ("", "_bucket")}
    text = "".join(rules.read_text(encoding="utf-8") for rules in CASES)
    named = set(re.findall(rf"(?<!:){PREFIX}_[a-z_]+", text))
    assert named
    assert named <= known


def test_every_alert_is_described() -> None:
    """Each alert has severity, summary, description and runbook, which are also true while it is pending."""
    for alert in alerts():
        texts = f"{alert['annotations']['summary']} {alert['annotations']['description']}"
        assert re.search(r"\b(has|have) \w+[^.]* for (\w+ )?(minutes|hours)", texts) is None, alert["alert"]
        assert alert["labels"]["severity"] in {"critical", "ticket"}
        assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))
def test_every_runbook_is_complete(alert: dict[str, Any]) -> None:
    """The link of an alert leads to a section that names it, with all parts and a command to begin with."""
    assert alert["annotations"]["runbook_url"].startswith(RUNBOOK_BASE)  # a path would be a dead link in Alertmanager
    text = read_runbooks()[find_anchor(alert)]
    assert f"`{alert['alert']}` ({alert['labels']['severity']})" in text.partition("**Impact.**")[0]
    assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == PARTS
    assert "```sh" in text


def test_no_runbook_is_left_over() -> None:
    """Every runbook belongs to an alert."""
    assert set(read_runbooks()) == {find_anchor(alert) for alert in alerts()}


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
