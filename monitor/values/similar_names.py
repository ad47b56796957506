"""Find the known name that a misspelt one probably means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

_SIMILARITY: Final = 0.65
_IGNORED: Final = re.compile(r"[\s_./-]+|(?<!\d)0+(?=\d)")


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
