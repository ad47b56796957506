"""Signed notes of C2SP (signed-note): a text, and below it the Ed25519 signatures of named keys.

The keys have the text forms of Go's `golang.org/x/mod/sumdb/note`, so its tools read them too.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KEY_NAME: Final = r"[^\s+\x00-\x1f\x7f]{1,200}"
"""The form of a key's name. C2SP recommends an address without https://, such as example.org/safety."""

_ED25519: Final = b"\x01"
_COSIGNATURE: Final = b"\x04"
_ID_BYTES: Final = 4
_KEY_BYTES: Final = 32
_PRIVATE: Final = "PRIVATE+KEY+"
_FORM: Final = re.compile(rf"({KEY_NAME})\+([0-9a-f]{{8}})\+([A-Za-z0-9+/]+=*)")
_SIGNATURE: Final = "\N{EM DASH} "
_MOST_SIGNATURES: Final = 16


class Verifier:
    """A public key and its name. Its text is `name+id+base64`."""

    def __init__(self, name: str, public_key: bytes) -> None:
        self.name = name
        self._key = Ed25519PublicKey.from_public_bytes(public_key)
        self._encoded = _ED25519 + public_key
        self.key_id = _make_id(name, self._encoded)

    def __str__(self) -> str:
        """Return the text of the key."""
        return _format_key(self.name, self.key_id, self._encoded)

    def open(self, note: str) -> str | None:
        """Return the text of a note if this key has signed it; None if it has not."""
        text, separator, lines = note.rpartition("\n\n")
        signatures = lines.removesuffix("\n").split("\n")
        if not separator or not lines.endswith("\n") or len(signatures) > _MOST_SIGNATURES:
            return None
        text += "\n"
        return text if any(self._has_signed(text, line) for line in signatures) else None

    def _has_signed(self, text: str, line: str) -> bool:
        name, _, encoded = line.removeprefix(_SIGNATURE).partition(" ")
        if not line.startswith(_SIGNATURE) or name != self.name:
            return False
        try:
            signature = base64.b64decode(encoded, validate=True)
            if not hmac.compare_digest(signature[:_ID_BYTES], self.key_id):
                return False
            self._key.verify(signature[_ID_BYTES:], text.encode())
        except (binascii.Error, UnicodeEncodeError, InvalidSignature, ValueError):
            return False
        return True


class Signer:
    """A private key and its name."""

    def __init__(self, name: str, private_key: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(private_key)
        public_key = self._key.public_key().public_bytes_raw()
        self.verifier = Verifier(name, public_key)
        self._cosigner = _COSIGNATURE + public_key

    @property
    def cosigner_key(self) -> str:
        """The text of the public key with which cosignatures are verified."""
        return _format_key(self.verifier.name, _make_id(self.verifier.name, self._cosigner), self._cosigner)

    def sign(self, text: str) -> str:
        """Return the note of a text, which ends with a newline. The same text always has the same signature."""
        signature = base64.b64encode(self.verifier.key_id + self._key.sign(text.encode())).decode()
        return f"{text}\n{_SIGNATURE}{self.verifier.name} {signature}\n"

    def cosign(self, note: str, unix_time: int) -> str:
        """Return a note with a line for a cosignature of its text (C2SP tlog-cosignature), made at a time."""
        name, text = self.verifier.name, note.rpartition("\n\n")[0]
        signature = self._key.sign(f"cosignature/v1\ntime {unix_time}\n{text}\n".encode())
        line = base64.b64encode(_make_id(name, self._cosigner) + unix_time.to_bytes(8, "big") + signature).decode()
        return f"{note}{_SIGNATURE}{name} {line}\n"


def create_signing_key(name: str) -> str:
    """Return the text of a new private key.

    Raises:
        ValueError: the name is not that of a key.
    """
    if re.fullmatch(KEY_NAME, name) is None:
        raise ValueError(name)
    private_key = Ed25519PrivateKey.generate().private_bytes_raw()
    return _PRIVATE + _format_key(name, Signer(name, private_key).verifier.key_id, _ED25519 + private_key)


def read_signing_key(text: str) -> Signer:
    """Return the private key of a text.

    Raises:
        ValueError: the text is not a private key.
    """
    if not text.startswith(_PRIVATE):
        raise ValueError("no private key")  # the text itself may be a secret
    name, key_id, key = _parse_key(text.removeprefix(_PRIVATE))
    signer = Signer(name, key)
    if signer.verifier.key_id != key_id:
        raise ValueError("another id")
    return signer


def read_public_key(text: str) -> Verifier:
    """Return the public key of a text.

    Raises:
        ValueError: the text is not a public key.
    """
    name, key_id, key = _parse_key(text)
    verifier = Verifier(name, key)
    if verifier.key_id != key_id:
        raise ValueError("another id")
    return verifier


def _make_id(name: str, encoded: bytes) -> bytes:
    """Return the id of a key, given its type and its bytes."""
    return sha256(name.encode() + b"\n" + encoded).digest()[:_ID_BYTES]


def has_private_key(text: str) -> bool:
    """Return whether a text contains a private key, so that it must not be shown."""
    return _PRIVATE in text


def _format_key(name: str, key_id: bytes, encoded: bytes) -> str:
    return f"{name}+{key_id.hex()}+{base64.b64encode(encoded).decode()}"


def _parse_key(text: str) -> tuple[str, bytes, bytes]:
    """Return the name, the id and the bytes of a key."""
    form = _FORM.fullmatch(text)
    encoded = b"" if form is None else base64.b64decode(form[3], validate=True)
    if form is None or encoded[:1] != _ED25519 or len(encoded) != 1 + _KEY_BYTES:
        raise ValueError("another form")
    return form[1], bytes.fromhex(form[2]), encoded[1:]
