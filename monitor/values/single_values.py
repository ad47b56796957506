"""Validate single values of the configuration: durations, instants, ε, names, numbers, paths.

Each validator takes a value from YAML or the environment. It returns the parsed value, or raises the error from
`make_value_error`, which says what was expected and what to do. `describe_problems.py` turns this error into a problem.
"""

from __future__ import annotations

import difflib
import math
import re
import unicodedata
import zoneinfo
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator, SecretStr, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from monitor.errors import DurationError, EpsilonError, TimeError
from monitor.privacy.epsilon import LARGEST, SMALLEST, format_epsilon, parse_epsilon
from monitor.records.fields import ID_BYTES, is_identifier
from monitor.records.signed_notes import read_public_key
from monitor.time.instants import (
    MILLISECOND,
    SECOND,
    YEAR,
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)
from monitor.values.person_key import GET_KEY, KEY_FORMAT, is_key

_SIMILARITY: Final = 0.65
_IGNORED: Final = re.compile(r"[\s_./-]+|(?<!\d)0+(?=\d)")

MAX_DURATION: Final = 100 * YEAR  # so that the sum of an instant and a few durations fits in int64
MAX_NUMBER: Final = 10**12
MAX_SHARDS: Final = 4_096
PROBLEM: Final = "location_monitor"

_NAME: Final = r"[A-Za-z0-9_-]{1,100}"
_TOPIC_CHARACTERS: Final = "[A-Za-z0-9._-]{1,249}"
_NO_TOPIC: Final = r"\.{1,2}$|__"
_TOPIC: Final = rf"(?!{_NO_TOPIC}){_TOPIC_CHARACTERS}"
_PORT: Final = r"0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_ADDRESS: Final = rf"([A-Za-z0-9._-]{{1,255}}|\[[0-9A-Fa-f:.]{{2,45}}\]):{_PORT}"
_ORIGIN: Final = r"https?://(\*\.)?([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?"
_LINE: Final = r"[^\x00-\x1f\x7f]{1,1000}"
_DURATION_SCHEMA: Final = {"type": "string", "pattern": "^([0-9]+(y|w|d|h|m|s|ms))+$", "examples": ["30s", "1h", "14d"]}
_EPSILON_SCHEMA: Final = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+|/[0-9]+)?$", "examples": ["1/2", "0.5"]},
    ]
}
_SECRET_SCHEMA: Final = {"type": "string", "writeOnly": True}
_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


def find_similar(word: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to a word; None if none is similar.

    Names that differ only in case, separators or leading zeros (`p1` and `p001`) are the most similar.
    """
    names = list(known)
    form = _simplify(word)
    equal = next((name for name in names if _simplify(name) == form), None)
    return equal or next(iter(difflib.get_close_matches(word, names, n=1, cutoff=_SIMILARITY)), None)


def _simplify(name: str) -> str:
    return _IGNORED.sub("", name).casefold()


class Section(BaseModel):
    """A section of the configuration. Unknown keys are refused, and pydantic's errors never show values."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def make_value_error(what: str, remedy: str = "") -> PydanticCustomError:
    """Return the error of an invalid value: what was expected, and what to do."""
    return PydanticCustomError(PROBLEM, "expected {what}. {remedy}", {"what": what, "remedy": remedy})


NO_OUTER_SPACE: Final = "no space before or after the id, which visits must name with the same characters"
REMOVE_SPACE: Final = "Remove the space."


def has_outer_space(text: str) -> bool:
    """Return whether a string begins or ends with a space of any kind, which nobody sees in a list."""
    return text != text.strip()


def has_controls(text: str) -> bool:
    """Return whether a string contains control characters (Unicode category Cc)."""
    return any(unicodedata.category(character) == "Cc" for character in text)


def _make_duration(least: int) -> tuple[object, ...]:
    """Return the annotations of a duration of at least `least` microseconds."""

    def read(value: object) -> int:
        example = "a duration such as 30s, 1h or 14d"
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise make_value_error(example, f"Add the unit: {value}s, {value}m, {value}h or {value}d.")
        if not isinstance(value, str):
            raise make_value_error(example)
        try:
            duration = parse_duration(value)
        except DurationError:
            raise make_value_error(example, "Write it as in Prometheus: a number and y, w, d, h, m, s or ms.") from None
        if not least <= duration <= MAX_DURATION:
            raise make_value_error(f"a duration from {format_duration(least)} to 100y")
        return duration

    form = PlainSerializer(format_duration, return_type=str, when_used="json")
    return PlainValidator(read), form, WithJsonSchema(_DURATION_SCHEMA)


def _parse_instant(value: object) -> int:
    what = "an RFC 3339 time with an offset and whole milliseconds, such as 2026-01-05T00:00:00Z"
    if not isinstance(value, str):
        raise make_value_error(what)
    try:
        instant = parse_instant(value)
    except TimeError as error:
        raise make_value_error(
            what, f"The value is {error}." if str(error).startswith("not") else f"The error: {error}."
        ) from None
    if instant % MILLISECOND:
        raise make_value_error(what, "Kafka's timestamps are whole milliseconds: remove the digits after the third.")
    return instant


def _parse_epsilon(value: object) -> Fraction:
    what = 'an exact ε above zero: an integer, or a string such as "1/2" or "0.5"'
    if isinstance(value, str):
        what += f", with plain digits and from 1/{SMALLEST.denominator} to {LARGEST}"
    if isinstance(value, float):
        if not math.isfinite(value) or value <= 0:
            raise make_value_error(what)
        exact = Fraction(repr(value))
        raise make_value_error(
            what, f'YAML reads a float, which is not exact: write "{exact}" or "{value!r}", with quotes.'
        )
    if isinstance(value, bool) or not isinstance(value, int | str | Fraction):
        raise make_value_error(what)
    try:
        return parse_epsilon(value)
    except EpsilonError:
        raise make_value_error(what) from None


def read_whole_number(value: object) -> int | None:
    """Return a whole number from YAML (an int) or the environment (digits); None for anything else."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _make_number(least: int, most: int = MAX_NUMBER) -> tuple[object, ...]:
    """Return the annotations of a whole number in a range."""
    limits = {"minimum": least} if most == MAX_NUMBER else {"minimum": least, "maximum": most}
    what = f"a whole number of at least {least}" if most == MAX_NUMBER else f"a whole number from {least} to {most}"

    def read(value: object) -> int:
        number = read_whole_number(value)
        if number is None or not least <= number <= most:
            raise make_value_error(what)
        return number

    return PlainValidator(read), WithJsonSchema({"type": "integer", **limits})


def _make_text(pattern: str, what: str, schema: Mapping[str, object] | None = None) -> tuple[object, ...]:
    """Return the annotations of a string. `schema`: the JSON Schema, if it is not that of the pattern."""
    compiled = re.compile(pattern, re.ASCII)

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise make_value_error(what, "YAML does not read this as a string: put it in quotes.")
        if compiled.fullmatch(value) is None:
            raise make_value_error(what)
        return value

    own = {"pattern": f"^{pattern}$"} if schema is None else schema
    return PlainValidator(read), WithJsonSchema({"type": "string", **own})


def _parse_location_id(value: object) -> str:
    what = f"a location's id: 1 to {ID_BYTES} bytes of UTF-8 without control characters"
    if not isinstance(value, str):
        raise make_value_error(what, "YAML does not read this as a string: put it in quotes.")
    if not is_identifier(value):
        raise make_value_error(what)
    if has_outer_space(value):
        raise make_value_error(NO_OUTER_SPACE, REMOVE_SPACE)
    return value


def _parse_path(value: object, info: ValidationInfo) -> Path:
    if isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value or "\0" in value:
        raise make_value_error("the path of a file, absolute or relative to the configuration file")
    folder = (info.context or {}).get("folder")
    return Path(value) if folder is None else Path(folder) / value


def _parse_public_key(value: object) -> str:
    what = "a public key as `location-monitor keygen --signing` prints it, such as example.org/safety+0123abcd+AR…"
    if not isinstance(value, str):
        raise make_value_error(what, "YAML does not read this as a string: put it in quotes.")
    try:
        return str(read_public_key(value))
    except ValueError:
        raise make_value_error(what, "Copy the whole line.") from None


def _parse_password(value: object) -> SecretStr:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str) or not text:
        raise make_value_error("a secret of at least 1 byte")
    return SecretStr(text)


def _parse_person_key(value: object) -> SecretStr:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str) or not is_key(text.encode(errors="surrogateescape")):
        raise make_value_error(KEY_FORMAT, f"{GET_KEY}.")
    return SecretStr(text)


def _parse_timezone(value: object) -> str:
    what = "the IANA name of a time zone, such as Asia/Tokyo"
    if not isinstance(value, str):
        raise make_value_error(what)
    try:
        zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a folder, such as Europe
        near = find_similar(value, sorted(zoneinfo.available_timezones()))
        raise make_value_error(what, f"Did you mean {near}?" if near else "") from None
    return value


Duration = Annotated[int, *_make_duration(0)]
PositiveDuration = Annotated[int, *_make_duration(MILLISECOND)]
SlotLength = Annotated[int, *_make_duration(SECOND)]
Instant = Annotated[
    int,
    PlainValidator(_parse_instant),
    PlainSerializer(format_instant, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Epsilon = Annotated[
    Fraction,
    PlainValidator(_parse_epsilon),
    PlainSerializer(format_epsilon, return_type=str, when_used="json"),
    WithJsonSchema(_EPSILON_SCHEMA),
]
WholeNumber = Annotated[int, *_make_number(1)]
Shards = Annotated[int, *_make_number(1, MAX_SHARDS)]
Port = Annotated[int, *_make_number(0, 65535)]
ReplicationFactor = Annotated[int, *_make_number(1, 32767)]
Name = Annotated[str, *_make_text(_NAME, "a name of at most 100 letters, digits, - and _")]
TopicName = Annotated[
    str,
    *_make_text(
        _TOPIC,
        "the name of a Kafka topic: at most 249 letters, digits, ., - and _, not starting with __",
        # Without look-ahead, which validators such as Helm's do not support.
        {"pattern": f"^{_TOPIC_CHARACTERS}$", "not": {"pattern": f"^({_NO_TOPIC})"}},
    ),
]
ServerAddress = Annotated[str, *_make_text(_ADDRESS, "a host and a port such as localhost:9092 or [::1]:9092")]
Origin = Annotated[str, *_make_text(_ORIGIN, "an origin such as https://www.example.org, without path and semicolon")]
Timezone = Annotated[
    str, PlainValidator(_parse_timezone), WithJsonSchema({"type": "string", "examples": ["Asia/Tokyo"]})
]
Line = Annotated[str, *_make_text(_LINE, "a string on one line, not empty", {})]
PublicKey = Annotated[str, PlainValidator(_parse_public_key), WithJsonSchema({"type": "string"})]
LocationId = Annotated[
    str, PlainValidator(_parse_location_id), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": ID_BYTES})
]
FilePath = Annotated[
    Path, PlainValidator(_parse_path), PlainSerializer(str, when_used="json"), WithJsonSchema({"type": "string"})
]
Masked = PlainSerializer(str, return_type=str, when_used="json")
Password = Annotated[SecretStr, PlainValidator(_parse_password), Masked, WithJsonSchema(_SECRET_SCHEMA)]
PersonKey = Annotated[SecretStr, PlainValidator(_parse_person_key), Masked, WithJsonSchema(_SECRET_SCHEMA)]
