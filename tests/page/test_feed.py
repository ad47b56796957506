"""The Atom feeds: each alarm once, in each language, and no text that is markup."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from xml.etree.ElementTree import Element, fromstring

import pytest

from monitor.client.answer_types import About, Answer
from monitor.config.registry import Location
from monitor.config.sections import LANGUAGES, Language
from monitor.page.current_places import Place
from monitor.page.feed import MOST_ENTRIES, name_feed, write_feed
from monitor.page.languages import Words, read_texts
from monitor.time.instants import DAY, HOUR, to_datetime

ATOM: Final = {"": "http://www.w3.org/2005/Atom"}
NAME: Final = '<script>alert(1)</script> & "Hall" \ufffe'


def make_place(name: str, hour: int, valid_until: int = 5 * DAY) -> Place:
    """Return a place that is unknown now, with an alarm of an hour that still counts."""
    about = About("places", "over_time", to_datetime(0), to_datetime(hour * HOUR), 10)
    alarm = Answer("noisy_count", "noisy", hour * HOUR, valid_until, 14, 0, about, p_value=0.1, strength="just_above")
    now = Answer("unknown", "too_old", 2 * DAY, 3 * DAY, about=about, last_alarm=alarm)
    return Place(Location(id=name[:20], name=name), now, (now,))


def read_feed(places: list[Place], language: Language = "en", name: str = "town") -> Element:
    """Return the feed of these places."""
    return fromstring(write_feed(language, Words(read_texts(language)), name, places))  # noqa: S314  # our own feed


def find_text(element: Element, tag: str) -> str:
    found = element.findtext(tag, namespaces=ATOM)
    assert found
    return found


def list_ids(feed: Element) -> list[str]:
    return [find_text(entry, "id") for entry in feed.findall("entry", ATOM)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_feed_has_each_alarm(language: Language) -> None:
    """The alarm that was published last comes first, with its strength, what it means, and what it does not mean."""
    texts = read_texts(language)
    feed = read_feed([make_place("a", 24), make_place(NAME, 30)], language)
    latest, earlier = feed.findall("entry", ATOM)
    assert find_text(latest, "title") == f"{NAME[:-1]}\ufffd: {texts['just_above']}"
    assert find_text(latest, "updated") == find_text(feed, "updated") == "1970-01-02T06:00:00Z"
    assert find_text(earlier, "updated") == "1970-01-02T00:00:00Z"
    for title in ("means", "not", "do"):
        assert texts[title] in find_text(latest, "content")
    assert "14" in find_text(latest, "summary")
    assert find_text(feed, "subtitle") == texts["all_times"].format(zone="UTC")
    assert [link.get("href") for link in feed.findall("link", ATOM)] == [f"alarms-{language}.atom", f"{language}.html"]


def test_alarm_keeps_its_id() -> None:
    """An alarm has the same id while it counts, in every language; another moment, place or area has another one."""
    (known,) = list_ids(read_feed([make_place("a", 24)]))
    assert list_ids(read_feed([make_place("a", 24, valid_until=9 * DAY)], "ja")) == [known]
    others = [
        read_feed([make_place("a", 25)]),
        read_feed([make_place("b", 24)]),
        read_feed([make_place("a", 24)], name="x"),
    ]
    assert len({known, *(list_ids(each)[0] for each in others)}) == 4


def test_feed_is_bounded() -> None:
    """A feed has the alarms that were published last; without an alarm it is valid and does not change."""
    feed = read_feed([make_place(f"p{hour}", hour) for hour in range(MOST_ENTRIES + 3)])
    assert len(set(list_ids(feed))) == MOST_ENTRIES
    assert find_text(feed.findall("entry", ATOM)[-1], "updated") == "1970-01-01T03:00:00Z"
    calm = make_place("a", 24)
    without = replace(calm, answers=(replace(calm.answers[0], last_alarm=None),))
    assert find_text(read_feed([without]), "updated") == "1970-01-01T00:00:00Z"


def test_place_has_its_own_feed() -> None:
    """The feed of a place has its own name and id, and the addresses of the place, relative to its own folder."""
    place = make_place("Café 7/x", 24)
    name = name_feed("de", place)
    assert name == "places/_43af_c3_a9_207_2fx.atom"
    feed = fromstring(write_feed("de", Words(read_texts("de")), "town", [place], place))  # noqa: S314  # our own feed
    assert "Café 7/x" in find_text(feed, "title")
    assert find_text(feed, "id") != find_text(read_feed([place], "de"), "id")
    assert list_ids(feed) == list_ids(read_feed([place], "en"))
    hrefs = [link.get("href") for link in feed.iter(f"{{{ATOM['']}}}link")]
    assert hrefs == ["_43af_c3_a9_207_2fx.atom", *["../de.html#place=Caf%C3%A9+7%2Fx"] * 2]
