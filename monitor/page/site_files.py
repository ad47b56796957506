"""The files of the public page: which there are, and what each of them contains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Sized
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from monitor.client.answer_types import Answer
from monitor.config.registry import Location
from monitor.config.sections import LANGUAGES
from monitor.page.csv_columns import describe_columns
from monitor.page.current_places import Present, Recount, Snapshot, read_recount
from monitor.page.feed import name_feed
from monitor.page.history import Histories, Periods
from monitor.page.html import Html, Shown, View, list_views, round_seconds_left, sort_places
from monitor.page.public_records import Entry
from monitor.page.scripts_and_styles import Static, read_openapi
from monitor.page.states import list_states, write_past_states, write_states
from monitor.page.write_changed_files import Folder, name_place
from monitor.page.write_json_csv_geojson import (
    write_locations_csv,
    write_locations_geojson,
    write_locations_json,
    write_registry_json,
)
from monitor.time.instants import SECOND, format_instant

STATES_FILE: Final = "states.json"
"""The file that the browser reads again and again. It says when it was written."""
_REGISTRY_FILE: Final = "registry.json"
_TICKS_FILE: Final = "ticks.json"
LONGEST_CYCLE: Final = 15.0
"""The longest time in seconds after which `states.json` is written again."""
_ALL_PLACES: Final = (
    *(_REGISTRY_FILE, "places.json", "places.csv", "places.geojson"),
    *(name_feed(language) for language in LANGUAGES),
)
MOST_TICKS: Final = 1_000
"""The most ticks that visitors can look back to: the latest ones. Each is a file."""
_SHOWN_LATER: Final = 30 * SECOND
"""How long after it was written a page may be sent: it is written again within a cycle, and caches keep it."""

_encode: Final = msgspec.json.Encoder().encode


def name_past(as_of: int) -> str:
    """Return the name of the file with the states at an earlier tick. A colon means something to some file systems."""
    return f"past/{format_instant(as_of).replace(':', '-')}.json"


Writer = Callable[[], bytes]
"""Returns the content of a file."""


class SiteFiles:
    """The files of a page in a folder. `write` brings them up to date, a part at a time. Use it in one thread only.

    `background`: the agency's own map, if there is one. `cycle` is the time in seconds after which `states.json` is
    written again without a change.
    """

    def __init__(
        self, present: Present, folder: Folder, html: Html, static: Static, background: bytes | None, audit: Path | None
    ) -> None:
        self._present, self._folder, self._html, self._audit = present, folder, html, audit
        fixed = {f"static/{static.build}/{name}": content for name, content in static.files.items()}
        fixed |= html.scripts
        fixed["openapi.json"] = _encode(read_openapi())
        fixed["datapackage.json"] = _encode(describe_columns())
        if background is not None:
            fixed["background.geojson"] = background
        self.cycle = min(LONGEST_CYCLE, present.unreachable_after / SECOND / 4)
        self._snapshot, self._answers = Snapshot(), list_states(())
        self._head: tuple[int, Recount | None, int] | None = None
        self._records: tuple[int, str] | None = None
        self._written: float | None = None
        self.written_at: int | None = None  # the real time at which `states.json` was written last
        self._past: set[int] = set()  # the ticks whose files are up to date
        self._fed: dict[str, tuple[str, list[Answer]]] = {}  # by place: what its feed has
        self._fixed = frozenset(fixed)
        self._wanted: set[str] = set()
        self._by_history: dict[str, Location] = {}
        self._histories = Histories(present.board, present.parameters)
        self._has_others = True
        # What is to be written, in this order: files that never change, the present, what follows from the records, and
        # the pages of the places whose history has changed.
        self._due: list[dict[str, Writer]] = [{name: partial(bytes, each) for name, each in fixed.items()}, {}, {}, {}]

    def forget_past(self, fresh: Sequence[Entry]) -> None:
        """Note new records: the files of the ticks from the earliest of them on are written again."""
        first = min((entry.as_of for entry in fresh), default=None)
        if first is not None:
            self._past = {as_of for as_of in self._past if as_of < first}

    def write(self, end: float) -> bool:
        """Write the states, if they have changed or are old, and then other files until `end` (monotonic).

        Return whether all files are up to date.

        Raises:
            OSError: a file cannot be written. It stays due.
        """
        self._plan()
        self._write_states()
        for due in self._due:
            while due:
                if self._present.real_clock.elapsed() >= end:
                    return False
                name, write = next(iter(due.items()))
                if self._folder.write(name, write()) and (location := self._by_history.get(name)) is not None:
                    self._due[3][f"{name_place(location.id)}.html"] = partial(self._write_place, location)
                del due[name]
                self._write_states()
        if self._has_others:
            self._folder.remove_others(self._wanted)
            self._has_others = False
        return True

    def _write_states(self) -> None:
        """Write `states.json` if it has changed or is old. A reader of it finds the registry that it is about."""
        if self._written is not None and self._present.real_clock.elapsed() < self._written + self.cycle:
            return
        if (write := self._due[1].get(_REGISTRY_FILE)) is not None:
            self._folder.write(_REGISTRY_FILE, write())
        now = self._present.real_clock.now()
        self._folder.write(STATES_FILE, write_states(self._present, self._snapshot, self._answers, now))
        self._written, self.written_at = self._present.real_clock.elapsed(), now

    def _plan(self) -> None:
        """Find the files that may have changed."""
        snapshot, now = self._present.read(), self._present.clock.now()
        places = {} if snapshot.number == self._snapshot.number else self._list_places(snapshot)
        if places:
            self._snapshot, self._answers = snapshot, list_states(snapshot.places)
            self._written = None
        recount = read_recount(self._audit, now)
        head = snapshot.number, recount, round_seconds_left(snapshot.expires - now - _SHOWN_LATER)
        if head != self._head:
            self._head = head
            counts = Counter(place.level for place in snapshot.places)
            shown = Shown(sort_places(snapshot.places), counts, snapshot.as_of, snapshot.expires, *head[1:])
            pages = {view.name: partial(self._html.write, view, shown) for view in self._list_views(snapshot.places)}
            self._due[1] = {**pages, **self._due[1], **pages, **places}
        records = self._present.board.version, self._present.shown.digest
        if records != self._records:
            if self._records is None or records[1] != self._records[1]:
                self._past.clear()
            self._records, self._has_others = records, True
            self._due[2] = dict(self._list_details())

    def _list_places(self, snapshot: Snapshot) -> dict[str, Writer]:
        """Return the files with all places, and the feeds of their alarms, at last those of single places."""
        present, parameters = self._present, self._present.parameters
        about = (present.shown, present.locations, parameters, present.earlier)
        return {
            _REGISTRY_FILE: partial(write_registry_json, *about),
            "places.json": partial(write_locations_json, parameters, snapshot),
            "places.csv": partial(write_locations_csv, snapshot),
            "places.geojson": partial(write_locations_geojson, snapshot),
            **{
                name_feed(language): partial(self._html.write_feed, language, parameters.name, snapshot.places)
                for language in LANGUAGES
            },
            **dict(self._list_feeds(snapshot)),
        }

    def _list_feeds(self, snapshot: Snapshot) -> Iterator[tuple[str, Writer]]:
        """Yield the feeds of the places whose alarms have changed."""
        language, name = self._html.language, self._present.parameters.name
        for place in snapshot.places:
            shown = place.name, place.alarms
            if self._fed.get(place.location.id) != shown:
                self._fed[place.location.id] = shown
                yield name_feed(language, place), partial(self._html.write_feed, language, name, [place], place)

    def _list_details(self) -> Iterator[tuple[str, Writer]]:
        """Yield the files that follow from the records: earlier ticks, the latest first, their list, and histories.

        Any file that is in none of the lists is not wanted.
        """
        board, parameters = self._present.board, self._present.parameters
        ticks, rows = board.ticks[-MOST_TICKS:], self._present.shown.rows
        past = {name_past(tick.as_of): tick.as_of for tick in reversed(ticks[:-1])}  # the last one is the present
        for name, as_of in past.items():
            if as_of not in self._past:
                yield name, partial(self._write_past, as_of)
        described = [tick._asdict() | {"as_of": format_instant(tick.as_of)} for tick in ticks]
        yield _TICKS_FILE, partial(_encode, {"ticks": described})
        self._histories = Histories(board, parameters, self._present.view.earlier)
        self._by_history = {f"{name_place(one.id)}.json": one for one in self._present.locations}
        for name, location in self._by_history.items():
            yield name, partial(self._write_history, location)
        views = {view.name for view in self._list_views(rows)}
        places = {f"{name_place(one)}{suffix}" for one in rows for suffix in (".json", ".html", ".atom")}
        self._wanted = {STATES_FILE, _TICKS_FILE, *self._fixed, *views, *_ALL_PLACES, *past, *places}
        self._due[3] = {name: write for name, write in self._due[3].items() if name in self._wanted}
        self._fed = {place: shown for place, shown in self._fed.items() if place in rows}  # the others are removed

    def _list_views(self, places: Sized) -> list[View]:
        return list_views(len(places), self._html.language)

    def _write_history(self, location: Location) -> bytes:
        """Return the history of a place. If it has changed, the page of the place is written after it."""
        return _encode(
            {"id": location.id, "name": location.name or location.id, "history": self._list_periods(location)}
        )

    def _write_place(self, location: Location) -> bytes:
        return self._html.write_place(location, self._list_periods(location))

    def _list_periods(self, location: Location) -> Periods:
        return self._histories.list_periods(location.id, self._present.shown.rows[location.id])

    def _write_past(self, as_of: int) -> bytes:
        self._past.add(as_of)
        return write_past_states(as_of, self._present)
