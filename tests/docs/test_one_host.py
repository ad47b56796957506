"""The page about one host: its blocks, run in a folder, set up a Kafka and a Redis that keep their data.

The blocks run as they are in a shell whose absolute paths lead into the folder and whose ports are free ones. Owners of
files are not set, systemd is not called, and the tools of Kafka are the classes of the embedded one. It lacks that of
kafka-acls.sh, whose commands are read here.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import pytest
import redis
import yaml
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion
from pydantic import SecretStr

from monitor.config.load import load_config
from monitor.errors import UnreachableError
from monitor.kafka.connections import KafkaConnections, read_passwords_at_logins
from monitor.kafka.topics import find_topics
from monitor.operate.servers.jars import fetch_kafka, find_java, find_lock
from monitor.operate.servers.kafka import archive_options
from monitor.operate.servers.ports import ReservedPort
from monitor.operate.servers.rights import list_rights
from monitor.operate.servers.secure_servers import SecureServers, list_commands
from tests.conftest import Eventually
from tests.docs.blocks import read_blocks
from tests.docs.conftest import ROOT, Document
from tests.kit.kafka_acls import parse_call
from tests.kit.processes import CLI, Instance
from tests.kit.town import HOURS, Town, build_tree, over_time
from tests.needed_programs import find_program

pytestmark = [pytest.mark.long, pytest.mark.servers]

PAGE: Final = ROOT / "docs" / "how-to" / "one-host.md"
BLOCKS: Final = read_blocks(Document(PAGE, PAGE.read_text(encoding="utf-8")))
PORTS: Final = ("9094", "9093", "6380")
TOOLS: Final = {
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-server-start.sh": "kafka.Kafka",
}
SHELL: Final = r"""
chgrp() { :; }
chown() { :; }
systemctl() { :; }
runuser() { shift 3; "$@"; }
install() { command install $(echo " $*" | sed -E "s/ -[go] [a-z-]+//g"); }
"""


class Host:
    """A folder that stands for the host, and its two servers."""

    def __init__(self, folder: Path, ports: dict[str, str]) -> None:
        self.folder, self.ports = folder, ports
        self.servers: list[subprocess.Popen[bytes]] = []
        for name in ("etc/redis", "etc/systemd/system", "opt/kafka/bin", "var/lib/redis"):
            (folder / name).mkdir(parents=True)
        jars, java = fetch_kafka(print), find_java()
        options = shlex.join(["-Xmx512m", "-XX:TieredStopAtLevel=1", *archive_options(java, jars)])
        for name, main in TOOLS.items():
            tool = folder / "opt/kafka/bin" / name
            words = f"{java} {options} -cp {os.pathsep.join(map(str, jars))} {main}"
            tool.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
            tool.chmod(0o755)

    def move(self, text: str) -> str:
        """Return text of the page with the folders, ports and the name of this host."""
        text = re.sub(r"(?<![\w./])/(etc|opt|var)/", rf"{self.folder}/\1/", text)
        for port, free in self.ports.items():
            text = re.sub(rf"\b{port}\b", free, text)
        return text.replace("servers.example.org", "localhost")

    def set_up(self) -> None:
        """Run the blocks of sections 2 to 4, in one shell that ends at the first failure."""
        code = "".join(block.code for block in BLOCKS if "test_one_host.py" in block.mark)
        assert code.count("END\n") == 12
        words = [find_program("bash", "bash"), "-euc", SHELL + self.move(code)]
        ended = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False, timeout=120)
        assert ended.returncode == 0, ended.stdout + ended.stderr

    def start(self) -> None:
        """Start both servers as their units do."""
        unit = (self.folder / "etc/systemd/system/kafka.service").read_text(encoding="utf-8")
        (command,) = re.findall(r"^ExecStart=(.+)$", unit, re.MULTILINE)
        redis_server = find_program("redis-server", "Redis", "apt-get install redis-server")
        for words in (shlex.split(command), [redis_server, str(self.folder / "etc/redis/redis-monitor.conf")]):
            self.servers.append(subprocess.Popen(words, cwd=self.folder, stdout=subprocess.DEVNULL))

    def stop(self) -> None:
        """Stop both servers, and wait for their end."""
        for server in self.servers:
            server.terminate()
        for server in self.servers:
            server.wait(60)
        self.servers.clear()

    @property
    def operator_password(self) -> str:
        text = (self.folder / "etc/kafka/operator.properties").read_text(encoding="utf-8")
        return text.partition('password="')[2].partition('"')[0]

    @property
    def kafka(self) -> KafkaConnections:
        """The connections of the operator, with the settings of the operator's file."""
        read_passwords_at_logins()
        security: dict[str, Any] = {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(self.folder / "etc/kafka/ca.pem"),
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "operator",
            "sasl_plain_password": lambda: SecretStr(self.operator_password),
        }
        return KafkaConnections((f"localhost:{self.ports['9094']}",), security)

    def open_store(self) -> Any:
        """Connect to Redis as the operator."""
        authority = str(self.folder / "etc/redis/ca.pem")
        url = f"rediss://operator:{self.operator_password}@localhost:{self.ports['6380']}/0"
        return redis.Redis.from_url(url, ssl_ca_certs=authority)

    def is_up(self) -> bool:
        assert all(server.poll() is None for server in self.servers), "a server has ended"
        try:
            with self.kafka.open_admin() as admin, closing(self.open_store()) as store:
                return bool(admin.describe_cluster()["brokers"]) and bool(store.ping())
        except (UnreachableError, redis.RedisError):
            return False


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """The host after sections 2 to 4, with running servers."""
    with ExitStack() as stack:
        ports = {port: ReservedPort() for port in PORTS}
        for reserved in ports.values():
            stack.callback(reserved.release)
        host = Host(tmp_path / "host", {name: str(port.number) for name, port in ports.items()})
        host.set_up()
        stack.callback(host.stop)
        host.start()
        yield host


def give_rights(host: Host, town: Town, passwords: dict[str, str]) -> None:
    """Run the commands that `servers --secure` prints, as section 5 says. One user is created by Kafka's own tool."""
    config = load_config(town.config, {})
    servers = SecureServers(list_rights(config, "location-monitor"), "unused", Path("unused"))
    lines = [line for line in list_commands(config, servers) if not line.startswith("#")]
    created = next(line for line in lines if "--entity-name location-monitor " in line)
    for old, new in (("PASSWORD", passwords["kafka"]), ('"$BROKER"', host.kafka.bootstrap_servers[0])):
        assert old in created
        created = created.replace(old, new)
    created = created.replace('"$OPERATOR"', str(host.folder / "etc/kafka/operator.properties"))
    subprocess.run([host.folder / "opt/kafka/bin" / (words := shlex.split(created))[0], *words[1:]], check=True)
    rights = [acl for line in lines if line.startswith("kafka-acls.sh") for acl in parse_call(line.partition(" ")[2])]
    auditor = UserScramCredentialUpsertion("auditor", ScramMechanism.SCRAM_SHA_512, passwords["auditor"])
    with host.kafka.open_admin() as admin:
        admin.create_acls(rights)
        admin.alter_user_scram_credentials([auditor])
    with closing(host.open_store()) as store:
        for line in lines:
            if line.startswith("ACL "):
                store.execute_command(*shlex.split(line.replace(">PASSWORD", f"'>{passwords['redis']}'")))


def make_town(host: Host, folder: Path, passwords: dict[str, str]) -> Town:
    """Return a town with the sections of section 6, beside which are the authority and the passwords."""
    (section,) = (block.code for block in BLOCKS if block.language == "yaml")
    tree = build_tree("town", "-", "-", [over_time("places", ["inn"], 5, "3h", epsilon=80)], **HOURS)
    town = Town(folder, tree | yaml.safe_load(host.move(section)), ["inn"])
    for name in ("kafka", "redis"):
        (folder / f"{name}-password").write_text(passwords[name], encoding="utf-8")
        (folder / f"{name}-password").chmod(0o600)
    (folder / "ca.pem").write_bytes((host.folder / "etc/kafka/ca.pem").read_bytes())
    town.write()
    return town


def test_servers_keep_their_data(host: Host, tmp_path: Path, eventually: Eventually) -> None:
    """The service starts with the rights alone, nobody connects without a login, and a restart keeps all of it."""
    assert find_lock().read_text(encoding="utf-8").startswith("# Apache Kafka 4.3.0:")  # the version of the page
    eventually(host.is_up, 60)
    strict = ["openssl", "verify", "-x509_strict", "-CAfile", "etc/kafka/ca.pem", "etc/kafka/server.crt"]
    subprocess.run(strict, cwd=host.folder, check=True, capture_output=True)
    passwords = {name: secrets.token_hex(12) for name in ("kafka", "redis", "auditor")}
    town = make_town(host, tmp_path / "town", passwords)
    give_rights(host, town, passwords)
    words = ("--config", str(town.config))
    created = Instance(tmp_path / "topics", CLI, "topics", *words, "--create")
    assert created.wait(60) == 0, created.text
    url, authority = f"rediss://localhost:{host.ports['6380']}", str(town.folder / "ca.pem")
    anonymous = redis.Redis.from_url(url, ssl_ca_certs=authority)
    with closing(anonymous), pytest.raises(redis.AuthenticationError):
        anonymous.ping()
    with closing(host.open_store()) as store:
        store.set("kept", "yes")
    host.stop()
    host.start()
    eventually(host.is_up, 60)
    with closing(host.open_store()) as store:
        assert store.get("kept") == b"yes"

    def check() -> bool:
        """Return whether the service could start. Kafka creates its topic of offsets when it is first used."""
        return Instance(tmp_path / "check", CLI, "check", "--live", *words).wait(60) == 0

    eventually(check, 90)
    topics = town.tree["kafka"]["topics"].values()
    with host.kafka.open_admin() as admin:
        assert find_topics(admin, [*topics], "Read").keys() == {*topics}
