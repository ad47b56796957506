"""`servers --secure`: what `config/secure.yaml` needs runs with TLS and users, each with the rights of the page."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from monitor.cli import main
from monitor.config.load import load_config
from monitor.kafka.connections import build_kafka_connections
from monitor.operate.servers.rights import Right, list_rights, list_store_rules
from monitor.operate.servers.valkey import SERVER
from monitor.time.clock import SystemClock
from monitor.time.instants import HOUR, SECOND, format_instant
from tests.conftest import Eventually
from tests.kit.processes import CLI, Instance
from tests.kit.programs import run_program
from tests.security.rights import ALL_KAFKA_RIGHTS, AUDITOR_RIGHTS, OTHER_RIGHTS, list_redis_rules, list_topics

SECURE = Path(__file__).parents[3] / "config/secure.yaml"


class Secure:
    """Running secure servers, and the environment of each user."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "secure"
        words = ("servers", "--secure", "--config", str(SECURE), "--out", str(self.out))
        self.instance = Instance(folder / "log", CLI, *words)

    def is_up(self) -> bool:
        return "In other terminals" in self.instance.text or self.instance.code is not None

    def environment(self, user: str) -> dict[str, str]:
        """Return the variables of a user."""
        lines = (self.out / f"{user}.env").read_text(encoding="utf-8").splitlines()
        return dict(line.removeprefix("export ").split("=", 1) for line in lines)

    def command(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the command line as a user, with `config/secure.yaml`."""
        argv = (CLI, *words, "--config", str(SECURE))
        return run_program(argv, self.folder, 120, os.environ | self.environment(user))


@pytest.fixture(scope="module")
def secure(redis_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """The servers, until SIGTERM. The fixture of Redis skips the tests if it is missing."""
    secure = Secure(tmp_path_factory.mktemp("secure"))
    yield secure
    secure.instance.end()


@pytest.mark.timeout(300)
def test_secure_configuration_runs_as_it_is(secure: Secure, eventually: Eventually, tmp_path: Path) -> None:
    """`topics --create` and `check --live` accept the servers; a sender may write visits, and an auditor may not."""
    eventually(secure.is_up, 120)
    assert secure.instance.code is None, secure.instance.text
    service = secure.command("location-monitor", "topics", "--create")
    assert service.returncode == 0, service.stdout + service.stderr
    # Kafka creates its topic of offsets when it is first used, and has no coordinator until then.
    eventually(lambda: secure.command("location-monitor", "check", "--live").returncode == 0, 90)
    visits = tmp_path / "visits.csv"
    at = format_instant(SystemClock().now() // SECOND * SECOND - HOUR)
    visits.write_text(f"person_id,location_id,arrived_at\np-17,station-1,{at}\n", encoding="utf-8")
    sender = secure.command("sender", "send", str(visits))
    assert sender.returncode == 0, sender.stdout + sender.stderr
    auditor = secure.command("auditor", "send", str(visits))
    assert auditor.returncode == 1
    assert "lacks the permission" in auditor.stderr
    config = load_config(SECURE, secure.environment("location-monitor"))
    with closing(build_kafka_connections(config.kafka, config.service.name).create_producer()) as producer:
        producer.send(config.kafka.topics.dead_letters, value=b"{}").get(timeout=30)
    shown = secure.command("corrector", "dead-letters")
    assert shown.returncode == 0, shown.stderr
    # If the test is repeated, the topic has a record of each time.
    assert re.search(r"\b[1-9]\d* records are not dead letters of this service", shown.stdout)
    for user in ("sender", "location-monitor"):  # one may not see the topic, the other may only write to it
        refused = secure.command(user, "dead-letters")
        assert refused.returncode == 1
        assert "lacks the permission Read on a topic" in refused.stderr


@pytest.mark.timeout(300)
def test_secrets_are_for_their_owner(secure: Secure, eventually: Eventually) -> None:
    """Only the owner can read the files, the commands for real servers have no password, and a second folder is new."""
    eventually(secure.is_up, 120)
    text = secure.instance.text
    files = [*secure.out.iterdir()]
    assert len(files) >= 15
    for path in (secure.out, *files):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    passwords = [path.read_text(encoding="utf-8") for path in files if path.name.endswith("-password")]
    assert len({*passwords}) == 7
    assert not any(password in text for password in passwords)
    assert 'kafka-acls.sh --bootstrap-server "$BROKER" --command-config "$OPERATOR" --add' in text
    assert f" OPERATOR={secure.out}/operator.properties\n" in text
    assert "ACL SETUSER location-monitor on >PASSWORD resetchannels ~{region:* -@all +ping" in text
    assert "\nACL SETUSER default off\n" in text
    result = CliRunner().invoke(main, ["servers", "--secure", "--config", str(SECURE), "--out", str(secure.out)])
    assert result.exit_code == 2
    assert "the folder exists: give the name of a new one" in result.output


def test_rights_are_those_of_the_page() -> None:
    """The rights of all users, and the rules at the store, are exactly those of the documentation."""
    config = load_config(SECURE, {"LOCATION_MONITOR__KAFKA__PASSWORD": "x", "LOCATION_MONITOR__REDIS__PASSWORD": "x"})
    topics = config.kafka.topics
    names = dict(zip(list_topics("city"), (topics.visits, topics.alerts, topics.dead_letters), strict=True))
    rights = list_rights(config, "location-monitor")

    def flatten(given: tuple[Right, ...], user: str) -> set[str]:
        return {repr(entry) for right in given for entry in right.make_entries(user)}

    documented_rights = {"location-monitor": ALL_KAFKA_RIGHTS, "auditor": AUDITOR_RIGHTS, **OTHER_RIGHTS}
    assert documented_rights.keys() == rights.keys()
    for user, documented in documented_rights.items():
        expected = {repr(right.acl(user, config.service.name, names)) for right in documented}
        assert flatten(rights[user], user) == expected
    assert shlex.split(list_store_rules("city", "X").replace(">", "'>'"))[2:] == list_redis_rules()[2:]
    command = rights["location-monitor"][0].format_command("location-monitor")
    resource = f"--topic {topics.visits}"
    assert command == (
        f"--add --allow-principal User:location-monitor {resource} "
        "--operation DescribeConfigs --operation Read --operation Create"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--secure",), "--secure and --config belong together"),
        (("--config", str(SECURE)), "--secure and --config belong together"),
    ],
)
def test_options_belong_together(words: tuple[str, ...], message: str) -> None:
    """One of the two options without the other is refused with exit code 2."""
    result = CliRunner().invoke(main, ["servers", *words])
    assert (result.exit_code, message in result.output) == (2, True)


@pytest.mark.servers
def test_store_without_tls_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a store that has TLS, the command says what to install; nothing runs afterwards."""
    words = ["servers", "--secure", "--config", str(SECURE), "--out"]
    monkeypatch.delenv(SERVER, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(main, [*words, str(tmp_path / "one")])
    assert result.exit_code == 1
    assert "no Valkey or Redis with TLS was found: expected valkey-server or redis-server; install one" in result.output
    assert not (tmp_path / "one").exists()
    program = tmp_path / "valkey-server"
    program.write_text("#!/bin/sh\necho \"Bad directive or wrong number of arguments 'tls-port'\"\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv(SERVER, str(program))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    result = CliRunner().invoke(main, [*words, str(tmp_path / "two")])
    assert result.exit_code == 1
    assert f"{program} did not start with TLS" in result.output
    assert "If it has no TLS: install one (Debian: apt-get install redis-server)" in result.output
