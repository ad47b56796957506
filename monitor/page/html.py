"""Writes the page as HTML that works without JavaScript: every place, its state, and what that means."""

from __future__ import annotations

import hashlib
import json
import math
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from monitor.client.answer_types import Answer, State
from monitor.config.charges_of_monitors import compute_charges, compute_timing
from monitor.config.registry import Location
from monitor.config.sections import LANGUAGES, Language
from monitor.config.whole_config import Config
from monitor.kinds.all_kinds import find_words
from monitor.operate.check.belief_picture import Labels, draw_beliefs
from monitor.page.current_places import MARKS, STATES, Expected, Place, Recount, distinguish
from monitor.page.feed import name_feed, write_feed
from monitor.page.history import Periods
from monitor.page.languages import Texts, Words, format_machine_time
from monitor.page.place_history import describe_period, draw_curves
from monitor.page.scripts_and_styles import Static
from monitor.page.write_changed_files import name_place
from monitor.privacy.alarm_chances import compute_belief, find_most_noise
from monitor.privacy.epsilon import format_epsilon
from monitor.time.instants import SECOND
from monitor.values.belief_about_one_person import PRIORS

SECONDS: Final = (120, 60, 30, 10, 1)
"""How long the list may stay, in seconds. Without JavaScript the page reloads each minute."""

STYLE: Final = (
    "@keyframes hide{to{visibility:hidden}}@keyframes tell{to{visibility:visible;height:auto}}"
    ".late{visibility:hidden;height:0;margin:0;overflow:hidden}"
    ".served #list,.served #counts{animation:hide 0s forwards}.served .late{animation:tell 0s forwards}"
) + "".join(
    f".left-{seconds} #list,.left-{seconds} #counts,.left-{seconds} .late{{animation-delay:{seconds}s}}"
    for seconds in reversed(SECONDS)
)
"""The content of the page's style element: it hides the list when its answers expire, if no script has replaced it.

A style does this, because it works when the script cannot be read. It is inline, because a server of another version
has neither the script nor the style sheet that the page names.
"""

_STYLE_SOURCE: Final = f"'sha256-{b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
POLICY: Final = (
    f"default-src 'self'; style-src 'self' {_STYLE_SOURCE}; base-uri 'none'; form-action 'none'; object-src 'none'"
)
"""The Content-Security-Policy that each page states itself, so that it holds on any web server."""
PAGE_SIZE: Final = 100
_STYLE: Final = Markup(STYLE)  # noqa: S704  # a constant


def round_seconds_left(left: int) -> int:
    """Return the greatest of `SECONDS` that is not above `left` (microseconds); the least one if all are above."""
    return next((seconds for seconds in SECONDS if seconds * SECOND <= left), SECONDS[-1])


Described = dict[tuple[object, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class View:
    """One part of the list: its language, and its number from 1. `first`: the start page, which has no own language."""

    language: Language
    page: int = 1
    first: bool = False

    @property
    def name(self) -> str:
        """The name of its file."""
        if self.first:
            return "index.html"
        return f"{self.language}.html" if self.page == 1 else f"{self.language}-{self.page}.html"


@dataclass(frozen=True, slots=True)
class Shown:
    """What all views show: the places in the order of the list, the latest as_of, the first expiry and the recount.

    `counts`: the number of places of each level; it is counted once, because a large area has hundreds of views.
    The list may be shown for `left` seconds (one of `SECONDS`). `described`: the answers in words, by language.
    """

    places: Sequence[Place]
    counts: Mapping[State, int]
    as_of: int | None
    expires: int
    recount: Recount | None
    left: int
    described: dict[Language, Described] = field(default_factory=dict)


def sort_places(places: Iterable[Place]) -> list[Place]:
    """Return the places in the order of the list: the strongest alarms first, of these the latest, then by name."""
    return sorted(places, key=lambda place: (MARKS.index(place.mark), -place.alarmed_at, place.name.casefold()))


def list_views(places: int, start: Language) -> list[View]:
    """Return all parts of the list in all languages, those that visitors see first at the beginning.

    `start`: the language of the start page.
    """
    numbers = range(1, count_pages(places) + 1)
    views = [View(language, number) for number in numbers for language in LANGUAGES]
    return [View(start, first=True), *views]


def count_pages(places: int) -> int:
    """Return the number of pages of the list."""
    return max(1, -(-places // PAGE_SIZE))


def describe_promise(config: Config) -> Mapping[str, Any]:
    """Return what the page says about ε: `stated`, `worst`, and `beliefs` before and after in percent.

    `exact` is the stated ε as a number.
    """
    stated = config.privacy.epsilon
    worst = sum((charge.amount for charge in compute_charges(config)), Fraction(0))
    return {
        "exact": stated,
        "stated": format_epsilon(stated),
        "worst": format_epsilon(worst),
        "beliefs": [(round(100 * one), math.ceil(100 * compute_belief(stated, one))) for one in PRIORS],
    }


def count_noise(config: Config, places: int) -> Mapping[str, object]:
    """Return at how many places noise alone shows an alarm at any time, on average and at most, of how many.

    That many it is if each place has almost half of the threshold, as `check` computes it.
    """
    found = [find_words(one, compute_timing(config), places) for one in config.monitors]
    noisy = sum(one.count_in_sight(find_most_noise(one.threshold)) for one in found if one.threshold is not None)
    return {"noisy": min(places, math.ceil(noisy)), "places": places}


def find_timezone(config: Config) -> str:
    """Return the time zone of all times on the page."""
    zones = (config.page.timezone, *(one.find_timezone() for one in config.monitors))
    return next(filter(None, zones), "UTC")


class Html:
    """The templates of the page. `setup` is what the script needs to know, `promise` what the page says about ε.

    `language`: that of the start page, and of the page and the feed of each place.
    """

    def __init__(
        self,
        texts: Mapping[Language, Texts],
        setup: Mapping[str, Any],
        static: Static,
        promise: Mapping[str, Any],
        language: Language = "en",
        expected: Expected | None = None,
    ) -> None:
        environment = Environment(
            loader=PackageLoader("monitor.page"),
            autoescape=select_autoescape(default=True),
            trim_blocks=False,
            lstrip_blocks=True,
        )
        self._template, self._place = environment.get_template("page.html"), environment.get_template("place.html")
        self._texts, self._setup, self._static, self._promise = texts, setup, static, promise
        self.language, self._expected = language, expected
        scripts = {language: _write_script(texts[language]) for language in LANGUAGES}
        digest = hashlib.sha256(b"".join(scripts.values())).hexdigest()[:16]
        self._names = {language: f"static/{digest}/{language}.js" for language in LANGUAGES}
        self.scripts: Mapping[str, bytes] = {self._names[language]: script for language, script in scripts.items()}

    def get_words(self, language: Language, now: int | None) -> Words:
        """Return the words of a language at an instant: the latest as_of."""
        return Words(self._texts[language], self._setup["timezone"], now, self._expected)

    def write(self, view: View, shown: Shown) -> bytes:
        """Return a part of the list as a page."""
        texts = self._texts[view.language]
        words = self.get_words(view.language, shown.as_of)
        start, known = (view.page - 1) * PAGE_SIZE, shown.described.setdefault(view.language, {})
        return self._template.render(
            t=texts,
            language=view.language,
            languages=[{"code": code, "name": self._texts[code]["language"]} for code in LANGUAGES],
            feed=name_feed(view.language),
            policy=POLICY,
            style=_STYLE,
            left=shown.left,
            build=self._static.build,
            modules=self._static.modules,
            as_of=words.format_time(shown.as_of) if shown.as_of else None,
            as_of_machine=format_machine_time(shown.as_of),
            known_until=words.format_time(shown.expires),
            states=STATES,
            counts=shown.counts,
            places=[_describe(place, words, known) for place in shown.places[start : start + PAGE_SIZE]],
            page=view.page,
            pages=count_pages(len(shown.places)),
            previous=View(view.language, view.page - 1).name,
            next=View(view.language, view.page + 1).name,
            audit=_write_audit_line(words, shown.recount),
            paid=texts["epsilon_paid"].format(epsilon=shown.recount.epsilon_at_most) if shown.recount else "",
            promise=self._promise,
            timezone=words.timezone,
            texts=self._names[view.language],
            picture=self._draw_beliefs(texts),
            public_key=self._setup.get("publicKey"),
            known=shown.counts["unknown"] < len(shown.places),  # with a forged answer, every place is unknown
            setup=self._write_setup(view),
        ).encode()

    def write_feed(self, language: Language, name: str, places: Sequence[Place], about: Place | None = None) -> bytes:
        """Return the feed of the alarms in a language. `name`: that of the monitored area. `about`: its only place."""
        return write_feed(language, self.get_words(language, None), name, places, about)

    def write_place(self, location: Location, periods: Periods) -> bytes:
        """Return the page of a place: what was published about it. It says nothing of the present, so it stays true."""
        texts, words = self._texts[self.language], self.get_words(self.language, None)
        name = name_place(location.id)
        return self._place.render(
            t=texts,
            language=self.language,
            policy=POLICY,
            up="../" * name.count("/"),
            build=self._static.build,
            id=location.id,
            name=location.name or location.id,
            feed=f"{name.rpartition('/')[2]}.atom",
            timezone=words.timezone,
            curves=draw_curves(periods, words),
            periods=[describe_period(period, words) for period in periods],
        ).encode()

    def _draw_beliefs(self, texts: Texts) -> Markup:
        labels = Labels(texts["belief"].format(**self._promise), texts["belief_before"], texts["belief_after"])
        return Markup(draw_beliefs(self._promise["exact"], labels))  # noqa: S704  # its words are escaped

    def _write_setup(self, view: View) -> Markup:
        about = {"language": view.language, "first": view.first, "texts": self._names[view.language]}
        setup = {**self._setup, **about}
        # "<" could end the element; in a JSON string it may be written as an escape.
        return Markup(json.dumps(setup, ensure_ascii=False).replace("<", "\\u003c"))  # noqa: S704  # escaped above


def _write_script(texts: Texts) -> bytes:
    """Return the texts of a language as a module of the script, which browsers keep."""
    return f"export default {json.dumps(texts, ensure_ascii=False)};\n".encode()


def _describe(place: Place, words: Words, known: Described) -> dict[str, Any]:
    """Describe a place. Most places have the same answers, so each combination of answers is described once."""
    answers = tuple(distinguish(answer) for answer in (place.leading, *place.answers))
    if answers not in known:
        known[answers] = _describe_answers(place, words)
    return known[answers] | {"name": place.name, "file": name_place(place.location.id)}


def _describe_answers(place: Place, words: Words) -> dict[str, Any]:
    return {
        "state": place.level,
        "mark": place.mark,
        "label": words.label(place.mark, place.leading),
        "lines": words.list_lines(place.leading, place.find_reason(place.leading), place.alarms),
        "answers": [
            _describe_answer(answer, place, words, leads=number == 0) for number, answer in enumerate(place.statements)
        ],
        "sections": words.list_sections(place.leading, place.find_reason(place.leading)),
    }


def _describe_answer(answer: Answer, place: Place, words: Words, *, leads: bool) -> dict[str, Any]:
    """Describe an answer. What to do follows only from the most cautious answer, which leads."""
    means, not_, act = words.list_sections(answer, place.find_reason(answer))
    return {
        "state": answer.state,
        "label": words.label(place.find_mark(answer), answer),
        "question": words.phrase_question(answer.about) if answer.about else "",
        "sections": [means, act, not_] if leads else [means, not_],
        "as_of": words.format_time(answer.as_of),
        "as_of_machine": format_machine_time(answer.as_of),
        "valid_until": words.format_time(answer.valid_until),
        "valid_until_machine": format_machine_time(answer.valid_until),
    }


def _write_audit_line(words: Words, recount: Recount | None) -> str:
    if recount is None:
        return ""
    result = {"up_to": words.format_time(recount.up_to), "false": recount.false}
    if recount.since is None:
        return words.texts["audit"].format(**result)
    return words.texts["audit_between"].format(since=words.format_time(recount.since), **result)
