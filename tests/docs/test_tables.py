"""The tables of keys, metrics, settings, exit codes and supported versions are complete and match the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from monitor.audit.live.metrics import AUDITOR_METRICS
from monitor.client.exporter import PUBLIC_METRICS
from monitor.config.derive_parameters import derive_parameters
from monitor.config.environment import PREFIX as VARIABLES
from monitor.config.environment import SECRETS
from monitor.config.kafka_and_redis import SASL_MECHANISMS, KafkaSettings
from monitor.config.load import load_config
from monitor.config.registry import load_registry
from monitor.config.whole_config import Config
from monitor.errors import EXIT_DONE, EXIT_FAILED, EXIT_REFUSED, EXIT_USAGE
from monitor.kafka.topics import LEAST_MESSAGE_BYTES, list_topic_needs
from monitor.kinds.all_kinds import KINDS
from monitor.observe.prometheus_metric import PREFIX
from monitor.observe.service_metrics import METRICS
from monitor.page.metrics import PAGE_METRICS
from monitor.time.instants import DAY, format_duration
from tests.docs.conftest import ROOT

_KEY_SECTIONS = (
    "service",
    "clock",
    "locations and visits",
    "privacy",
    "signing",
    "kafka",
    "redis",
    "metrics",
    "page",
    "auditor",
)


def _list_keys(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    """Yield every key of a model with its field, except for secrets, which are documented as variables."""
    for name, field in model.model_fields.items():
        section = field.annotation
        if inspect.isclass(section) and issubclass(section, BaseModel):
            yield from _list_keys(section, f"{prefix}{name}.")
        elif (*prefix.split(".")[:-1], name) not in SECRETS:
            yield f"{prefix}{name}", field


def _format_default(field: FieldInfo) -> str:
    """Return a default as the tables write it."""
    if field.is_required():
        return "required"
    default = field.default
    if default is None or default is PydanticUndefined:
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    # Only durations, which are in microseconds, have defaults of a million or more.
    return format_duration(default) if isinstance(default, int) and default >= 1_000_000 else str(default)


def _read_defaults(rows: Iterator[list[str]]) -> dict[str, str]:
    return {key.strip("`"): default.strip("`") for key, _meaning, default, _example in rows}


def test_every_key_is_documented(named: dict[str, Any]) -> None:
    """The page of the configuration lists every key with its default."""
    page = named["docs/configuration.md"]
    expected = {key: _format_default(field) for key, field in _list_keys(Config, "") if not key.startswith("monitors")}
    documented: dict[str, str] = {}
    for section in _KEY_SECTIONS:
        documented |= _read_defaults(page.rows(section))
    assert documented == expected


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_monitor_key_is_documented(named: dict[str, Any], kind: str) -> None:
    """The page of the configuration lists every key of each kind of monitor with its default."""
    page, expected = (
        named["docs/configuration.md"],
        {key: _format_default(field) for key, field in _list_keys(KINDS[kind].keys, "monitors[].")},
    )
    shared = ("every kind", "designated times") if kind not in ("over_time", "upper_bound") else ("every kind",)
    documented: dict[str, str] = {}
    for section in (*shared, f"kind {kind}"):
        documented |= _read_defaults(page.rows(section))
    assert documented == expected


def test_every_key_has_an_example(named: dict[str, Any]) -> None:
    """Each key has a meaning and an example that is valid YAML."""
    page = named["docs/configuration.md"]
    for section in (*_KEY_SECTIONS, "every kind", "designated times", *(f"kind {kind}" for kind in KINDS)):
        for key, meaning, _default, example in page.rows(section):
            assert len(meaning) > 5, key
            assert yaml.safe_load(example.strip("`")) is not None, key


def test_every_secret_is_documented(named: dict[str, Any]) -> None:
    """Each secret is listed as an environment variable."""
    text = named["docs/configuration.md"].text
    for path in SECRETS:
        assert f"`{VARIABLES}{'__'.join(path).upper()}`" in text


def test_named_metrics_exist(document: Any) -> None:
    """Every metric that a page names is in the catalog, with its suffixes for histograms."""
    catalogs = (METRICS, AUDITOR_METRICS, PAGE_METRICS, PUBLIC_METRICS)
    names = [metric.exposed_name for catalog in catalogs for metric in catalog]
    known = {name + suffix for name in names for suffix in ("", "_bucket", "_sum", "_count")}
    assert set(re.findall(rf"\b{PREFIX}_[a-z_]+\b", document.text)) <= known


def test_every_exit_code_is_documented(named: dict[str, Any]) -> None:
    """The operations page lists every exit code."""
    rows = [int(row[0]) for row in named["docs/operations.md"].rows("Exit codes")]
    assert rows == [EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_REFUSED]


def test_every_topic_setting_is_documented(named: dict[str, Any], root: Path) -> None:
    """The operations page lists every required setting of the topics with its value."""
    config = load_config(root / "config/city.yaml", {})
    parameters = derive_parameters(config, load_registry(config.locations.file).ids)
    visits, alerts, dead_letters = list_topic_needs(parameters, config.kafka)
    expected = {("input", setting.key) for setting in visits.settings}
    expected |= {("output", setting.key) for setting in alerts.settings}
    rows = list(named["docs/operations.md"].rows("Topics"))
    documented = {
        (topic, row[1].strip("`")) for row in rows for topic in (("input", "output") if row[0] == "both" else (row[0],))
    }
    assert documented == expected
    assert dead_letters.settings == ()
    values = {row[1].strip("`"): row[2] for row in rows}
    exact = {setting.key: setting.create for setting in visits.settings if setting.key != "retention.ms"}
    assert {key: values[key].strip("`") for key in exact} == exact
    assert str(LEAST_MESSAGE_BYTES) in values["max.message.bytes"]


def test_retention_formulas_match_code(root: Path) -> None:
    """The input is kept for at least max(W, R) + F + 4 slots, the output for max(W, R) + F + P + 3 slots.

    New topics keep records for one day more.
    """
    config = load_config(root / "config/city.yaml", {})
    parameters = derive_parameters(config, load_registry(config.locations.file).ids)
    window, horizon, max_lead = parameters.widest_window, parameters.longest_horizon, parameters.max_lead
    period = -(-parameters.period // parameters.grid.length)
    least = (max(window, horizon) + max_lead + 4, max(window, horizon) + max_lead + period + 3)
    for topic, grid in zip(list_topic_needs(parameters, config.kafka), least, strict=False):
        setting = next(setting for setting in topic.settings if setting.key == "retention.ms")
        milliseconds = grid * parameters.grid.length // 1_000
        assert setting.suffices(str(milliseconds))
        assert not setting.suffices(str(milliseconds - 1))
        assert int(setting.create) == milliseconds + DAY // 1_000


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
