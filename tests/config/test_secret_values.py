"""Secrets: where they come from, and that no message shows them."""

from __future__ import annotations

import base64
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from monitor.client import connect
from monitor.config.secret_values import (
    read_cosigner,
    read_kafka_password,
    read_person_key,
    read_redis_password,
    read_signer,
    report_key_modes,
    require_files,
)
from monitor.config.whole_config import Config
from monitor.errors import ConfigError, UsageError
from monitor.records.signed_notes import create_signing_key, read_signing_key
from monitor.values.person_key import create_key, is_key
from tests.config.conftest import ABSENT
from tests.kit.signed import SIGNER

KEY = "qn/TGe6D7vsXiFKstZA9hunter2md6iBzgSziHXuhUA="
SECRETS = {
    "LOCATION_MONITOR__VISITS__PERSON_KEY": KEY,
    "LOCATION_MONITOR__KAFKA__PASSWORD": "hunter2",
    "LOCATION_MONITOR__REDIS__URL": "redis://user:hunter2@localhost/0",
}
SASL = {"kafka.security_protocol": "SASL_SSL", "kafka.sasl_mechanism": "PLAIN", "kafka.username": "monitor"}


@pytest.mark.promise(23)
def test_config_never_shows_secrets(load: Any) -> None:
    """No representation of a configuration shows a secret."""
    config: Config = load(SASL, SECRETS)
    for shown in (repr(config), str(config), str(config.model_dump()), config.model_dump_json(), config.redis.address):
        assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("visits.person_key", KEY),
        ("kafka.password", "hunter2"),
        ("redis.password", "hunter2"),
        ("redis.url", "redis://:hunter2@localhost"),
        ("redis.url", "redis://localhost/0?password=hunter2"),
    ],
)
def test_secret_in_file_is_refused(load: Any, key: str, value: str) -> None:
    """A secret in the configuration file is refused, and the message masks it."""
    with pytest.raises(ConfigError) as caught:
        load({key: value})
    (problem,) = caught.value.problems
    assert (problem.key, problem.value, problem.expected) == (key, "***", "no secret in the configuration file")
    assert "LOCATION_MONITOR__" in problem.remedy
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.promise(23)
@pytest.mark.parametrize(
    "environ",
    [
        {"LOCATION_MONITOR__VISITS__PERSON_KEY": "hunter2"},
        {"LOCATION_MONITOR__REDIS__URL": "redi://:hunter2@localhost"},
        {"LOCATION_MONITOR__REDIS__URL": "redis://:hunter2@localhost:x"},
        {"LOCATION_MONITOR__REDIS": "hunter2"},
        {"LOCATION_MONITOR__KAFKA__TOPICS": '["hunter2"]'},
        {"LOCATION_MONITOR__REDIS__PASSWORT": "hunter2"},
        {"LOCATION_MONITOR__REDIS__PASSWORD__X": "hunter2"},
        {"LOCATION_MONITOR__KAFKA__PASSWORD": "hunter2"},
    ],
)
def test_errors_show_no_secret(load: Any, environ: dict[str, str]) -> None:
    """No error message or traceback shows a secret from the environment."""
    with pytest.raises(ConfigError) as caught:
        load(environ=environ)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.promise(23)
@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("kafka.bootstrap_servers", ["user:hunter2@localhost:9092"], "'***@localhost:9092'"),
    ],
)
def test_address_shows_no_password(load: Any, key: str, value: object, shown: str) -> None:
    """An address with a user and a password is refused, and the message masks both."""
    with pytest.raises(ConfigError) as caught:
        load({key: value})
    assert [problem.value for problem in caught.value.problems] == [shown]
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_pydantic_error_shows_no_secret() -> None:
    """Pydantic's own error does not show a secret."""
    with pytest.raises(ValueError, match="redis") as caught:
        Config.model_validate({"redis": {"url": "redi://:hunter2@h", "password": ["hunter2"]}})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_person_key_drops_the_final_newline(load: Any, tmp_path: Path, ending: bytes) -> None:
    """The person key is the file's content without the final newline."""
    content = os.urandom(32).hex().encode()
    (tmp_path / "person.key").write_bytes(content + ending)
    assert read_person_key(load().visits) == content


@pytest.mark.promise(23)
@pytest.mark.parametrize(
    ("mode", "warned"), [(0o400, False), (0o600, False), (0o440, False), (0o444, True), (0o602, True)]
)
def test_readable_key_is_reported(
    load: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    """A key that every user of the machine can read or change is reported. A group may read it, as in Kubernetes."""
    for name in ("person.key", "signing.key"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    config = load({"signing.key_file": "signing.key"})
    report_key_modes(config.visits, config.signing)
    reported = [record.getMessage() for record in caplog.records]
    assert [text.split()[0] for text in reported] == ["visits.person_key_file", "signing.key_file"][: 2 * warned]
    assert all(f"mode {mode:04o}" in text for text in reported)


def test_environment_overrides_key_file(load: Any, tmp_path: Path) -> None:
    """The environment takes precedence over the file."""
    (tmp_path / "person.key").write_text(create_key())
    assert read_person_key(load(environ={"LOCATION_MONITOR__VISITS__PERSON_KEY": KEY}).visits) == KEY.encode()


WEAK = (
    b"",
    b"0123456789abcde",
    b"q1w2e3r4t5y6u7i8",
    b"1qaz2wsx3edc4rfv",
    b"MonitorBonn2026!x9z",
    b"Tr0ub4dor&3xKcd9!",
    b"correct horse battery staple",
    b"0123456789abcdef" * 4,
    b"00" * 32,
    b"f" * 64,
    base64.b64encode(b"q1w2e3r4t5y6u7i8o9p0a1s2d3f4g5h6"),
    base64.b64encode(bytes(31)),
    bytes(range(200, 232)),
)


@pytest.mark.promise(23)
@pytest.mark.parametrize("weak", WEAK)
def test_invented_person_key_is_refused(load: Any, refusal: Any, tmp_path: Path, weak: bytes) -> None:
    """A key that is not 32 bytes in hexadecimal or base64, or that is text or repeats, is refused from both sources."""
    (tmp_path / "person.key").write_bytes(weak)
    form = "32 random bytes in hexadecimal (64 digits) or base64 (44 characters)"
    with pytest.raises(ConfigError, match="location-monitor keygen") as caught:
        read_person_key(load().visits)
    (problem,) = caught.value.problems
    assert problem.expected == f"a file with {form}"
    assert not weak or weak.decode("latin-1") not in str(caught.value)
    problem = refusal(environ={"LOCATION_MONITOR__VISITS__PERSON_KEY": weak.decode("latin-1")})["visits.person_key"]
    assert (problem.value, problem.expected) == ("***", form)


@pytest.mark.parametrize(
    "generate",
    [
        lambda: create_key().encode(),
        lambda: base64.b64encode(os.urandom(32)),
        lambda: os.urandom(32).hex().encode(),
        lambda: base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"="),
    ],
)
def test_random_person_keys_are_accepted(generate: Callable[[], bytes]) -> None:
    """Random keys in base64 and in hexadecimal are accepted; the chance of a refusal is below 10⁻⁶."""
    assert all(is_key(generate()) for _ in range(2_000))


@pytest.mark.promise(23)
def test_missing_person_key_is_refused(load: Any) -> None:
    """Without its file, the person key is refused: copy that of other instances, or create one, or set the variable."""
    with pytest.raises(ConfigError, match=r"copy that of the others.*location-monitor keygen") as caught:
        read_person_key(load().visits)
    assert caught.value.problems[0].key == "visits.person_key_file"
    with pytest.raises(ConfigError, match="LOCATION_MONITOR__VISITS__PERSON_KEY"):
        read_person_key(load({"visits.person_key_file": ABSENT}).visits)


@pytest.mark.parametrize("content", [None, "", "PRIVATE+KEY+example.org/town+00000000+hunter2", KEY])
def test_unusable_signing_key_is_refused(load: Any, tmp_path: Path, content: str | None) -> None:
    """A signing key that cannot be read, or has another form, is refused without showing it."""
    file = tmp_path / "signing.key"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=r"copy that of the others.*location-monitor keygen --signing") as caught:
        read_signer(load({"signing.key_file": str(file)}).signing)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_public_key_must_match(load: Any, refusal: Any, tmp_path: Path) -> None:
    """The two keys must belong together, and a public key has the form that `keygen` prints."""
    file, key = tmp_path / "signing.key", create_signing_key("example.org/town")
    file.write_text(key + "\n")
    public_key = str(read_signing_key(key).verifier)
    keys = {"signing.key_file": str(file), "signing.public_key": public_key}
    signer = read_signer(load(keys).signing)
    assert signer is not None
    assert str(signer.verifier) == public_key
    other = str(SIGNER.verifier)
    with pytest.raises(ConfigError, match=r"signing\.public_key"):
        read_signer(load(keys | {"signing.public_key": other}).signing)
    assert list(refusal({"signing.public_key": public_key[:-4]})) == ["signing.public_key"]


def test_cosigning_key_is_another_key(load: Any, tmp_path: Path) -> None:
    """The key that cosigns is not the key that signs, whose public key must be known."""
    file, key = tmp_path / "cosign.key", create_signing_key("auditor.example/1")
    file.write_text(key + "\n")
    own = str(read_signing_key(key).verifier)
    config = load({"auditor.cosign_key_file": str(file), "signing.public_key": str(SIGNER.verifier)})
    signer = read_cosigner(config.auditor, config.signing)
    assert signer is not None
    assert str(signer.verifier) == own
    for wrong in ({}, {"signing.public_key": own}):
        config = load({"auditor.cosign_key_file": str(file)} | wrong)
        with pytest.raises(ConfigError, match=r"cosign_key_file"):
            read_cosigner(config.auditor, config.signing)


@pytest.mark.promise(23)
def test_misplaced_private_key_is_not_shown(load: Any, tmp_path: Path) -> None:
    """A private key in place of the public key, or of the name of its own file, is refused and not shown."""
    key = create_signing_key("example.org/s")
    registry = tmp_path / "locations.csv"
    registry.write_text("location_id\ninn\n")
    with pytest.raises(ConfigError) as caught:
        load({"signing.public_key": key})
    assert [problem.value for problem in caught.value.problems] == ["***"]
    with pytest.raises(ConfigError, match="keygen") as unreadable:
        read_signer(load({"signing.key_file": key}).signing)
    assert [problem.value for problem in unreadable.value.problems] == ["***"]
    with pytest.raises(UsageError, match=r"public_key is \*\*\*: expected") as refused:
        connect(["localhost:1"], "alerts", slot="1h", registry=registry, public_key=key)
    assert key[-20:] not in "".join(traceback.format_exception(refused.value))


def test_passwords_come_from_files(load: Any, tmp_path: Path) -> None:
    """Passwords are read from their files, without the final newline; without a file there is none."""
    assert read_kafka_password(load().kafka) is read_redis_password(load().redis) is None
    (tmp_path / "p").write_text("hunter2 with spaces \n")
    config = load(SASL | {"kafka.password_file": "p", "redis.password_file": "p"})
    assert read_kafka_password(config.kafka) == read_redis_password(config.redis) == SecretStr("hunter2 with spaces ")


def test_environment_overrides_password_files(load: Any) -> None:
    """The environment takes precedence over the password files."""
    config = load(
        SASL | {"kafka.password_file": "none", "redis.password_file": "none"},
        {"LOCATION_MONITOR__KAFKA__PASSWORD": "k", "LOCATION_MONITOR__REDIS__URL": "redis://u:r%40@h"},
    )
    assert read_kafka_password(config.kafka) == SecretStr("k")
    assert read_redis_password(config.redis) == SecretStr("r@")


def test_redis_password_given_twice_is_refused(refusal: Any) -> None:
    """A Redis password in both the URL and its own variable is refused."""
    environ = {"LOCATION_MONITOR__REDIS__URL": "redis://:a@h", "LOCATION_MONITOR__REDIS__PASSWORD": "b"}
    assert refusal(environ=environ)["redis.password"].expected == "one password"


@pytest.mark.parametrize(
    "read",
    [lambda config: read_kafka_password(config.kafka), lambda config: read_redis_password(config.redis)],
    ids=["kafka_password", "redis_password"],
)
@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe"])
def test_unusable_password_file_is_refused(
    load: Any, tmp_path: Path, read: Callable[[Config], object], content: bytes | None
) -> None:
    """A password file that is missing, empty or not UTF-8 is refused when it is read."""
    if content is not None:
        (tmp_path / "p").write_bytes(content)
    config = load(SASL | {"kafka.password_file": "p", "redis.password_file": "p"})
    with pytest.raises(ConfigError, match="password_file"):
        read(config)


def test_missing_certificates_are_all_reported(load: Any, tmp_path: Path) -> None:
    """Every missing certificate file is reported at once."""
    tls = {
        "kafka.security_protocol": "SSL",
        "kafka.ca_file": "ca.pem",
        "kafka.certificate_file": "c",
        "kafka.key_file": "k",
    }
    config = load(tls | {"redis.url": "rediss://h", "redis.ca_file": "ca.pem"})
    (tmp_path / "c").write_text("certificate")
    with pytest.raises(ConfigError) as caught:
        require_files(config.kafka, config.redis)
    assert [problem.key for problem in caught.value.problems] == ["kafka.ca_file", "kafka.key_file", "redis.ca_file"]
    (tmp_path / "ca.pem").write_text("authority")
    (tmp_path / "k").write_text("key")
    require_files(config.kafka, config.redis)
