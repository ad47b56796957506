"""The token of a login to Kafka (SASL OAUTHBEARER, KIP-255), from a file that another program renews."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl.oauth import AbstractTokenProvider

CHECK_IT: Final = "check the token in kafka.token_file: that it has not expired, and that the brokers accept its issuer"


class TokenFileError(SaslAuthenticationFailedError):  # type: ignore[misc]  # kafka-python ships no types
    """The file has no token. The login fails, and the client tries again."""


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python ships no types
    """Reads the token at each login. kafka-python logs in again before the brokers' time limit of a login (KIP-368).

    So a renewed file is used without a restart, as Kubernetes and agents of identity providers write it.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def token(self) -> str:
        """Return the token, without space around it.

        Raises:
            TokenFileError: the file cannot be read, or has no token. It never shows the content.
        """
        try:
            token = self._path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not ASCII"
            raise TokenFileError(f"kafka.token_file is {self._path} ({reason})") from None
        if not token.isprintable() or " " in token or not token:
            raise TokenFileError(f"kafka.token_file is {self._path}, which has no token")
        return token
