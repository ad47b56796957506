"""Describes answers in the words of a language. `static/words.js` does the same in the browser."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from monitor.contracts.instants import format_instant, to_datetime
from monitor.tools.client.known import About, Answer
from monitor.tools.page.texts import Texts


class Section(NamedTuple):
    """A part of the description of an answer: its title and its text."""

    title: str
    text: str


def format_time(time: datetime | int | None) -> str:
    """Return a time or an instant as text in UTC, such as `2026-01-06 14:00`; a dash for None."""
    moment = to_datetime(time) if isinstance(time, int) else time
    return "–" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


class Words:
    """The words of one language. `reason` replaces the reason of an answer."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts

    def summarize(self, answer: Answer, reason: str) -> str:
        """Return a few words: the answer, or why there is none."""
        if answer.state == "unknown":
            return self.texts[reason]
        return self._fill(self._choose(f"{answer.state}_short", "_short", answer), answer, reason)

    def list_sections(self, answer: Answer, reason: str) -> list[Section]:
        """Return what an answer means, what it does not mean, and what to do."""
        state, about = answer.state, answer.about
        named = state == "noisy_count" and about is not None and about.kind == "hot_spots"
        kind = "hot_spot" if named else state  # a hot spot is no alarm: it is compared with no threshold
        keys = (self._choose(f"{state}_means", "_means", answer), f"{kind}_not", f"{kind}_do")
        titles = (self.texts["means"], self.texts["not"], self.texts["do"])
        return [Section(title, self._fill(key, answer, reason)) for title, key in zip(titles, keys, strict=True)]

    def phrase_question(self, about: About) -> str:
        """Return what a monitor asks."""
        return self.texts[f"{about.kind}_monitor"].format(name=about.monitor)

    @staticmethod
    def _choose(key: str, suffix: str, answer: Answer) -> str:
        """Return the key of a text: an alarm with a lower bound has other words."""
        if answer.state != "noisy_count" or not answer.count_at_least:
            return key
        return f"at_least{suffix}" if answer.count_at_most is None else f"between{suffix}"

    def _fill(self, key: str, answer: Answer, reason: str) -> str:
        about = answer.about
        return self.texts[key].format(
            threshold=about.threshold if about else None,
            most=answer.count_at_most,
            least=answer.count_at_least,
            resumes=format_time(about.resumes_at if about else None),
            as_of=format_time(answer.as_of),
            when=self._describe_time(about) if about else "",
            reason=self.texts[reason] if answer.state == "unknown" else "",
        )

    def _describe_time(self, about: About) -> str:
        when = self.texts["at_time" if about.start == about.end else "in_window"]
        return when.format(start=format_time(about.start), end=format_time(about.end))


def format_machine_time(instant: int | None) -> str:
    """Return an instant for the attribute `datetime` of HTML; empty for None."""
    return "" if instant is None else format_instant(instant)
