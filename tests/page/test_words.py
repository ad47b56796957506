"""The page words a count since an alarm equally on the server and in the browser, which Node.js stands for here."""

from __future__ import annotations

import json
import math
import re
import subprocess
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest

from monitor.client.answer_types import About, Answer
from monitor.config.sections import LANGUAGES, Language
from monitor.kinds.report_delays import ReportDelays
from monitor.page.current_places import Expected, find_likely_least
from monitor.page.languages import Words, read_texts
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
