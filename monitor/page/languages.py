"""The texts of the page in each language, and the description of answers with them, as in `static/words.js`."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from importlib import resources
from typing import Final
from zoneinfo import ZoneInfo

from monitor.client.answer_types import About, Answer
from monitor.config.sections import LANGUAGES, Language, PageSettings
from monitor.errors import ConfigError, Problem
from monitor.page.current_places import Expected, find_likely_least
from monitor.time.instants import DAY, format_instant, to_datetime, to_instant

Texts = Mapping[str, str]

MONTHS: Final = 12


@cache
def read_texts(language: Language) -> Texts:
    """Return the texts of the package in a language, by key."""
    file = resources.files("monitor.page") / "texts" / f"{language}.json"
    texts: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return texts


def build_texts(settings: PageSettings, noise: Mapping[str, object] | None = None) -> dict[Language, Texts]:
    """Return the texts of all languages. `noise`: what they say about alarms that only noise raises, if it is known.

    Raises:
        ConfigError: `page.texts` has an unknown key, or a text with a placeholder that this key does not have.
    """
    problems = tuple(_find_problems(settings))
    if problems:
        raise ConfigError("page.texts", problems)
    return {language: _build_texts(language, settings, noise) for language in LANGUAGES}


def _build_texts(language: Language, settings: PageSettings, noise: Mapping[str, object] | None) -> Texts:
    title = {} if settings.title is None else {"title": settings.title}
    texts = {**read_texts(language), **title, **settings.texts.get(language, {})}
    if settings.counted_percent is not None:
        texts["safe_not"] += texts["safe_counted"].format(percent=settings.counted_percent)
    if noise is not None:
        texts["just_above_means"] += texts["just_above_noise"].format(**noise)
    return texts


def _find_problems(settings: PageSettings) -> Iterator[Problem]:
    for language, replaced in settings.texts.items():
        known = read_texts(language)
        for key, text in replaced.items():
            name = f"page.texts.{language}.{key}"
            if key not in known:
                yield Problem(name, repr(text[:80]), "a key of page/texts/en.json", "Correct or remove it.")
            elif not _is_usable(text, known[key]):
                fields = sorted(_find_placeholders(known[key]))
                wanted = ", ".join(f"{{{field}}}" for field in fields) or "no placeholder"
                yield Problem(name, repr(text[:80]), f"a text with these placeholders or fewer: {wanted}")
            elif key == "months" and len(text.split()) != MONTHS:
                yield Problem(name, repr(text[:80]), "the names of twelve months, separated by spaces")


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


_UNITS: Final = (("days", 1_440), ("hours", 60), ("minutes", 1))
"""The units of a window, with their minutes. A window of one day is "24 hours": no text has a singular."""


class Words:
    """The words of one language. `reason` replaces the reason of an answer.

    `timezone`: that of all times. `now`: the latest as_of, an instant; some advice holds only for a day.
    `expected`: how late reports come, if this is known.
    """

    def __init__(
        self, texts: Texts, timezone: str = "UTC", now: int | None = None, expected: Expected | None = None
    ) -> None:
        self.texts, self.timezone, self._expected = texts, timezone, expected
        self._zone, self._now = ZoneInfo(timezone), now

    def format_time(self, time: datetime | int | None) -> str:
        """Return a time or an instant as text in the time zone, such as `6 Jan 2026, 14:00`; a dash for None."""
        if time is None:
            return "–"
        moment = (to_datetime(time) if isinstance(time, int) else time).astimezone(self._zone)
        month, clock = self.texts["months"].split()[moment.month - 1], f"{moment:%H:%M}"
        return self.texts["date"].format(day=moment.day, month=month, year=moment.year, time=clock)

    def list_lines(self, leading: Answer, reason: str, alarms: Sequence[Answer]) -> list[str]:
        """Return the lines below the name of a place: the alarms that still count, and the answer that counts now."""
        lines = [self._fill_row("alarm", alarm) for alarm in alarms]
        if leading.state in {"unknown", "paused"}:
            lines.append(self.summarize(leading, reason))
        elif not alarms:
            lines.append(self._fill_row("row", leading))
        elif leading.state != "noisy_count":
            lines.append(self._fill_row("since_then" if _continues(leading, alarms[-1]) else "latest", leading))
        return lines

    def _fill_row(self, key: str, answer: Answer) -> str:
        end = self.format_time(answer.about.end if answer.about else None)
        return self._fill(key, answer, answer.reason, end=end, what=self.summarize(answer, answer.reason))

    def label(self, mark: str, answer: Answer) -> str:
        """Return what the list calls a mark: a word, or of a place with a number only this number."""
        return self.texts["at_most"].format(most=answer.count_at_most) if mark == "bounded" else self.texts[mark]

    def summarize(self, answer: Answer, reason: str) -> str:
        """Return a few words: the answer, or why there is none."""
        if answer.state == "unknown":
            return self.texts[reason]
        return self._fill(self._choose(f"{answer.state}_short", "_short", answer), answer, reason)

    def list_sections(self, answer: Answer, reason: str) -> list[tuple[str, str]]:
        """Return what an answer means, what it does not mean, and what to do, each with its title."""
        state, about = answer.state, answer.about
        named = state == "noisy_count" and about is not None and about.kind == "hot_spots"
        kind = "hot_spot" if named else state  # a hot spot is no alarm: it is compared with no threshold
        advice = "noisy_count_do" if kind == "below_since" else f"{kind}_do"  # the alarm still counts
        keys = (self._choose(f"{kind}_means", "_means", answer), f"{kind}_not", advice)
        titles = (self.texts["means"], self.texts["not"], self.texts["do"])
        return [(title, self._fill(key, answer, reason)) for title, key in zip(titles, keys, strict=True)]

    def phrase_question(self, about: About) -> str:
        """Return what an answer is about: a time or period, or that a place is a hot spot. No monitor is named."""
        return self.texts["hot_spots_monitor"] if about.kind == "hot_spots" else self._describe_time(about)

    @staticmethod
    def _choose(key: str, suffix: str, answer: Answer) -> str:
        """Return the key of a text: an alarm since an earlier one, or with a lower bound, has other words."""
        if answer.state == "noisy_count" and answer.since_at_most is not None:
            return f"fresh_count{suffix}"
        if answer.state != "noisy_count" or not answer.count_at_least:
            return key
        return f"at_least{suffix}" if answer.count_at_most is None else f"between{suffix}"

    def _describe_publication(self, answer: Answer) -> str:
        """Return when an alarm was published, if this is not its moment, and whether that is today."""
        if answer.as_of is None or answer.about is None:
            return ""
        is_later = answer.as_of != to_instant(answer.about.end)
        published = self.texts["published"].format(as_of=self.format_time(answer.as_of)) if is_later else ""
        is_new = self._now is not None and self._find_day(answer.as_of) == self._find_day(self._now)
        return published + (self.texts["new_today"] if is_new else "")

    def _find_day(self, instant: int) -> date:
        return to_datetime(instant).astimezone(self._zone).date()

    def _advise_to_avoid(self, about: About | None) -> str:
        """Return the advice that holds only for a day after the moment of an alarm; empty later."""
        is_old = about is not None and self._now is not None and self._now - to_instant(about.end) > DAY
        return "" if is_old else self.texts["avoid"]

    def _describe_reported(self, answer: Answer) -> str:
        """Return which share of the reports has come, if a place is safe only so far."""
        percent = None if self._expected is None else self._expected.find_percent(answer)
        return "" if percent is None else self.texts["reported"].format(percent=percent)

    def _describe_likely(self, answer: Answer) -> str:
        """Return the range in which the number is with a chance of 95 %; empty if it is not known."""
        least = find_likely_least(answer)
        return "" if least is None else self.texts["likely"].format(least=least, most=answer.count_at_most)

    def _fill(self, key: str, answer: Answer, reason: str, **more: str) -> str:
        about = answer.about
        since = about.counted_since if about else None
        return self.texts[key].format(
            since=self.format_time(since) if since else self.texts["earlier_alarm"],
            fresh=answer.since_at_most,
            in_all=self._describe_all("in_all", answer),
            whole=self._describe_all("whole", answer),
            strength=self._describe_strength(answer),
            published=self._describe_publication(answer),
            avoid=self._advise_to_avoid(about),
            likely=self._describe_likely(answer),
            reported=self._describe_reported(answer),
            threshold=about.threshold if about else None,
            most=answer.count_at_most,
            least=answer.count_at_least,
            resumes=self.format_time(about.resumes_at if about else None),
            as_of=self.format_time(answer.as_of),
            before=self._describe_before(about),
            level=self.texts["level"].format(threshold=about.threshold) if about and about.threshold else "",
            when=self._describe_time(about) if about else "",
            reason=self.texts[reason] if answer.state == "unknown" else "",
            **more,
        )

    def _describe_all(self, key: str, answer: Answer) -> str:
        """Return the certain upper bound of the whole window of a count since an alarm. Empty if there is none."""
        if answer.since_at_most is None or answer.count_at_most is None:
            return ""
        when = self._describe_time(answer.about) if answer.about else ""
        return self.texts[key].format(most=answer.count_at_most, before=self._describe_before(answer.about), when=when)

    def _describe_strength(self, answer: Answer) -> str:
        """Return whether noise alone could have raised an alarm. Empty if this is not known."""
        if answer.strength is None or answer.p_value is None or answer.about is None:
            return ""
        percent = math.ceil(100 * answer.p_value)
        return self.texts[f"{answer.strength}_means"].format(threshold=answer.about.threshold, percent=percent)

    def _describe_time(self, about: About) -> str:
        end = self.format_time(about.end)
        if about.start == about.end:
            return self.texts["at_time"].format(end=end)
        return self._describe_window("in_window", about) or self.texts["in_period"].format(end=end)

    def _describe_before(self, about: About | None) -> str:
        """Return at which moment or in which time before it people are counted. Empty if this is not known."""
        if about is not None and about.start is not None and about.start == about.end:
            return self.texts["at_moment"]
        return self._describe_window("window_before", about)

    def _describe_window(self, key: str, about: About | None) -> str:
        """Return a text with the length of a window in days, hours or minutes. Empty without a known window."""
        if about is None or about.start is None or about.start == about.end:
            return ""
        minutes = round((about.end - about.start).total_seconds() / 60)
        whole = (one for one in _UNITS if minutes % one[1] == 0 and minutes > one[1])
        unit, size = next(whole, _UNITS[-1])
        length = self.texts[unit].format(count=minutes // size)
        return self.texts[key].format(length=length, end=self.format_time(about.end))


def _continues(answer: Answer, alarm: Answer) -> bool:
    """Return whether an answer counts what was reported since this alarm, so that "since then" means its moment."""
    if answer.state != "below_since" or answer.about is None or alarm.about is None:
        return False
    return answer.about.counted_since == alarm.about.end


def format_machine_time(instant: int | None) -> str:
    """Return an instant for the attribute `datetime` of HTML; empty for None."""
    return "" if instant is None else format_instant(instant)
