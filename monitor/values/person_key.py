"""The form of the secret that person ids are hashed with: 32 random bytes, in hexadecimal or base64.

An attacker who has the secret and can read Redis can test whether a given person was at a location. The randomness of a
secret cannot be measured. So a form is required that a program writes and that nobody invents.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from typing import Final

KEY_BYTES: Final = 32

KEY_FORMAT: Final = f"{KEY_BYTES} random bytes in hexadecimal (64 digits) or base64 (44 characters)"
_CREATE_SIGNING_KEY: Final = "location-monitor keygen --signing example.org/safety signing.key"
_SAME: Final = "All instances need the same key: copy that of the others. For the first instance, create one"
GET_KEY: Final = f"{_SAME}: location-monitor keygen person.key"
GET_SIGNING_KEY: Final = f"{_SAME}: {_CREATE_SIGNING_KEY}."
CREATE_COSIGNING_KEY: Final = f"Create one: {_CREATE_SIGNING_KEY}."

_LEAST_DISTINCT: Final = 16  # random bytes have fewer distinct values with a chance below 10⁻¹⁴
_HEXADECIMAL: Final = re.compile(rb"[0-9A-Fa-f]{64}")
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/_-]{43}=?")


def create_key() -> str:
    """Return a new key, in base64."""
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def is_key(text: bytes) -> bool:
    """Return whether a text has the form of a key. Text in base64, and bytes that repeat, are no keys."""
    try:
        key = _decode(text)
    except binascii.Error:
        return False
    return key is not None and len(set(key)) >= _LEAST_DISTINCT and not key.isascii()


def _decode(text: bytes) -> bytes | None:
    if _HEXADECIMAL.fullmatch(text):
        return bytes.fromhex(text.decode())
    if _BASE64.fullmatch(text):
        return base64.b64decode(text[:43] + b"=", altchars=b"-_" if set(text) & set(b"-_") else None)
    return None
