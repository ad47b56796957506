"""The service logs in to Kafka with tokens (OAUTHBEARER) that Kafka's own validator checks, and that expire."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey, NodeSettings
from monitor.operate.servers.kafka import SECURE_LISTENER
from tests.conftest import Eventually
from tests.security.guarded import Run, make_topics, read_safe_answers, write_configuration
from tests.shared_kafka import SharedKafka

pytestmark = pytest.mark.long

_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
_LOGIN_SECONDS: Final = 2
_ISSUER: Final = "https://login.example.org"
_AUDIENCE: Final = "kafka"


@dataclass(frozen=True)
class TokenSite:
    """A broker that accepts tokens of one key for `_LOGIN_SECONDS` per login, and a file with such a token."""

    kafka: EmbeddedKafka
    key: rsa.RSAPrivateKey
    file: Path

    def write_token(self, seconds: float) -> None:
        """Replace the token by one that expires after some seconds; a negative number: it has expired."""
        now = time.time()
        claims = {"sub": "city", "iss": _ISSUER, "aud": _AUDIENCE, "iat": now - 60, "exp": now + seconds}
        new = self.file.with_suffix(".new")
        new.write_text(jwt.encode(claims, self.key, "RS256", headers={"kid": "1"}) + "\n", encoding="ascii")
        new.replace(self.file)


@pytest.fixture(scope="module")
def site(kafka: SharedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenSite]:
    folder = tmp_path_factory.mktemp("tokens")
    key = rsa.generate_private_key(65_537, 2_048)
    public = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": "1", "use": "sig", "alg": "RS256"}
    (folder / "keys.json").write_text(json.dumps({"keys": [public]}), encoding="utf-8")
    address = (folder / "keys.json").as_uri()
    own = f"{SECURE_LISTENER}oauthbearer"
    properties = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{own}.sasl.jaas.config": f"{_OAUTH}LoginModule required;",
        f"{own}.sasl.server.callback.handler.class": f"{_OAUTH}ValidatorCallbackHandler",
        f"{own}.connections.max.reauth.ms": str(_LOGIN_SECONDS * 1_000),
        "sasl.oauthbearer.jwks.endpoint.url": address,
        "sasl.oauthbearer.expected.audience": _AUDIENCE,
        "sasl.oauthbearer.expected.issuer": _ISSUER,
    }
    settings = NodeSettings(properties=properties, secure_protocol="SASL_PLAINTEXT")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={address}")
        server = EmbeddedKafka(settings)
        server.start()
    make_topics(server, folder / "topics")
    yield TokenSite(server, key, folder / "kafka.token")
    server.stop()


@pytest.fixture
def start(site: TokenSite, valkey: EmbeddedValkey, start_command: Callable[..., Run]) -> Callable[[Path], Run]:
    """`start(folder)` starts the service, which logs in with the token in the file."""

    def run(folder: Path) -> Run:
        kafka = {
            "bootstrap_servers": [site.kafka.secure_bootstrap_servers],
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "token_file": str(site.file),
        }
        config = write_configuration(folder, kafka, {"url": valkey.url})
        return start_command("run", "--config", str(config), "--verbose")

    return run


@pytest.mark.promise(38)
def test_renewed_token_is_used(
    site: TokenSite, start: Callable[[Path], Run], eventually: Eventually, tmp_path: Path
) -> None:
    """
    A service whose token is renewed keeps publishing, and each login uses the file as it is then.

        file    a token for 10 s, renewed again and again
        logins  |--2 s--|--2 s--|--2 s--| …   each connection logs in again (KIP-368)
    """
    site.write_token(10)
    run = start(tmp_path)

    def count_answers() -> int:
        site.write_token(10)
        return len(read_safe_answers(site.kafka))

    before = eventually(count_answers, deadline_seconds=120)
    started, until = len(run.text), time.monotonic() + 5 * _LOGIN_SECONDS
    eventually(lambda: count_answers() > before and time.monotonic() > until, deadline_seconds=60)
    assert "cannot be used" not in run.text[started:]  # no login was refused
    assert site.file.read_text(encoding="ascii").strip() not in run.text
    assert run.terminate() == 0


@pytest.mark.promise(38)
def test_refused_token_is_reported(
    site: TokenSite, start: Callable[[Path], Run], eventually: Eventually, tmp_path: Path
) -> None:
    """An expired token is reported with its key and remedy, and the service waits: a renewed one needs no restart."""
    site.write_token(-30)
    run = start(tmp_path)
    how = "refused the login|closed the connection during the login"  # kafka-python may notice only the closed socket
    refused = re.compile(rf"Kafka at \S+ cannot be used: it (?:{how}): check the token in kafka\.token_file")
    eventually(lambda: refused.search(run.text), deadline_seconds=120)
    site.file.unlink()
    eventually(lambda: "the login lacks a token: kafka.token_file is" in run.text, deadline_seconds=120)
    before = len(read_safe_answers(site.kafka))
    site.write_token(600)
    eventually(lambda: len(read_safe_answers(site.kafka)) > before, deadline_seconds=120)
    assert "Traceback" not in run.text
    assert run.terminate() == 0


def test_missing_token_ends_the_start(start: Callable[[Path], Run], site: TokenSite, tmp_path: Path) -> None:
    """A token file that is not there ends the start with exit code 2, and the message names the key and the file."""
    site.file.unlink(missing_ok=True)
    run = start(tmp_path)
    assert run.wait(60) == 2
    assert re.search(r"kafka\.token_file is \S+kafka\.token \(No such file", run.text), run.text
