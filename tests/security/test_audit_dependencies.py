"""The verdict of the audit of dependencies: what is affected, what was not audited, and when this is an error."""

from __future__ import annotations

import pytest

from tests.security.audit_dependencies import JARS, Findings, judge, judge_jars, read_jars

pytestmark = pytest.mark.long

SOUND = Findings(frozenset({"numpy", "redis"}), frozenset())
UNREAD = Findings(frozenset(), frozenset({"requirements.lock"}))
AFFECTED = Findings(frozenset({"redis"}), frozenset(), ("redis 1.0: CVE-1, fixed in 1.1",))


@pytest.mark.parametrize(
    ("findings", "required", "code", "words"),
    [
        ((SOUND,), True, 0, "2 dependencies were compared"),
        ((SOUND, UNREAD), False, 0, "NOT AUDITED: requirements.lock"),
        ((SOUND, UNREAD), True, 1, "NOT AUDITED: requirements.lock"),
        ((SOUND, AFFECTED), False, 1, "redis 1.0: CVE-1"),
        ((AFFECTED, UNREAD), False, 1, "NOT AUDITED"),
    ],
)
def test_verdict(findings: tuple[Findings, ...], required: bool, code: int, words: str) -> None:
    """An advisory is an error always, and what was not audited where an audit is required. Both are named."""
    found, message = judge(findings, required=required)
    assert found == code
    assert words in message


def test_jars_are_compared_by_name_and_version() -> None:
    """Each jar of the lock has a group, a name and a version, and an advisory names the jar that it applies to."""
    jars = read_jars(JARS.read_text(encoding="utf-8").splitlines())
    assert len(jars) > 40
    assert jars["org.apache.kafka:kafka-clients"] == jars["org.apache.kafka:kafka_2.13"]
    results = [{"vulns": [{"id": "GHSA-1"}]} if name.endswith(":kafka-clients") else {} for name in jars]
    version = jars["org.apache.kafka:kafka-clients"]
    assert judge_jars(jars, results).affected == (f"org.apache.kafka:kafka-clients {version}: GHSA-1",)
