"""The fields of output records: their types with limits and descriptions, and how they are written and read as JSON.

Each record has one definition, a `Struct` with its fields in the order of the wire. The published schemas come from it
(`monitor.operate.schema`), and so do the bytes that the service writes and every reader reads.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from monitor.privacy.epsilon import format_epsilon, parse_recorded
from monitor.time.instants import format_instant, parse_instant

ID_BYTES: Final = 256
"""The maximum length of an id, in bytes of UTF-8."""

_R = TypeVar("_R", bound=Struct)

EPSILON_PATTERN: Final = r"^[1-9][0-9]*(/[1-9][0-9]*)?$"
_NAME: Final = "^[A-Za-z0-9_-]+$"
_TIME: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z$"

# msgspec would compare each name and time with its pattern, which takes two thirds of the time to read a record. The
# records of a tick share theirs, so a record checks them with `check_name` and `check_time`, which keep the results.
Time = Annotated[str, Meta(description="UTC, with Z.", extra_json_schema={"format": "date-time", "pattern": _TIME})]
Epsilon = Annotated[Fraction, Meta(description='ε, reduced: "1/2" or "3".')]
Tick = Annotated[int, Meta(description="Tick t closes slot t, at its as_of.")]
Location = Annotated[str, Meta(min_length=1, max_length=ID_BYTES)]
Name = Annotated[str, Meta(extra_json_schema={"pattern": _NAME})]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
Positive = Annotated[int, Meta(ge=1)]
Whole = Annotated[int, Meta(ge=0)]


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


class Value(Struct, frozen=True, omit_defaults=True):
    """The value of an output record. Unknown keys are ignored. A key is left out if it has its default.

    A record with answers states what it is called in AsyncAPI (`title`), and the parts of its key (`key`).
    """


read_epsilon = lru_cache(maxsize=1024)(parse_recorded)
read_time = lru_cache(maxsize=4096)(parse_instant)
format_time = lru_cache(maxsize=1024)(format_instant)


@lru_cache(maxsize=1024)
def check_name(name: str) -> None:
    """Raise ValueError if a name has another form."""
    if re.fullmatch(_NAME, name) is None:
        raise ValueError("a name has another form")


@lru_cache(maxsize=4096)
def check_time(time: str) -> None:
    """Raise ValueError if a time has another form, TimeError if it does not exist, such as 24:30."""
    if re.fullmatch(_TIME, time) is None:
        raise ValueError("a time has another form")
    parse_instant(time)


def _decode_fraction(_: type, value: object) -> Fraction:
    """Return ε. `Fraction` is the one type of the records that msgspec does not know."""
    if not isinstance(value, str):
        raise ValueError(f"ε is a JSON {type(value).__name__}: expected a string")  # noqa: TRY004  # msgspec adds the path
    return read_epsilon(value)


def _encode_fraction(value: object) -> str:
    if not isinstance(value, Fraction):
        raise NotImplementedError(type(value).__name__)
    return format_epsilon(value)


def describe_fraction(_: type) -> dict[str, Any]:
    """Return the JSON Schema of ε."""
    return {"type": "string", "pattern": EPSILON_PATTERN}


encode: Final = msgspec.json.Encoder(enc_hook=_encode_fraction).encode
"""Write a value as JSON. The same value always has the same bytes."""


def make_decoder(form: type[_R]) -> Callable[[bytes], _R]:
    """Return the function that reads a record of this form. It raises the errors in `UNREADABLE`."""
    return msgspec.json.Decoder(form, dec_hook=_decode_fraction).decode


UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors of a decoder: the bytes are not JSON, or not a record of the form."""
