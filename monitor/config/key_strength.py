"""Whether the secret that person ids are hashed with could be guessed: whoever guesses it can test who was where.

Nobody can measure how a secret was made. What is refused are secrets that people think up: repetitions, rows of
characters that follow one another, and words.
"""

from __future__ import annotations

import re
from typing import Final

SHORTEST: Final = 16
"""How many bytes a secret must have."""

LEAST_LEFT: Final = 12
"""How many must be left of it when each repetition is left out and rows and words count as two bytes each."""

LEAST_DISTINCT: Final = 10
"""How many of those that are left must differ."""

STRONG_KEY: Final = f"a secret of at least {SHORTEST} bytes that cannot be guessed, not words, rows or repetitions"
CREATE_KEY: Final = "head -c 32 /dev/urandom | base64 > person.key"

_ROW: Final = 3
_WORD: Final = re.compile(rb"(?:[A-Za-z][a-z]{2,}|[A-Z]{4,})[ ._-]?")  # random base64 has few, and short ones


def is_guessable(key: bytes) -> bool:
    """Whether a key is too short, or too little is left of it without its repetitions, rows and words."""
    left = _without_rows(_without_repetition(key))
    if left.isascii():
        left = _WORD.sub(lambda word: word[0][:2], left)
    return len(key) < SHORTEST or len(left) < LEAST_LEFT or len(set(left)) < LEAST_DISTINCT


def _without_repetition(key: bytes) -> bytes:
    """The shortest beginning that the whole key repeats, twice at least; the key itself if there is none."""
    periods = range(1, len(key) // 2 + 1)
    return next((key[:period] for period in periods if key[period:] == key[:-period]), key)


def _without_rows(key: bytes) -> bytes:
    """The key with two bytes of each row of three or more that go up by one, down by one, or stay."""
    left = bytearray()
    begin = 0
    while begin < len(key):
        end = _row_end(key, begin)
        left += key[begin : begin + 2] if end - begin >= _ROW else key[begin:end]
        begin = end
    return bytes(left)


def _row_end(key: bytes, begin: int) -> int:
    """Where the row that begins at a byte ends; the next byte, if none begins there."""
    for step in (-1, 0, 1):
        end = begin + 1
        while end < len(key) and key[end] - key[end - 1] == step:
            end += 1
        if end - begin >= _ROW:
            return end
    return begin + 1
