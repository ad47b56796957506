"""SORMAS: the exposures of cases, and facilities, as its REST interface returns them (CaseDataDto, FacilityDto).

SORMAS-Foundation/SORMAS-Project, sormas-api: exposure/ExposureDto.java, location/LocationDto.java,
infrastructure/facility/FacilityDto.java. An address gets a new uuid in each exposure, so only a facility is a place.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from msgspec import Struct

from monitor.operate.convert.exports import Export, read_form
from monitor.operate.convert.local_times import Moment, make_stay, read_moment, require_zone, widen_midnight
from monitor.operate.convert.registries import Place, make_place
from monitor.operate.convert.rows import BadRowError, Stay, check_id
from monitor.time.instants import DAY, MILLISECOND

_NO_PLACES: Final = ("SORMAS-CONSTID-OTHERS-FACILITY", "SORMAS-CONSTID-ISNONE-FACILITY")


class _Reference(Struct):
    uuid: str | None = None


class _EpiData(Struct):
    exposures: list[Any] | None = None


class _Case(Struct):
    person: _Reference | None = None
    caseClassification: str | None = None  # noqa: N815  # SORMAS' name
    deleted: bool | None = None
    epiData: _EpiData | None = None  # noqa: N815  # SORMAS' name


class _Location(Struct):
    facility: _Reference | None = None


class _Exposure(Struct):
    startDate: int | str | None = None  # noqa: N815  # SORMAS' name
    endDate: int | str | None = None  # noqa: N815  # SORMAS' name
    location: _Location | None = None


class _Facility(Struct):
    uuid: str | None = None
    name: str | None = None
    type: str | None = None
    latitude: float | None = None
    longitude: float | None = None
    archived: bool | None = None


class _Row(NamedTuple):
    case: _Case
    exposure: Any


def _find_exposures(record: dict[str, Any]) -> list[_Row]:
    case = read_form(record, _Case)
    exposures = (case.epiData and case.epiData.exposures) or []
    return [_Row(case, exposure) for exposure in exposures]


def _read_exposure(row: _Row, zone: ZoneInfo | None) -> Stay:
    case, exposure = row.case, read_form(row.exposure, _Exposure)
    if case.deleted or case.caseClassification == "NO_CASE":
        raise BadRowError("the case is deleted" if case.deleted else "the case is classified as no case")
    facility = exposure.location.facility if exposure.location else None
    if facility is None or facility.uuid in _NO_PLACES:
        raise BadRowError("the location has no facility: an address is not a place of the registry")
    person_id, location_id = check_id("person", case.person and case.person.uuid), check_id("location", facility.uuid)
    zone = require_zone("start", "is local midnight if only a date is known", zone)
    start, end = _read_moment("start", exposure.startDate, zone), _read_moment("end", exposure.endDate, zone)
    if start and end and not start.is_day and (end.latest - start.latest) % DAY == 0:
        raise BadRowError(f"both times are the same, and not midnight in {zone.key}: is it the server's time zone?")
    return make_stay(person_id, location_id, start, end)


def _read_moment(what: str, value: int | str | None, zone: ZoneInfo) -> Moment | None:
    """Return a day if the value is local midnight: SORMAS writes days so, and also times since it knows them."""
    if isinstance(value, int):
        moment: Moment | None = Moment(value * MILLISECOND, value * MILLISECOND)
    else:
        moment = read_moment(what, value, zone)
    return moment and widen_midnight(moment, zone)


def _read_facility(record: dict[str, Any], _zone: ZoneInfo | None) -> Place:
    facility = read_form(record, _Facility)
    if facility.archived:
        raise BadRowError("the facility is archived")
    if facility.uuid in _NO_PLACES:
        raise BadRowError("the facility stands for other places")
    where = None
    if facility.latitude is not None and facility.longitude is not None:
        where = (facility.latitude, facility.longitude)
    kind = (facility.type or "").lower().replace("_", " ")
    return make_place(facility.uuid, facility.name, where, kind)


EXPOSURES: Final = Export(None, "case", "exposure", _find_exposures, _read_exposure)
FACILITIES: Final = Export(None, "facility", "", lambda record: [record], _read_facility)
