"""Estimates whether the secret that person ids are hashed with can be guessed.

An attacker who has the secret and can read Redis can test whether a given person was at a location. The randomness of a
secret cannot be measured, so this module refuses the kinds of secrets that people invent: repetitions, runs of
consecutive characters, and words.
"""

from __future__ import annotations

import re
from typing import Final

MIN_BYTES: Final = 16
"""The minimum length of a secret, in bytes."""

MIN_REMAINING: Final = 12
"""The minimum number of bytes that remain without repetitions. Each run and each word counts as two bytes."""

MIN_DISTINCT: Final = 10
"""The minimum number of distinct bytes among the remaining bytes."""

STRONG_KEY: Final = f"a secret of at least {MIN_BYTES} bytes that is hard to guess: no words, runs or repetitions"
CREATE_KEY: Final = "head -c 32 /dev/urandom | base64 > person.key"

_RUN: Final = 3
# Random base64 contains few words, all of them short.
_WORD: Final = re.compile(rb"(?:[A-Za-z][a-z]{2,}|[A-Z]{4,})[ ._-]?")


def is_guessable(key: bytes) -> bool:
    """Return whether a key is too short, or has too few bytes left without its repetitions, runs and words."""
    left = _shorten_runs(_drop_repetition(key))
    if left.isascii():
        left = _WORD.sub(lambda word: word[0][:2], left)
    return len(key) < MIN_BYTES or len(left) < MIN_REMAINING or len(set(left)) < MIN_DISTINCT


def _drop_repetition(key: bytes) -> bytes:
    """Return the shortest prefix that gives the key when repeated; the whole key if there is no repetition."""
    periods = range(1, len(key) // 2 + 1)
    return next((key[:period] for period in periods if key[period:] == key[:-period]), key)


def _shorten_runs(key: bytes) -> bytes:
    """Return the key with each run (three or more bytes, equal or in steps of ±1) shortened to two bytes."""
    left = bytearray()
    begin = 0
    while begin < len(key):
        end = _find_run_end(key, begin)
        left += key[begin : begin + 2] if end - begin >= _RUN else key[begin:end]
        begin = end
    return bytes(left)


def _find_run_end(key: bytes, begin: int) -> int:
    """Return the end of the run that begins at a byte; the next byte if no run begins there."""
    for step in (-1, 0, 1):
        end = begin + 1
        while end < len(key) and key[end] - key[end - 1] == step:
            end += 1
        if end - begin >= _RUN:
            return end
    return begin + 1
