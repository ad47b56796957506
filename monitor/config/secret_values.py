"""Read secrets from the environment, or else from files, when they are needed."""

from __future__ import annotations

import logging
import stat
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from monitor.config.describe_problems import MASKED
from monitor.config.environment import PREFIX
from monitor.config.kafka_and_redis import AuditorSettings, KafkaSettings, RedisSettings, find_url_password
from monitor.config.sections import SigningSettings, VisitsSettings
from monitor.errors import ConfigError, Problem
from monitor.records.signed_notes import Signer, has_private_key, read_signing_key
from monitor.values.person_key import CREATE_COSIGNING_KEY, GET_KEY, GET_SIGNING_KEY, KEY_FORMAT, is_key

log = logging.getLogger(__name__)

_SOURCE: Final = "the configuration"


def read_person_key(visits: VisitsSettings) -> bytes:
    """Return the secret that person ids are hashed with. The environment takes precedence over the file.

    Raises:
        ConfigError: no secret is configured, its file cannot be read, or the secret has another form.
    """
    if visits.person_key is not None:
        return visits.person_key.get_secret_value().encode()
    if visits.person_key_file is None:
        remedy = f"{GET_KEY}; then name the file here, or set {PREFIX}VISITS__PERSON_KEY."
        what = "the file with the secret that person ids are hashed with"
        raise _make_error("visits.person_key_file", "missing", what, remedy)
    key = _read_bytes("visits.person_key_file", visits.person_key_file, f"{GET_KEY}.")
    if not is_key(key):
        what = f"a file with {KEY_FORMAT}"
        raise _make_error("visits.person_key_file", str(visits.person_key_file), what, f"{GET_KEY}.")
    return key


def read_signer(signing: SigningSettings) -> Signer | None:
    """Return the key that signs answers; None if answers are not signed.

    Raises:
        ConfigError: the file cannot be read, has another form, or its public key is not `signing.public_key`.
    """
    if signing.key_file is None:
        return None
    signer = _read_signing_key("signing.key_file", signing.key_file, GET_SIGNING_KEY)
    public_key = str(signer.verifier)
    if signing.public_key not in (None, public_key):
        what = f"{public_key}, the public key of signing.key_file"
        raise _make_error("signing.public_key", str(signing.public_key), what, "Correct one of the two.")
    return signer


def read_cosigner(auditor: AuditorSettings, signing: SigningSettings) -> Signer | None:
    """Return the key that cosigns checkpoints; None if they are not cosigned.

    Raises:
        ConfigError: the file cannot be read or has another form, `signing.public_key` is missing, or it is this key.
    """
    if auditor.cosign_key_file is None:
        return None
    signer = _read_signing_key("auditor.cosign_key_file", auditor.cosign_key_file, CREATE_COSIGNING_KEY)
    _report_key_mode("auditor.cosign_key_file", auditor.cosign_key_file)
    if signing.public_key is None:
        what = "the public key of the service, if auditor.cosign_key_file is set"
        raise _make_error("signing.public_key", "missing", what, "Set it, or remove auditor.cosign_key_file.")
    if str(signer.verifier).split("+", 2)[2] == signing.public_key.split("+", 2)[2]:
        what = "another key than that of the service"
        raise _make_error("auditor.cosign_key_file", str(auditor.cosign_key_file), what, CREATE_COSIGNING_KEY)
    return signer


def _read_signing_key(key: str, path: Path, remedy: str) -> Signer:
    content = _read_bytes(key, path, remedy)
    try:
        return read_signing_key(content.decode())
    except ValueError:
        what = "a file with a private key of `keygen --signing`"
        raise _make_error(key, str(path), what, remedy) from None


def report_key_modes(visits: VisitsSettings, signing: SigningSettings) -> None:
    """Log a warning for each key whose file every user of this machine can read or change."""
    if visits.person_key is None:
        _report_key_mode("visits.person_key_file", visits.person_key_file)
    _report_key_mode("signing.key_file", signing.key_file)


def _report_key_mode(key: str, path: Path | None) -> None:
    mode = 0 if path is None else path.stat().st_mode
    if mode & stat.S_IRWXO:  # the group may read it: Kubernetes mounts secrets with mode 0440 and the group of the pod
        log.warning(
            "%s is %s, and every user of this machine can read or change it (mode %04o): expected a file for its "
            "owner, and a group at most: chmod o= %s",
            key,
            path,
            stat.S_IMODE(mode),
            path,
        )


def read_kafka_password(kafka: KafkaSettings) -> SecretStr | None:
    """Return the password of Kafka's user, or None if none is configured. The environment takes precedence.

    Raises:
        ConfigError: the password file cannot be read, is empty, or is not UTF-8.
    """
    return kafka.password or _read_password("kafka.password_file", kafka.password_file)


def read_redis_password(redis: RedisSettings) -> SecretStr | None:
    """Return the password of Redis's user, or None if none is configured.

    Order of precedence: the environment, the URL, the file.

    Raises:
        ConfigError: the password file cannot be read, is empty, or is not UTF-8.
    """
    in_url = find_url_password(redis.url.get_secret_value())
    if redis.password is None and in_url is not None:
        return SecretStr(in_url)
    return redis.password or _read_password("redis.password_file", redis.password_file)


def read_sentinel_password(redis: RedisSettings) -> SecretStr | None:
    """Return the password that the Sentinels require, or None if none is configured.

    Raises:
        ConfigError: the password file cannot be read, is empty, or is not UTF-8.
    """
    return _read_password("redis.sentinel_password_file", redis.sentinel_password_file)


def require_files(kafka: KafkaSettings | None, redis: RedisSettings | None) -> None:
    """Check that the files of certificates and tokens can be read, so that `run` reports all problems at once.

    Raises:
        ConfigError: with one problem per file that cannot be read.
    """
    problems: list[Problem] = []
    for section, settings in {"kafka": kafka, "redis": redis}.items():
        for name in ("ca_file", "certificate_file", "key_file", "token_file"):
            path: Path | None = getattr(settings, name, None)
            try:
                if path is not None:
                    _read_bytes(f"{section}.{name}", path, "Create the file, or correct the path.")
            except ConfigError as error:
                problems += error.problems
    if problems:
        raise ConfigError(_SOURCE, tuple(problems))


def _read_password(key: str, path: Path | None) -> SecretStr | None:
    if path is None:
        return None
    try:
        text = _read_bytes(key, path, "Put the password there, or correct the path.").decode()
    except UnicodeDecodeError:
        raise _make_error(key, str(path), "a UTF-8 text file", "Write the password again.") from None
    if not text:
        raise _make_error(key, f"{path} (empty)", "a file with the password", "Write the password there.")
    return SecretStr(text)


def _read_bytes(key: str, path: Path, remedy: str) -> bytes:
    """Return the content of a file without the newline that editors and `echo` add at the end."""
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or "unreadable"
        raise _make_error(key, f"{path} ({reason})", "a readable file", remedy) from None
    return content.removesuffix(b"\n").removesuffix(b"\r")


def _make_error(key: str, value: str, expected: str, remedy: str) -> ConfigError:
    shown = MASKED if has_private_key(value) else value
    return ConfigError(_SOURCE, (Problem(key, shown, expected, remedy),))
