"""Go.Data: the stays of cases (`dateRanges`), and locations, as its API returns and exports them.

WorldHealthOrganization/GoDataSource-API, common/models/case.json, location.json and location.js (the hierarchical
export); WorldHealthOrganization/godata, analytics/…/02_clean_data_api.R, which reads `dateRanges` as days.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from msgspec import Struct

from monitor.operate.convert.exports import Export, read_form
from monitor.operate.convert.local_times import make_stay, read_moment
from monitor.operate.convert.registries import Place, make_place
from monitor.operate.convert.rows import BadRowError, Stay, check_id

_DISCARDED: Final = "NOT_A_CASE_DISCARDED"
_DAY: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:T(?:00:00:00(?:\.000)?|23:59:59(?:\.999)?)Z)?", re.ASCII)


class _Case(Struct):
    id: str | None = None
    classification: str | None = None
    deleted: bool | None = None
    dateRanges: list[Any] | None = None  # noqa: N815  # Go.Data's name


class _DateRange(Struct):
    startDate: str | None = None  # noqa: N815  # Go.Data's name
    endDate: str | None = None  # noqa: N815  # Go.Data's name
    locationId: str | None = None  # noqa: N815  # Go.Data's name


class _Point(Struct):
    lat: float
    lng: float


class _Location(Struct):
    id: str | None = None
    name: str | None = None
    active: bool | None = None
    deleted: bool | None = None
    parentLocationId: str | None = None  # noqa: N815  # Go.Data's name
    geographicalLevelId: str | None = None  # noqa: N815  # Go.Data's name
    geoLocation: _Point | None = None  # noqa: N815  # Go.Data's name


class _Row(NamedTuple):
    case: _Case
    stay: Any


def _find_stays(record: dict[str, Any]) -> list[_Row]:
    case = read_form(record, _Case)
    return [_Row(case, stay) for stay in case.dateRanges or []]


def _read_stay(row: _Row, zone: ZoneInfo | None) -> Stay:
    case, stay = row.case, read_form(row.stay, _DateRange)
    if case.deleted or (case.classification or "").endswith(_DISCARDED):
        raise BadRowError("the case is deleted" if case.deleted else "the case is discarded")
    if not stay.locationId:
        raise BadRowError("the stay has no locationId: the name of a centre is not a place of the registry")
    start, end = (
        read_moment(what, _read_day(what, text), zone)
        for what, text in (("start", stay.startDate), ("end", stay.endDate))
    )
    found = make_stay(check_id("person", case.id), stay.locationId, start, end)
    return found if end else found._replace(left_at=None, goes_on=True)


def _read_day(what: str, text: str | None) -> str | None:
    """Return the day of a date: Go.Data writes days as times in UTC, at the beginning or the end of the day."""
    found = _DAY.fullmatch(text) if text else None
    if text and found is None:
        raise BadRowError(f"the {what} is not a day: expected a date, or a time of 00:00:00Z or 23:59:59Z")
    return found[1] if found else None


def _find_locations(record: dict[str, Any]) -> list[Any]:
    """Return the locations of a tree of the hierarchical export, or a single location."""
    found: list[Any] = []
    trees: list[Any] = [record]
    while trees:
        tree = trees.pop()
        if not isinstance(tree, dict) or "location" not in tree:
            found.append(tree)
            continue
        found.append(tree["location"])
        children = tree.get("children")
        trees += children if isinstance(children, list) else []
    return found


def _read_location(record: object, _zone: ZoneInfo | None) -> Place:
    location = read_form(record, _Location)
    if location.deleted or location.active is False:
        raise BadRowError("the location is deleted" if location.deleted else "the location is not active")
    point = location.geoLocation
    where = (point.lat, point.lng) if point else None
    kind = (location.geographicalLevelId or "").rpartition("GEOGRAPHICAL_LEVEL_")[2].lower().replace("_", " ")
    return make_place(location.id, location.name, where, kind, location.parentLocationId)


STAYS: Final = Export(None, "case", "stay", _find_stays, _read_stay)
LOCATIONS: Final = Export(None, "tree", "location", _find_locations, _read_location)
