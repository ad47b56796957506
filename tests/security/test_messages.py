"""The errors of clients with a wrong host, login or protocol, on real brokers. All wrong clients connect at once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from monitor.tools.servers import EmbeddedKafka
from tests.security.conftest import KAFKA_SECRET, ROOT, Certificates

WRONG = "planted-and-wrong"

_MESSAGES = {
    "wrong host": r"no address was found for its host name: check kafka\.bootstrap_servers",
    "wrong port": r"nothing listens at this address and port: check kafka\.bootstrap_servers.*ECONNREFUSED",
    "wrong password": r"(refused the login|closed the connection during the login): check kafka\.username",
    "wrong mechanism": r"kafka\.sasl_mechanism",
    "TLS against plaintext": r"it does not use TLS on this port",
    "plaintext against TLS": r"check that the port uses kafka\.security_protocol \(PLAINTEXT\)",
    "login against plaintext": r"the port does not expect this login: .* uses kafka\.security_protocol",
    "no login against login": r"no broker answered: check kafka\.bootstrap_servers, and that the port uses",
}


@pytest.fixture(scope="module")
def said(kafka: EmbeddedKafka, guarded_kafka: EmbeddedKafka, certificates: Certificates) -> Mapping[str, str]:
    """The message of each wrong client."""
    secure, plain = guarded_kafka.secure_bootstrap_servers, kafka.bootstrap_servers
    tls = {"security_protocol": "SSL", "ssl_cafile": certificates.authority}
    login = {
        **tls,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "city",
        "sasl_plain_password": KAFKA_SECRET,
    }
    clients: dict[str, tuple[str, dict[str, Any]]] = {
        "wrong host": ("no-such-host.invalid:9092", {}),
        "wrong port": ("127.0.0.1:9", {}),
        "wrong password": (secure, login | {"sasl_plain_password": WRONG}),
        "wrong mechanism": (secure, login | {"sasl_mechanism": "SCRAM-SHA-256"}),
        "TLS against plaintext": (plain, tls),
        "plaintext against TLS": (secure, {}),
        "login against plaintext": (plain, login | {"security_protocol": "SASL_PLAINTEXT"}),
        "no login against login": (secure, tls),
    }
    assert set(clients) == set(_MESSAGES)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.security.wrong_clients"],
        input=json.dumps(clients),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    messages: dict[str, str] = json.loads(ended.stdout)
    return messages


@pytest.mark.promise(23, 38)
@pytest.mark.parametrize("fault", _MESSAGES)
def test_fault_is_put_into_words(fault: str, said: Mapping[str, str]) -> None:
    """Each fault names the address and the key to check; no message has a secret or a bare error of the client."""
    message = said[fault]
    assert re.match(rf"Kafka at \S+:\d+ cannot be used: .*{_MESSAGES[fault]}", message), message
    assert WRONG not in message
    assert KAFKA_SECRET not in message
    assert "[Error" not in message
