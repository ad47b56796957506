"""The token of a subscriber: its position in the output topic, with which another one resumes."""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

from monitor.errors import TokenError

_VERSION: Final = 1


class Token(msgspec.Struct, frozen=True):
    """A position in the output topic."""

    topic: str
    offsets: dict[int, int]
    """Of the next record, by partition."""
    taken: int
    """The instant at which it was taken."""
    topic_id: str
    """Kafka's id of the topic."""
    as_of: int | None = None
    """The instant of the latest record folded; None if there was no record."""
    version: int = _VERSION

    def encode(self) -> str:
        """Return the token as text that is safe in URLs and file names."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def decode_token(text: str, topic: str, topic_id: str) -> Token:
    """Read a token.

    Raises:
        TokenError: the text is not a token of this version, or it is of another topic, or of an earlier one of the same
            name, whose offsets mean nothing in this one.
    """
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Token)
    except (binascii.Error, msgspec.DecodeError, ValueError, RecursionError) as error:
        raise TokenError(
            f"the token is {text[:40]!r}: expected the text of `Places.token`. Start without a token."
        ) from error
    if (token.version, token.topic_id) != (_VERSION, topic_id):
        raise TokenError(
            f"the token is of version {token.version} and topic {token.topic!r} with the id {token.topic_id}: expected "
            f"version {_VERSION} and {topic!r} with the id {topic_id}. If the names are equal, the topic was "
            "re-created since the token was taken. Start without a token."
        )
    return token
