"""The texts of the page, and the words of counts, which server and browser (Node.js stands for it) choose equally."""

from __future__ import annotations

import itertools
import json
import math
import re
import string
import subprocess
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from monitor.client.answer_types import About, Answer, Reason, State, Strength
from monitor.config.sections import LANGUAGES, Language, PageSettings
from monitor.kinds.report_delays import ReportDelays
from monitor.page.current_places import MARKS, STATES, Expected, find_likely_least
from monitor.page.languages import Words, build_texts, read_texts
from monitor.page.write_json_csv_geojson import describe_answer
from monitor.time.instants import DAY, HOUR, format_instant, to_datetime

SCRIPT: Final = Path(__file__).parents[2] / "monitor" / "page" / "static" / "words.js"
PROGRAM: Final = """
const { Words } = await import(process.argv[1]);
const [language, texts, now, answers, since] = JSON.parse(process.argv[2]);
const words = new Words(texts, language, "Asia/Tokyo");
words.now = now;
const label = (answer) => words.label(answer.state === "bounded" ? "bounded" : "so_far", answer);
const listTexts = (answer) => [...words.lines(answer, []), ...words.sections(answer).flat()];
const describe = (answer) => [label(answer), words.short(answer), ...listTexts(answer)];
const [below, ...alarms] = since;
console.log(JSON.stringify([answers.map(describe), alarms.map((alarm) => words.lines(below, [alarm]))]));
"""
START, SINCE, END = (to_datetime(instant) for instant in (DAY, 2 * DAY, 3 * DAY))
EXPECTED: Final = Expected(ReportDelays((0,), (Fraction(1, 8),)), Fraction(9, 10))
NOW: Final = 3 * DAY + 2 * HOUR
ABOUT: Final = About("places", "over_time", START, END, 60, counted_since=SINCE)
PLAIN: Final = About("places", "over_time", START, END, 60)
ANSWERS: Final = {
    "below, with a bound of the window": Answer(
        "below_since", "below_threshold", 3 * DAY, 4 * DAY, 120, about=ABOUT, since_at_most=59
    ),
    "below, without one": Answer("below_since", "below_threshold", 3 * DAY, 4 * DAY, about=ABOUT, since_at_most=59),
    "an alarm, with a bound of the window": Answer(
        "noisy_count", "noisy", 3 * DAY, 4 * DAY, 125, about=ABOUT, since_at_most=64
    ),
    "an alarm whose record was not read": Answer(
        "noisy_count", "noisy", 3 * DAY, 4 * DAY, about=About("places", "over_time", None, END), since_at_most=64
    ),
    "an alarm far above": Answer(
        "noisy_count", "noisy", 3 * DAY, 4 * DAY, 90, about=PLAIN, p_value=1e-9, strength="far_above"
    ),
    "an alarm just above": Answer(
        "noisy_count", "noisy", 3 * DAY, 4 * DAY, 64, about=PLAIN, p_value=0.064, strength="just_above"
    ),
    "an alarm that was published later": Answer(
        "noisy_count", "noisy", 3 * DAY, 4 * DAY, 64, about=About("noon", "at_times", SINCE, SINCE, 60)
    ),
    "safe so far": Answer("safe", "below_threshold", 3 * DAY, 4 * DAY, 59, about=About("m", "at_times", END, END, 60)),
    "an upper bound": Answer(
        "bounded", "no_threshold", 3 * DAY, 4 * DAY, 90, about=About("curve", "upper_bound", START, END)
    ),
    "safe": Answer("safe", "below_threshold", 3 * DAY, 4 * DAY, 59, about=PLAIN),
}


BELOW: Final = ANSWERS["below, with a bound of the window"]
ALARMS: Final = tuple(  # the one since which it counts, and another one
    Answer("noisy_count", "noisy", 2 * DAY, 4 * DAY, 70, about=About("places", "over_time", START, end, 60))
    for end in (SINCE, END)
)


def describe(words: Words, answer: Answer) -> list[str]:
    sections = words.list_sections(answer, answer.reason)
    return [
        words.label("bounded" if answer.state == "bounded" else "so_far", answer),
        words.summarize(answer, answer.reason),
        *words.list_lines(answer, answer.reason, []),
        *(text for section in sections for text in section),
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_browser_and_server_agree(node: str, language: Language) -> None:
    """A count since an alarm has the same words in the page's script as on the server, in each language."""
    texts = read_texts(language)
    described = [
        [describe_answer(answer, answer.reason, EXPECTED.find_percent(answer)) for answer in each]
        for each in (ANSWERS.values(), (BELOW, *ALARMS))
    ]
    sent: list[Any] = [language, dict(texts), format_instant(NOW), *described]
    command = [node, "--input-type=module", "--eval", PROGRAM, SCRIPT.as_uri(), json.dumps(sent)]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env={"TZ": "America/New_York"}
    )
    answers, lines = json.loads(result.stdout)
    words = Words(texts, "Asia/Tokyo", NOW, EXPECTED)
    assert answers == [describe(words, answer) for answer in ANSWERS.values()]
    assert lines == [words.list_lines(BELOW, BELOW.reason, [alarm]) for alarm in ALARMS]


@pytest.mark.promise(2)
@pytest.mark.parametrize("language", LANGUAGES)
def test_count_since_an_alarm_is_no_all_clear(language: Language) -> None:
    """Below the threshold since an alarm has other words than safe, says since when, and advises as for the alarm."""
    words, answer = Words(read_texts(language)), ANSWERS["below, with a bound of the window"]
    below, safe = describe(words, answer), describe(words, ANSWERS["safe"])
    assert words.format_time(SINCE) in below[1]
    assert "120" in below[1]
    assert read_texts(language)["safe_do"] in safe
    assert read_texts(language)["safe_do"] not in below
    assert below[1] != safe[1]


@pytest.mark.parametrize("language", LANGUAGES)
def test_alarm_says_how_strong_it_is(language: Language) -> None:
    """An alarm just above the level names the chance that noise alone raises it, rounded up; one far above does not."""
    words = Words(read_texts(language))
    just, far = ("".join(describe(words, ANSWERS[f"an alarm {strength} above"])) for strength in ("just", "far"))
    assert re.search(r"\b7 ?%", just)
    assert read_texts(language)["just_above_means"].partition("{")[0] not in far
    assert far.count(read_texts(language)["far_above_means"]) == 1


@pytest.mark.promise(2)
@pytest.mark.parametrize("language", LANGUAGES)
def test_since_then_is_since_the_alarm_above(language: Language) -> None:
    """Below the alarm since which an answer counts stands "since then", with the threshold and the bound of all."""
    texts = read_texts(language)
    words, start = Words(texts), texts["since_then"].partition("{")[0]
    alarm, since = words.list_lines(BELOW, BELOW.reason, [ALARMS[0]])
    assert words.format_time(SINCE) in alarm
    assert "70" in alarm
    assert since.startswith(start)
    assert "60" in since
    assert "120" in since
    other = words.list_lines(BELOW, BELOW.reason, [ALARMS[1]])[1]
    assert not other.startswith(start)
    assert words.format_time(SINCE) in other


@pytest.mark.parametrize("language", LANGUAGES)
def test_alarm_says_when_published(language: Language) -> None:
    """An alarm names when it was published, if that is later than its moment, and is new on that day of the place."""
    texts, alarm = read_texts(language), ANSWERS["an alarm that was published later"]
    same_day, next_day = (
        Words(texts, "Asia/Tokyo", 3 * DAY + hours * HOUR).list_lines(alarm, alarm.reason, [alarm])[0]
        for hours in (14, 15)  # Tokyo is nine hours ahead
    )
    published = texts["published"].format(as_of=Words(texts, "Asia/Tokyo").format_time(3 * DAY))
    assert same_day.endswith(published + texts["new_today"])
    assert next_day.endswith(published)
    assert texts["published"].partition("{")[0] not in "".join(Words(texts).list_lines(ALARMS[0], "noisy", [ALARMS[0]]))


@pytest.mark.parametrize("language", LANGUAGES)
def test_advice_to_avoid_ends(language: Language) -> None:
    """A day after the moment of an alarm, nobody is advised to avoid the place for now."""
    texts, alarm = read_texts(language), ANSWERS["an alarm far above"]
    for now, advised in ((4 * DAY, True), (4 * DAY + 1, False)):
        assert (texts["avoid"] in "".join(describe(Words(texts, now=now), alarm))) is advised


@pytest.mark.parametrize("language", LANGUAGES)
def test_bound_is_called_by_its_number(language: Language) -> None:
    """A place with an upper bound alone has its number in place of a state, which "upper bound" would not explain."""
    words, bound = Words(read_texts(language)), ANSWERS["an upper bound"]
    assert words.label("bounded", bound) == read_texts(language)["at_most"].format(most=90)


def test_likely_range_only_far_above() -> None:
    """An alarm far above the level has the number that its count reaches with 95 %, from ε; others have none."""
    far = Answer("noisy_count", "noisy", 0, DAY, 755, about=PLAIN, p_value=math.exp(-0.2 * 696), strength="far_above")
    assert find_likely_least(far) == 741
    assert "741" in "".join(describe(Words(read_texts("en")), far))
    for change in ({"strength": "just_above"}, {"count_at_least": 3}, {"since_at_most": 755}, {"p_value": None}):
        assert find_likely_least(replace(far, **change)) is None


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
