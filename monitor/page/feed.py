"""The Atom feeds of the alarms that still count (RFC 4287): of all places in each language, and of each place."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlencode
from xml.etree.ElementTree import Element, SubElement, tostring

from monitor.client.answer_types import Answer
from monitor.config.sections import Language
from monitor.page.current_places import Place, find_mark
from monitor.page.languages import Words, format_machine_time
from monitor.page.write_changed_files import name_place

MOST_ENTRIES: Final = 200
"""The most alarms of a feed: those published last. Readers keep the ones that they have read."""
_ATOM: Final = "http://www.w3.org/2005/Atom"
_NOT_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot contain."""


def name_feed(language: Language, about: Place | None = None) -> str:
    """Return the name of a feed: of all places in a language, or about one place."""
    return f"alarms-{language}.atom" if about is None else f"{name_place(about.location.id)}.atom"


def write_feed(
    language: Language, words: Words, name: str, places: Iterable[Place], about: Place | None = None
) -> bytes:
    """Return the feed, the alarm that was published last first. `name`: that of the monitored area.

    `about`: the only place of the feed; None: it is about all of them.
    An entry has the same id for as long as its alarm counts, so a reader shows it once. The ids depend on `name`, so
    that a reader of two areas does not mix them.
    """
    alarms = [(alarm, place) for place in places for alarm in place.alarms]
    alarms.sort(key=lambda one: (-(one[0].as_of or 0), one[1].name.casefold(), _identify(name, *one)))
    texts, latest = words.texts, max((alarm.as_of or 0 for alarm, _place in alarms), default=0)
    feed = Element("feed", {"xmlns": _ATOM, "xml:lang": language})
    _add(feed, "title", texts["title"] if about is None else f"{about.name} · {texts['title']}")
    _add(feed, "subtitle", texts["all_times"].format(zone=words.timezone))
    own = name_feed(language, about)
    subject = f"{name}\n{language}" if about is None else f"{name}\n{language}\n{about.location.id}"
    _add(feed, "id", uuid.uuid5(uuid.NAMESPACE_OID, subject).urn)
    _add(feed, "updated", format_machine_time(latest))
    SubElement(SubElement(feed, "author"), "name").text = _clean(name)
    SubElement(feed, "link", {"rel": "self", "type": "application/atom+xml", "href": own.rpartition("/")[2]})
    page = f"{'../' * own.count('/')}{language}.html"
    _add_link(feed, page, about)
    for alarm, place in alarms[:MOST_ENTRIES]:
        _add_link(_add_entry(feed, alarm, place, words, name), page, place)
    content: bytes = tostring(feed, encoding="utf-8", xml_declaration=True)
    return content


def _add_link(parent: Element, page: str, about: Place | None) -> None:
    """Add the address of a place on the page, or of the whole page."""
    hash_ = "" if about is None else f"#{urlencode({'place': about.location.id})}"
    SubElement(parent, "link", {"rel": "alternate", "type": "text/html", "href": page + hash_})


def _add_entry(feed: Element, alarm: Answer, place: Place, words: Words, name: str) -> Element:
    """Add an alarm with what it means, what it does not mean, and what to do. Return its entry."""
    entry, texts = SubElement(feed, "entry"), words.texts
    (line,) = words.list_lines(alarm, alarm.reason, [alarm])
    sections = [f"{title}: {text}" for title, text in words.list_sections(alarm, alarm.reason)]
    _add(entry, "title", f"{place.name}: {texts[find_mark(alarm)]}")
    _add(entry, "id", _identify(name, alarm, place))
    _add(entry, "updated", format_machine_time(alarm.as_of or 0))
    _add(entry, "summary", line)
    _add(entry, "content", "\n\n".join([line, *sections]))
    return entry


def _identify(name: str, alarm: Answer, place: Place) -> str:
    """Return the id of an alarm. A monitor has one alarm about a place and a moment."""
    about = alarm.about
    moment = "" if about is None else f"{about.monitor}\n{about.end.isoformat()}"
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{name}\n{place.location.id}\n{moment}").urn


def _add(parent: Element, tag: str, text: str) -> None:
    SubElement(parent, tag).text = _clean(text)


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
