"""Parse times in bulk: like `parse_instant` for the common forms, by arithmetic on eight bytes at a time.

A form that is not understood here may still be valid. The caller reads it with `parse_instant`, which decides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.contracts.instants import SECOND, parse_instant
from monitor.errors import TimeError

_HEAD: Final = len("2026-11-20T08:15:00")
_PACKED: Final = np.dtype([("date", "<u8"), ("time", "<u8"), ("second", "<u4"), ("end", "u1")])
_NEWLINE: Final = ord("\n")
_LONGEST_TAIL: Final = len(".123456789012345678+00:00")
"""In a valid time, the text after the seconds is never longer. This limit also bounds the size of the cache."""

_ANY_DAY: Final = "1970-01-02T00:00:00"


class _Shape(NamedTuple):
    """A template of a few characters, checked all at once. 0 matches any digit, other characters match themselves.

    In word ^ zero, the byte of a matching digit is 0 to 9, and that of another matching character is 0. Adding six
    carries a byte above 9 into its high four bits. `mask` selects these bits, and all bits of characters that are not
    digits. The check also uses the bits from before the addition, so a byte that overflows into the next one never
    fits.
    """

    zero: int
    six: int
    mask: int


def _make_shape(text: str) -> _Shape:
    digits = [character == "0" for character in text]
    return _Shape(
        int.from_bytes(text.encode(), "little"),
        int.from_bytes(bytes(6 if digit else 0 for digit in digits), "little"),
        int.from_bytes(bytes(0xF0 if digit else 0xFF for digit in digits), "little"),
    )


_DATE: Final = _make_shape("0000-00-")
_TIME: Final = _make_shape("00T00:00")
_SECOND: Final = _make_shape(":00Z")


@lru_cache(maxsize=1)
def _compute_months() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first day (days since 1970) and the number of days of each month, by year · 12 + month - 1.

    The months of year 0 have no days.
    """
    firsts = np.arange(-1970 * 12, (10_000 - 1970) * 12 + 1).astype("datetime64[M]").astype("datetime64[D]")
    days = firsts.astype(np.int64)
    lengths = np.diff(days)
    lengths[:12] = 0
    return days[:-1], lengths


def _parse_digits(field: NDArray[np.void], shape: _Shape) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return words whose byte i is the number in characters i and i + 1, and which words fit the shape."""
    word = field.astype(np.uint64)
    word ^= np.uint64(shape.zero)
    odd = (word + np.uint64(shape.six)) | word
    odd &= np.uint64(shape.mask)
    pairs = word * np.uint64(10)
    pairs += word >> np.uint64(8)
    return pairs.view(np.int64), odd == 0


def _pick(pairs: NDArray[np.int64], place: int) -> NDArray[np.int64]:
    return (pairs >> (8 * place)) & 0xFF


def _parse_fixed(joined: bytes) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the instants of texts of 20 characters, each followed by a newline, and which have the form `…Z`."""
    rows = np.frombuffer(joined, _PACKED)
    date, date_fits = _parse_digits(rows["date"], _DATE)
    time, time_fits = _parse_digits(rows["time"], _TIME)
    last, last_fits = _parse_digits(rows["second"], _SECOND)
    month, day = _pick(date, 5) - 1, _pick(time, 0)
    hour, minute, second = _pick(time, 3), _pick(time, 6), _pick(last, 1)
    fits = date_fits & time_fits & last_fits & (rows["end"] == _NEWLINE)
    fits &= (month >= 0) & (day > 0)
    for unit, size in ((month, 12), (hour, 24), (minute, 60), (second, 60)):
        fits &= unit < size
    starts, lengths = _compute_months()
    place = (_pick(date, 0) * 100 + _pick(date, 2)) * 12 + month
    if not fits.all():
        place[~fits] = 0
    fits &= day <= lengths[place]
    instants = starts[place] + (day - 1)
    for unit, size in ((hour, 24), (minute, 60), (second, 60)):
        instants *= size
        instants += unit
    instants *= SECOND
    return instants, fits


def _parse_tail(text: str) -> int | None:
    """Return the microseconds that the text after the seconds adds (a fraction, an offset); None if it is invalid."""
    return None if len(text) > _LONGEST_TAIL else _parse_short_tail(text)


@lru_cache(maxsize=4096)
def _parse_short_tail(text: str) -> int | None:
    try:
        return parse_instant(_ANY_DAY + text) - parse_instant(_ANY_DAY + "Z")
    except TimeError:
        return None


def _parse_with_tails(texts: list[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the instants of times with fractions and offsets, and which were understood. Parsed tails are cached."""
    heads = "".join([f"{text[:_HEAD]:?<19}Z\n" for text in texts])
    instants, fits = _parse_fixed(heads.encode("ascii", "replace"))
    tails = [_parse_tail(text[_HEAD:]) for text in texts]
    fits &= np.array([tail is not None for tail in tails], np.bool_)
    instants += np.array([tail or 0 for tail in tails], np.int64)
    return instants, fits


def parse_instants(texts: list[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the instants of texts, and which texts were understood; shape (n,) each.

    The instant of an understood text is the one that `parse_instant` returns. The instants of other texts have no
    meaning.
    """
    if not texts:
        return np.empty(0, np.int64), np.empty(0, np.bool_)
    joined = ("\n".join(texts) + "\n").encode("ascii", "replace")
    if len(joined) == len(texts) * _PACKED.itemsize:
        instants, fits = _parse_fixed(joined)
        if fits.all():  # then no text contains a newline, so each row is one text
            return instants, fits
    return _parse_with_tails(texts)
