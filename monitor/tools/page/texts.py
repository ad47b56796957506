"""The texts of the page in each language, with the replacements of the configuration."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Final

from monitor.config.page import LANGUAGES, Language, PageSettings
from monitor.errors import ConfigError, Problem

Texts = Mapping[str, str]

_DEFAULT: Final[Language] = "en"


@cache
def read_texts(language: Language) -> Texts:
    """Return the texts of the package in a language, by key."""
    file = resources.files("monitor.tools.page") / "texts" / f"{language}.json"
    texts: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return texts


def build_texts(settings: PageSettings) -> dict[Language, Texts]:
    """Return the texts of all languages.

    Raises:
        ConfigError: `page.texts` has an unknown key, or a text with a placeholder that this key does not have.
    """
    problems = tuple(_find_problems(settings))
    if problems:
        raise ConfigError("page.texts", problems)
    title = {} if settings.title is None else {"title": settings.title}
    return {language: {**read_texts(language), **title, **settings.texts.get(language, {})} for language in LANGUAGES}


def _find_problems(settings: PageSettings) -> Iterator[Problem]:
    for language, replaced in settings.texts.items():
        known = read_texts(language)
        for key, text in replaced.items():
            name = f"page.texts.{language}.{key}"
            if key not in known:
                yield Problem(name, repr(text[:80]), "a key of tools/page/texts/en.json", "Correct or remove it.")
            elif not _is_usable(text, known[key]):
                fields = sorted(_find_placeholders(known[key]))
                wanted = ", ".join(f"{{{field}}}" for field in fields) or "no placeholder"
                yield Problem(name, repr(text[:80]), f"a text with these placeholders or fewer: {wanted}")


def _is_usable(text: str, known: str) -> bool:
    try:
        return _find_placeholders(text) <= _find_placeholders(known)
    except ValueError:
        return False


def _find_placeholders(text: str) -> set[str]:
    """Return the placeholders of a text.

    Raises:
        ValueError: a brace is unmatched, or a placeholder has a format, which fails if there is no value.
    """
    placeholders = set()
    for _text, field, spec, conversion in string.Formatter().parse(text):
        if spec or conversion:
            raise ValueError(f"a placeholder with a format: {field}")
        placeholders |= set() if field is None else {field}
    return placeholders


def choose_language(wanted: str | None, accepted: str) -> Language:
    """Return the language of a request: the parameter `lang`, or the best of the header Accept-Language."""
    for language in LANGUAGES:
        if wanted == language:
            return language
    return next((language for tag in _sort_by_weight(accepted) for language in LANGUAGES if tag == language), _DEFAULT)


def _sort_by_weight(accepted: str) -> list[str]:
    """Return the primary tags of an Accept-Language header, the preferred ones first."""
    weighed = []
    for position, part in enumerate(accepted[:1_000].split(",")):
        tag, _, weight = part.strip().partition(";q=")
        try:
            weighed.append((-float(weight or 1), position, tag.partition("-")[0].lower()))
        except ValueError:
            continue
    return [tag for _weight, _position, tag in sorted(weighed)]
