"""What a login to Kafka needs from files that other programs renew: a password, or a token (OAUTHBEARER, KIP-255).

A file is read at each login. kafka-python logs in again at each connection, and before the brokers' time limit of a
login (KIP-368). So a renewed file is used without a restart.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import SaslMechanismScram

from monitor.errors import ConfigError

CHECK_IT: Final = "check the token in kafka.token_file: that it has not expired, and that the brokers accept its issuer"

_BY_PASSWORD: Final = {
    "PLAIN": SaslMechanismPlain,
    "SCRAM-SHA-256": SaslMechanismScram,
    "SCRAM-SHA-512": SaslMechanismScram,
}


class LoginFileError(SaslAuthenticationFailedError):  # type: ignore[misc]  # kafka-python ships no types
    """A file has no password or no token. The login fails, and the client tries again. It never shows the content."""


def read_passwords_at_logins() -> None:
    """Let kafka-python call `sasl_plain_password` at each login. It expects a password there, which it would keep."""
    for name, mechanism in _BY_PASSWORD.items():
        register_sasl_mechanism(name, partial(_log_in, mechanism), overwrite=True)


def _log_in(mechanism: Any, **settings: Any) -> Any:
    """Return one login with the present password.

    Raises:
        LoginFileError: the password file cannot be read, is empty, or is not UTF-8.
    """
    try:
        password = settings["sasl_plain_password"]()
    except ConfigError as error:
        raise LoginFileError(str(error.problems[0])) from None
    return mechanism(**settings | {"sasl_plain_password": password.get_secret_value()})


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python ships no types
    """Reads the token at each login."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def token(self) -> str:
        """Return the token, without space around it.

        Raises:
            LoginFileError: the file cannot be read, or has no token.
        """
        try:
            token = self._path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not ASCII"
            raise LoginFileError(f"kafka.token_file is {self._path} ({reason})") from None
        if not token.isprintable() or " " in token or not token:
            raise LoginFileError(f"kafka.token_file is {self._path}, which has no token")
        return token
