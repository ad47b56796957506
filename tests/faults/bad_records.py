"""Invalid records of every kind, each with a unique marker and the expected reasons of its dead letters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

ARRIVED: Final = b'"location_id": "edge-0", "arrived_at": "2026-11-20T12:00:00Z"}'
WHOLE: Final = "-"
HUGE: Final = 900_000


Letters = frozenset[tuple[str, str]]
"""(index, reason) of the dead letters of a record."""


class Record(NamedTuple):
    """A record's key and value, and its dead letters."""

    key: bytes
    value: bytes | None
    letters: Letters = frozenset()


def _encode(marker: bytes, rest: bytes = ARRIVED) -> bytes:
    return b'{"person_id": "' + marker + b'", ' + rest


KINDS: Final[dict[str, tuple[Callable[[bytes], bytes | None], str, str]]] = {
    "bad UTF-8": (lambda marker: _encode(marker + b"\xff\xfe"), WHOLE, "not_json"),
    "truncated": (lambda marker: _encode(marker)[:-9], WHOLE, "not_json"),
    "not JSON": (lambda marker: b"person,location," + marker, WHOLE, "not_json"),
    "deep nesting": (lambda marker: b'{"' + marker + b'": ' + b"[" * 100_000, WHOLE, "not_json"),
    "NaN": (lambda marker: _encode(marker, b'"weight": NaN, ' + ARRIVED), WHOLE, "not_json"),
    "an integer of 10,000 digits": (
        lambda marker: _encode(marker, b'"weight": ' + b"9" * 10_000 + b", " + ARRIVED),
        WHOLE,
        "not_json",
    ),
    "a tombstone": (lambda _: None, WHOLE, "not_json"),
    "an empty value": (lambda _: b"", WHOLE, "not_json"),
    "no object": (lambda marker: b'"' + marker + b'"', WHOLE, "not_a_visit"),
    "visits that are no list": (lambda marker: b'{"visits": {"' + marker + b'": 1}}', WHOLE, "not_a_visit"),
    "an envelope after a header": (
        lambda marker: b'\0\0\0\0\7{"schema": 1, "payload": ' + _encode(marker) + b"}",
        WHOLE,
        "not_a_visit",
    ),
    "no location": (lambda marker: _encode(marker, b'"arrived_at": "2026-11-20T12:00:00Z"}'), "0", "not_a_visit"),
    "a deleted row": (lambda marker: _encode(marker, b'"__deleted": "true", ' + ARRIVED), "0", "not_a_visit"),
    "a row marked as deleted by a boolean": (
        lambda marker: _encode(marker, b'"__deleted": true, ' + ARRIVED),
        "0",
        "not_a_visit",
    ),
    "a change event": (
        lambda marker: b'{"before": null, "op": "c", "after": ' + _encode(marker) + b"}",
        "0",
        "not_a_visit",
    ),
    "a header of Apicurio": (lambda marker: b"\0" * 8 + b"\7" + _encode(marker), WHOLE, "not_json"),
    "a header of AWS Glue": (lambda marker: b"\3\0" + b"\x11" * 16 + _encode(marker), WHOLE, "not_json"),
    "a control character": (lambda marker: _encode(marker + b"\\u0007"), "0", "bad_id"),
    "a number as an id": (lambda marker: b'{"person_id": 17, "x": "' + marker + b'", ' + ARRIVED, "0", "bad_id"),
    "a huge integer as a time": (
        lambda marker: _encode(marker, b'"location_id": "edge-0", "arrived_at": ' + b"1" * 300 + b"}"),
        "0",
        "bad_time",
    ),
    "an id of 1 MB": (lambda marker: _encode(marker + b"x" * HUGE), "0", "bad_id"),
    "a naive time": (
        lambda marker: _encode(marker, b'"location_id": "edge-0", "arrived_at": "2026-11-20T12:00:00"}'),
        "0",
        "bad_time",
    ),
    "consent as a text": (lambda marker: _encode(marker, b'"consent": "true", ' + ARRIVED), "0", "bad_consent"),
    "left before arrived": (
        lambda marker: _encode(marker, b'"left_at": "2026-11-20T11:00:00Z", ' + ARRIVED),
        "0",
        "left_before_arrived",
    ),
    "an unknown location": (
        lambda marker: _encode(marker, b'"location_id": "attic", "arrived_at": "2026-11-20T12:00:00Z"}'),
        "0",
        "unknown_location",
    ),
    "centuries ahead": (
        lambda marker: _encode(marker, b'"location_id": "edge-0", "arrived_at": "2999-01-01T00:00:00Z"}'),
        "0",
        "too_far_ahead",
    ),
}


def make_bad_records(prefix: str) -> Iterator[Record]:
    """Yield records of all kinds in turn, without end. Keys are unique; keys and ids begin with the prefix."""
    for number, (make, index, reason) in zip(itertools.count(), itertools.cycle(KINDS.values()), strict=False):
        marker = f"{prefix}-bad-{number}".encode()
        yield Record(marker, make(marker), frozenset({(index, reason)}))
