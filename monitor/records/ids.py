"""The form of the ids of people and locations."""

from __future__ import annotations

import unicodedata
from typing import Final

ID_BYTES: Final = 256
"""The maximum length of an id, in bytes of UTF-8."""


def is_identifier(text: str) -> bool:
    """Return whether a string is 1 to 256 bytes of UTF-8 without control characters."""
    if not 1 <= len(text) <= ID_BYTES:
        return False
    if not text.isascii():
        try:
            if len(text.encode()) > ID_BYTES:
                return False
        except UnicodeEncodeError:
            return False
    return text.isprintable() or not any(unicodedata.category(character) == "Cc" for character in text)
