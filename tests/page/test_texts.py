"""The texts: all languages say the same, and each answer can be described in each of them."""

from __future__ import annotations

import itertools
import re
import string
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from monitor.client.answer_types import About, Answer, Reason, State, Strength
from monitor.config.sections import LANGUAGES, Language, PageSettings
from monitor.page.current_places import MARKS, STATES
from monitor.page.languages import Words, build_texts, read_texts
from monitor.time.instants import DAY, HOUR, to_datetime

PAGE = Path(__file__).parents[2] / "monitor" / "page"
SUBJECTS = (*STATES, "paused", "between", "at_least", "hot_spot", "below_since", "fresh_count", *get_args(Strength))
REASONS: dict[State, tuple[Reason, ...]] = {
    "safe": ("below_threshold",),
    "noisy_count": ("noisy",),
    "below_since": ("below_threshold",),
    "bounded": ("no_threshold",),
    "paused": ("budget_spent",),
    "unknown": (
        "nothing_published",
        "too_old",
        "input_incomplete",
        "other_registry",
        "not_understood",
        "not_verified",
        "clock_behind",
    ),
}


def find_fields(text: str) -> set[str | None]:
    return {field for _text, field, _spec, _conversion in string.Formatter().parse(text)} - {None}


@pytest.mark.parametrize("language", LANGUAGES)
def test_languages_have_equal_keys(language: Language) -> None:
    """Every language has the keys of English, in the same order, with the same placeholders."""
    english, texts = read_texts("en"), read_texts(language)
    assert list(texts) == list(english)
    assert {key: find_fields(text) for key, text in texts.items()} == {
        key: find_fields(text) for key, text in english.items()
    }


def test_each_text_is_used() -> None:
    """A template, a script or a module of the page names each key, or composes it of a state, a reason or a kind."""
    files = (*PAGE.glob("templates/*.html"), *PAGE.glob("static/*.js"), *PAGE.glob("*.py"))
    code = "\n".join(file.read_text(encoding="utf-8") for file in files)
    used = set(re.findall(r"\b(?:t|texts)\.(\w+)", code)) | set(re.findall(r'"(\w+)"', code))
    used |= {f"{subject}_{part}" for subject in SUBJECTS for part in ("short", "means", "not", "do")}
    used |= {f"none_{choice}" for choice in (*STATES, "mine", "changed", "search", "day")} | {*MARKS, *get_args(Reason)}
    assert set(read_texts("en")) - used == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_answer_has_words(language: Language) -> None:
    """Each state, reason and kind of interval has words in each language, with no number missing."""
    words = Words(read_texts(language))
    kinds = ("over_time", "at_times", "hot_spots")
    starts = (to_datetime(DAY), to_datetime(0), to_datetime(DAY - HOUR), None)  # a moment, windows, an unknown window
    for state, kind, most, least, start in itertools.product(REASONS, kinds, (None, 12), (0, 3), starts):
        if kind == "hot_spots" and (state != "noisy_count" or most is None or least):
            continue
        if state in {"safe", "noisy_count"} and most is None and not least:
            continue
        if state == "bounded" and (most is None or least):
            continue
        threshold = None if kind == "hot_spots" else 9
        about = About("noon", kind, start, to_datetime(DAY), threshold, to_datetime(0))
        for reason in REASONS[state]:
            answer = Answer(state, reason, 0, 10, most, least, about)
            alarm = replace(answer, state="noisy_count", reason="noisy")
            described = [
                words.summarize(answer, reason),
                *words.list_lines(answer, reason, []),
                *words.list_lines(answer, reason, [alarm] if most or least else []),
                *(text for _title, text in words.list_sections(answer, reason)),
            ]
            assert all(text and "None" not in text and "{" not in text for text in described)
            assert words.phrase_question(about)


@pytest.mark.promise(41)
@pytest.mark.parametrize("language", LANGUAGES)
def test_upper_bounds_name_as_of(language: Language) -> None:
    """Reports may come later, so an upper bound says until when the reports count.

    Beside a lower bound, a noisy count counts only the visits before later reports, and the few words say so.
    """
    texts = read_texts(language)
    later = {"en": "before later reports", "de": "vor späteren Meldungen", "ja": "後の報告より前"}
    for key in ("safe_means", "noisy_count_means", "between_means"):
        assert "as_of" in find_fields(texts[key]), key
    assert later[language] in texts["between_short"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_hot_spots_have_other_advice(language: Language) -> None:
    """A hot spot may have a count of 1: it has other advice than an alarm."""
    words, time = Words(read_texts(language)), to_datetime(0)
    spot = Answer("noisy_count", "noisy", 0, 10, 1, 0, About("busiest", "hot_spots", time, time))
    alarm = Answer("noisy_count", "noisy", 0, 10, 12, 0, About("noon", "at_times", time, time, 9))
    assert words.list_sections(spot, "noisy")[1:] != words.list_sections(alarm, "noisy")[1:]
    assert words.list_sections(spot, "noisy")[2][1] == read_texts(language)["hot_spot_do"]


def test_settings_replace_texts() -> None:
    """The title, single texts and the share of reports in time come from the settings; the other texts stay."""
    settings = PageSettings(title="Town", counted_percent=71, texts={"de": {"safe": "Unbedenklich"}})
    texts = build_texts(settings)
    assert (texts["en"]["title"], texts["de"]["safe"], texts["en"]["safe"]) == (
        "Town",
        "Unbedenklich",
        "Below alarm level",
    )
    assert all("71" in texts[language]["safe_not"] for language in LANGUAGES)
