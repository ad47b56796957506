"""Describes statements in the words of a language. `static/words.js` does the same in the browser."""

from __future__ import annotations

from typing import NamedTuple

from monitor.page.statements import About, Statement
from monitor.page.texts import Texts
from monitor.public.instants import format_instant, to_datetime


class Section(NamedTuple):
    """A part of the description of a statement: its title and its text."""

    title: str
    text: str


def format_time(instant: int | None) -> str:
    """Return an instant as text in UTC, such as `2026-01-06 14:00`; a dash for None."""
    return "–" if instant is None else f"{to_datetime(instant):%Y-%m-%d %H:%M}"


class Words:
    """The words of one language."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts

    def short(self, statement: Statement) -> str:
        """Return a few words: the answer, or why there is none."""
        if statement.state == "unknown":
            return self.texts[statement.reason]
        return self._fill(self._choose(f"{statement.state}_short", "_short", statement), statement)

    def sections(self, statement: Statement) -> tuple[Section, Section, Section]:
        """Return what a statement means, what it does not mean, and what to do."""
        state = statement.state
        keys = (self._choose(f"{state}_means", "_means", statement), f"{state}_not", f"{state}_do")
        titles = (self.texts["means"], self.texts["not"], self.texts["do"])
        return tuple(Section(title, self._fill(key, statement)) for title, key in zip(titles, keys, strict=True))  # type: ignore[return-value]  # three of each

    def question(self, about: About) -> str:
        """Return what a monitor asks."""
        return self.texts[f"{about.kind}_monitor"].format(name=about.monitor)

    @staticmethod
    def _choose(key: str, suffix: str, statement: Statement) -> str:
        """Return the key of a text: an alarm with a lower bound has other words."""
        if statement.state != "noisy_count" or not statement.count_at_least:
            return key
        return f"at_least{suffix}" if statement.count_at_most is None else f"between{suffix}"

    def _fill(self, key: str, statement: Statement) -> str:
        about = statement.about or About("", "none")
        when = self.texts["at_time" if about.start == about.end else "in_window"]
        start, end = format_time(about.start), format_time(about.end)
        return self.texts[key].format(
            threshold=about.threshold,
            most=statement.count_at_most,
            least=statement.count_at_least,
            resumes=format_time(about.resumes_at),
            as_of=format_time(statement.as_of),
            when=when.format(start=start, end=end),
            reason=self.texts[statement.reason] if statement.state == "unknown" else "",
        )


def machine_time(instant: int | None) -> str:
    """Return an instant for the attribute `datetime` of HTML; empty for None."""
    return "" if instant is None else format_instant(instant)
