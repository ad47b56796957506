"""Times in bulk: what `parse_instant` reads one by one, for the common forms, by arithmetic on eight bytes at a time.

A form that is not understood here is not refused here: the caller reads it by `parse_instant`, which decides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.errors import TimeError
from monitor.public.instants import SECOND, parse_instant

_HEAD: Final = len("2026-11-20T08:15:00")
_PACKED: Final = np.dtype([("date", "<u8"), ("time", "<u8"), ("second", "<u4"), ("end", "u1")])
_NEWLINE: Final = ord("\n")
_LONGEST_TAIL: Final = len(".123456789012345678+00:00")
"""What is longer is no time; and what is kept here must be bounded in bytes."""

_DAY_ZERO: Final = "1970-01-02T00:00:00"


class _Shape(NamedTuple):
    """How a few characters must look, for all of them at once; 0 stands for any digit, all else for itself.

    With x = word ^ zero a digit's byte is 0 to 9, any other's 0. Adding six carries a byte above 9 into its high four
    bits, which `mask` looks at, as it looks at all bits of what is no digit. Bytes don't run over: one that could
    has high bits already.
    """

    zero: int
    six: int
    mask: int


def _shape(text: str) -> _Shape:
    digits = [character == "0" for character in text]
    return _Shape(
        int.from_bytes(text.encode(), "little"),
        int.from_bytes(bytes(6 if digit else 0 for digit in digits), "little"),
        int.from_bytes(bytes(0xF0 if digit else 0xFF for digit in digits), "little"),
    )


_DATE: Final = _shape("0000-00-")
_TIME: Final = _shape("00T00:00")
_SECOND: Final = _shape(":00Z")


@lru_cache(maxsize=1)
def _months() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """By year · 12 + month - 1: the first day since the epoch, and how many days; none in the year 0."""
    firsts = np.arange(-1970 * 12, (10_000 - 1970) * 12 + 1).astype("datetime64[M]").astype("datetime64[D]")
    days = firsts.astype(np.int64)
    lengths = np.diff(days)
    lengths[:12] = 0
    return days[:-1], lengths


def _numbers(field: NDArray[np.void], shape: _Shape) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """At bits 8·i of each word: the number that characters i and i + 1 write; and whether all look as they must."""
    word = field.astype(np.uint64)
    word ^= np.uint64(shape.zero)
    odd = (word + np.uint64(shape.six)) | word
    odd &= np.uint64(shape.mask)
    pairs = word * np.uint64(10)
    pairs += word >> np.uint64(8)
    return pairs.view(np.int64), odd == 0


def _at(pairs: NDArray[np.int64], place: int) -> NDArray[np.int64]:
    return (pairs >> (8 * place)) & 0xFF


def _fixed(joined: bytes) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Read times of 20 characters, each followed by a newline; which of them are times of the form `…Z`."""
    rows = np.frombuffer(joined, _PACKED)
    date, date_fits = _numbers(rows["date"], _DATE)
    time, time_fits = _numbers(rows["time"], _TIME)
    last, last_fits = _numbers(rows["second"], _SECOND)
    month, day = _at(date, 5) - 1, _at(time, 0)
    hour, minute, second = _at(time, 3), _at(time, 6), _at(last, 1)
    fits = date_fits & time_fits & last_fits & (rows["end"] == _NEWLINE)
    fits &= (month >= 0) & (day > 0)
    for unit, size in ((month, 12), (hour, 24), (minute, 60), (second, 60)):
        fits &= unit < size
    starts, lengths = _months()
    place = (_at(date, 0) * 100 + _at(date, 2)) * 12 + month
    if not fits.all():
        place[~fits] = 0
    fits &= day <= lengths[place]
    instants = starts[place] + (day - 1)
    for unit, size in ((hour, 24), (minute, 60), (second, 60)):
        instants *= size
        instants += unit
    instants *= SECOND
    return instants, fits


def _tail(text: str) -> int | None:
    """What follows the seconds, a fraction and an offset, as a duration to add; None if it is neither."""
    return None if len(text) > _LONGEST_TAIL else _known_tail(text)


@lru_cache(maxsize=4096)
def _known_tail(text: str) -> int | None:
    try:
        return parse_instant(_DAY_ZERO + text) - parse_instant(_DAY_ZERO + "Z")
    except TimeError:
        return None


def _by_tails(texts: list[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Read times with fractions and offsets: the first 19 characters in bulk, what follows by a table."""
    heads = "".join([f"{text[:_HEAD]:?<19}Z\n" for text in texts])
    instants, fits = _fixed(heads.encode("ascii", "replace"))
    tails = [_tail(text[_HEAD:]) for text in texts]
    fits &= np.array([tail is not None for tail in tails], np.bool_)
    instants += np.array([tail or 0 for tail in tails], np.int64)
    return instants, fits


def parse_instants(texts: list[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Read times as instants; shape (n,) each: the instants, and which of the texts were understood.

    What is understood is exactly what `parse_instant` reads it as; an instant that was not is meaningless. If every
    joined row fits, the text has no newline but those between, so that each row is one text.
    """
    if not texts:
        return np.empty(0, np.int64), np.empty(0, np.bool_)
    joined = ("\n".join(texts) + "\n").encode("ascii", "replace")
    if len(joined) == len(texts) * _PACKED.itemsize:
        instants, fits = _fixed(joined)
        if fits.all():
            return instants, fits
    return _by_tails(texts)
