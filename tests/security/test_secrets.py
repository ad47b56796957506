"""Secrets: no output shows one, and the service does not start without the person key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.config.valid_config import load_valid_config
from monitor.service.wiring import build_redis_address, prepare_settings
from tests.security.guarded import KAFKA_SECRET, PERSON_KEY, SECRETS, Run, write_configuration
from tests.security.rights import REDIS_SECRET

pytestmark = pytest.mark.long


@pytest.mark.promise(23)
def test_no_output_shows_a_secret(start_command: Callable[..., Run], tmp_path: Path) -> None:
    """No output of commands and no text of settings shows a password or the person key."""
    kafka = {
        "bootstrap_servers": ["localhost:9"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "username": "city",
    }
    config = write_configuration(tmp_path, kafka, {"url": "rediss://localhost:9/0"})
    environ = {
        "LOCATION_MONITOR__KAFKA__PASSWORD": KAFKA_SECRET,
        "LOCATION_MONITOR__REDIS__URL": f"rediss://city:{REDIS_SECRET}@localhost:9/0",
    }
    valid = load_valid_config(config, environ)
    loaded = valid.config
    settings = prepare_settings(valid, PERSON_KEY.encode())
    shown = [f"{value!r} {value}" for value in (valid, loaded, settings, settings.kafka, build_redis_address(loaded))]
    for command in (("check",), ("check", "--json"), ("topics",)):
        run = start_command(*command, "--config", str(config), environ=environ)
        run.wait(60)
        shown.append(run.text)
    assert not [text for text in shown for secret in SECRETS if secret in text]


@pytest.mark.promise(23)
def test_missing_person_key_is_refused(start_command: Callable[..., Run], tmp_path: Path) -> None:
    """
    Without the person key, `run` exits with 2 and says how to create one.

    It exits before it connects: nothing listens at these addresses.
    """
    config = write_configuration(tmp_path, {"bootstrap_servers": ["localhost:9"]}, {"url": "redis://localhost:9/0"})
    (tmp_path / "person.key").unlink()
    run = start_command("run", "--config", str(config))
    assert run.wait(60) == 2
    assert "visits.person_key_file" in run.text
    assert "create one:" in run.text
