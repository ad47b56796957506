"""Secrets: where they may come from, and that nothing shows them."""

from __future__ import annotations

import base64
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monitor.config import Config, kafka_password, person_key, redis_password, require_files
from monitor.config.key_strength import is_guessable
from monitor.errors import ConfigError

KEY = "q7Vd2mXw9Lr4Tz8K-hunter2"
SECRETS = {
    "LOCATION_MONITOR__VISITS__PERSON_KEY": KEY,
    "LOCATION_MONITOR__KAFKA__PASSWORD": "hunter2",
    "LOCATION_MONITOR__REDIS__URL": "redis://user:hunter2@localhost/0",
}
SASL = {"kafka.security_protocol": "SASL_SSL", "kafka.sasl_mechanism": "PLAIN", "kafka.username": "monitor"}


def test_no_representation_of_a_configuration_shows_a_secret(load: Any) -> None:
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
def test_a_secret_in_the_file_is_refused_and_masked(load: Any, key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({key: value})
    (problem,) = caught.value.problems
    assert (problem.key, problem.value, problem.expected) == (key, "***", "no secret in the configuration file")
    assert "LOCATION_MONITOR__" in problem.remedy
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


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
def test_no_error_shows_a_secret(load: Any, environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load(environ=environ)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_an_error_of_the_model_itself_shows_no_secret() -> None:
    with pytest.raises(ValueError, match="redis") as caught:
        Config.model_validate({"redis": {"url": "redi://:hunter2@h", "password": ["hunter2"]}})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_the_person_key_is_the_files_bytes_without_the_last_newline(load: Any, tmp_path: Path, ending: bytes) -> None:
    content = bytes.fromhex("ff0a9c41d7e85b2306fa78c13d94e6b0") + b"\nx"
    (tmp_path / "person.key").write_bytes(content + ending)
    assert person_key(load()) == content


def test_the_environments_secret_wins_over_the_file(load: Any, tmp_path: Path) -> None:
    (tmp_path / "person.key").write_text("G5kP1yQ8bZ3nW6cJ-other")
    assert person_key(load(environ={"LOCATION_MONITOR__VISITS__PERSON_KEY": KEY})) == KEY.encode()


WEAK = (
    b"aaaaaaaaaaaaaaaa",
    b"passwordpassword",
    b"0123456789abcdef",
    b"0123456789abcdef" * 4,
    b"fedcba9876543210-hunter2",
    b"correct horse battery staple",
    b"CorrectHorseBatteryStaple",
    b"LOCATION-MONITOR-2026",
    b"00000000-0000-0000-0000-000000000001",
    b"k7#Qk7#Qk7#Qk7#Qk7#Q",
    bytes(range(64)),
    b"x7Kq2mVz9LrTb4W",
)


@pytest.mark.parametrize("weak", WEAK)
def test_a_person_key_that_could_be_guessed_is_refused_from_the_file_and_from_the_environment(
    load: Any, refusal: Any, tmp_path: Path, weak: bytes
) -> None:
    """Repetitions, rows, words, or fewer than 16 bytes: whoever guesses the key can test who was where."""
    (tmp_path / "person.key").write_bytes(weak)
    with pytest.raises(ConfigError, match="head -c 32 /dev/urandom") as caught:
        person_key(load())
    (problem,) = caught.value.problems
    assert problem.expected == (
        "a file that holds a secret of at least 16 bytes that cannot be guessed, not words, rows or repetitions"
    )
    assert weak.decode("latin-1") not in str(caught.value)
    problem = refusal(environ={"LOCATION_MONITOR__VISITS__PERSON_KEY": weak.decode("latin-1")})["visits.person_key"]
    assert (problem.value, problem.expected) == (
        "***",
        "a secret of at least 16 bytes that cannot be guessed, not words, rows or repetitions",
    )


@pytest.mark.parametrize(
    "made",
    [
        lambda: base64.b64encode(os.urandom(32)),
        lambda: os.urandom(32).hex().encode(),
        lambda: os.urandom(32),
        lambda: base64.urlsafe_b64encode(os.urandom(48)),
    ],
)
def test_person_keys_that_were_drawn_are_taken(made: Callable[[], bytes]) -> None:
    """Of 2,000 of each form: in base64, in hexadecimal, as bytes; none is refused but with a chance below 10⁻⁶."""
    assert not [key for key in (made() for _ in range(2_000)) if is_guessable(key)]


@pytest.mark.parametrize("content", [None, b"", b"0123456789abcde\n"])
def test_a_missing_or_short_person_key_is_refused_with_how_to_make_one(
    load: Any, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "person.key").write_bytes(content)
    with pytest.raises(ConfigError, match="head -c 32 /dev/urandom") as caught:
        person_key(load())
    assert caught.value.problems[0].key == "visits.person_key_file"


def test_a_person_key_that_is_not_configured_is_refused_with_how_to_make_one(load: Any, absent: str) -> None:
    with pytest.raises(ConfigError, match="LOCATION_MONITOR__VISITS__PERSON_KEY"):
        person_key(load({"visits.person_key_file": absent}))


def test_passwords_come_from_their_files(load: Any, tmp_path: Path) -> None:
    (tmp_path / "p").write_text("hunter2 with spaces \n")
    config = load(SASL | {"kafka.password_file": "p", "redis.password_file": "p"})
    for read in (kafka_password, redis_password):
        password = read(config)
        assert password is not None
        assert password.get_secret_value() == "hunter2 with spaces "


def test_passwords_come_from_the_environment_before_their_files(load: Any) -> None:
    config = load(
        SASL | {"kafka.password_file": "none", "redis.password_file": "none"},
        {"LOCATION_MONITOR__KAFKA__PASSWORD": "k", "LOCATION_MONITOR__REDIS__URL": "redis://u:r%40@h"},
    )
    password, inside = kafka_password(config), redis_password(config)
    assert password is not None
    assert password.get_secret_value() == "k"
    assert inside is not None
    assert inside.get_secret_value() == "r@"


def test_a_password_given_twice_by_the_environment_is_refused(refusal: Any) -> None:
    environ = {"LOCATION_MONITOR__REDIS__URL": "redis://:a@h", "LOCATION_MONITOR__REDIS__PASSWORD": "b"}
    assert refusal(environ=environ)["redis.password"].expected == "one password"


def test_no_password_is_none(load: Any) -> None:
    assert kafka_password(load()) is None
    assert redis_password(load()) is None


@pytest.mark.parametrize("read", [kafka_password, redis_password])
@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe"])
def test_a_password_file_that_cannot_be_used_is_refused_when_it_is_read(
    load: Any, tmp_path: Path, read: Callable[[Config], object], content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "p").write_bytes(content)
    config = load(SASL | {"kafka.password_file": "p", "redis.password_file": "p"})
    with pytest.raises(ConfigError, match="password_file"):
        read(config)


def test_all_certificates_that_are_missing_are_named_when_they_are_needed(load: Any, tmp_path: Path) -> None:
    tls = {
        "kafka.security_protocol": "SSL",
        "kafka.ca_file": "ca.pem",
        "kafka.certificate_file": "c",
        "kafka.key_file": "k",
    }
    config = load(tls | {"redis.url": "rediss://h", "redis.ca_file": "ca.pem"})
    (tmp_path / "c").write_text("certificate")
    with pytest.raises(ConfigError) as caught:
        require_files(config)
    assert [problem.key for problem in caught.value.problems] == ["kafka.ca_file", "kafka.key_file", "redis.ca_file"]
    (tmp_path / "ca.pem").write_text("authority")
    (tmp_path / "k").write_text("key")
    require_files(config)
