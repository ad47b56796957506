"""The page of what is supported agrees with the configuration."""

from __future__ import annotations

from typing import Any, Final

import pytest
from pydantic import ValidationError

from monitor.config.kafka_and_redis import SASL_MECHANISMS, KafkaSettings
from tests.docs.conftest import ROOT

PAGE: Final = (ROOT / "docs" / "supported.md").read_text(encoding="utf-8")
KAFKA: Final[dict[str, Any]] = {
    "bootstrap_servers": ["localhost:9092"],
    "topics": {"visits": "visits", "alerts": "alerts", "dead_letters": "dead"},
}


LOCKS: Final = (ROOT / "tests" / "versions").glob("*.lock")


def find_line(word: str) -> str:
    """Return the one line of the page that names a thing."""
    (line,) = (line for line in PAGE.splitlines() if word in line)
    return line


def test_mechanisms_are_listed() -> None:
    """The page has the SASL mechanisms that the configuration accepts as supported."""
    lines = {mechanism: find_line(f"SASL `{mechanism}`") for mechanism in ("PLAIN", "OAUTHBEARER")}
    assert all(any(f"`{mechanism}`" in line for line in lines.values()) for mechanism in SASL_MECHANISMS)
    assert not any("not supported" in line for line in lines.values())


@pytest.mark.parametrize("mechanism", ["GSSAPI", "AWS_MSK_IAM"])
def test_other_mechanisms_are_refused(mechanism: str) -> None:
    """A mechanism that the page calls not supported is refused by the configuration."""
    assert "**not supported**" in find_line(f"`{mechanism}`")
    with pytest.raises(ValidationError):
        KafkaSettings.model_validate({**KAFKA, "sasl_mechanism": mechanism})


def test_versions_are_those_of_the_locks() -> None:
    """The table of `make versions` has each version of Kafka that has a lock, and most tests passed on each."""
    table = PAGE.partition("begin: make versions")[2].partition("<!-- end")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    locked = {lock.stem.removeprefix("kafka-") for lock in LOCKS}
    assert locked <= {kafka for kafka, *_ in rows}
    assert all(int(passed) > 600 for _, _, passed, *_ in rows)
