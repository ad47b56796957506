"""The states of all places in a short form, now and at an earlier tick."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from monitor.client.answer_types import Answer
from monitor.client.known_at_a_moment import KnownPlaces
from monitor.client.state_from_records import SubscriberView
from monitor.page.current_places import Place, Present, Snapshot, distinguish, read_place
from monitor.page.write_json_csv_geojson import describe_answer
from monitor.time.instants import MILLISECOND, SECOND, format_instant

_encode: Final = msgspec.json.Encoder().encode


def list_states(places: Iterable[Place]) -> list[dict[str, Any]]:
    """Return each different answer once, with the rows of the registry it is about.

    `rows` are the first and the last row of each run: [0, 4, 7, 7] are the rows 0 to 4, and 7.
    """
    found: dict[tuple[object, ...], tuple[tuple[Answer, str, int | None], list[int]]] = {}
    for row, place in enumerate(places):
        for answer in place.answers:
            described = answer, place.find_reason(answer), place.find_percent(answer)
            _described, runs = found.setdefault((*distinguish(answer), *described[1:]), (described, []))
            if runs and runs[-1] == row - 1:
                runs[-1] = row
            else:
                runs += (row, row)
    return [describe_answer(*described) | {"rows": runs} for described, runs in found.values()]


def write_states(present: Present, snapshot: Snapshot, answers: list[dict[str, Any]], written_at: int) -> bytes:
    """Return `states.json`: the answers, and what a reader needs to know how old they are.

    `written_at`: the real time, which a reader compares with that of the web server. `now` is the time of the page's
    clock. Only in a simulation do they differ.
    """
    silent, now = present.silent_seconds, present.clock.now()
    about = {
        "written_at": format_instant(written_at - written_at % MILLISECOND),
        "now": format_instant(now - now % MILLISECOND),
        "silent_seconds": None if silent == float("inf") else round(silent, 3),
        "as_of": None if snapshot.as_of is None else format_instant(snapshot.as_of),
        "slot_seconds": present.parameters.grid.length / SECOND,
        "registry": snapshot.registry,
    }
    return _encode({**about, "answers": answers})


def write_past_states(at: int, present: Present) -> bytes:
    """Return the states at an earlier tick: the records up to it are folded as a subscriber would have done then."""
    view, locations = present.view, present.locations
    past = SubscriberView(view.registry, view.keep, earlier=view.earlier)
    for entry in present.board.find_state(at):
        past.add([("ce_type", entry.type.encode())], entry.value)
    known = KnownPlaces(past, present.parameters.grid.length, lambda: at)
    expected = present.expected
    answers = list_states(read_place(one, known, at, reachable=True, expected=expected) for one in locations)
    return _encode({"answers": answers, "as_of": format_instant(at), "registry": present.shown.digest})
