"""FHIR R4: exposures and places.

A visit is an Observation of the profile us-ph-exposure-contact-information (HL7/fhir-us-ph-library,
input/fsh/profiles/USPublicHealthExposureContactInformation.fsh): `category` EXPOS, `subject` a Patient, `focus` a
Location, `effective[x]` a period or a time. HL7/case-reporting has examples.
"""

from __future__ import annotations

from typing import Any, Final
from zoneinfo import ZoneInfo

from msgspec import Struct

from monitor.operate.convert.exports import Export, read_form
from monitor.operate.convert.local_times import make_stay, read_moment
from monitor.operate.convert.registries import Place, make_place
from monitor.operate.convert.rows import BadRowError, Stay

_EXPOSURE: Final = ("http://terminology.hl7.org/CodeSystem/v3-ActClass", "EXPOS")
_WITHDRAWN: Final = ("cancelled", "entered-in-error")


class _Coding(Struct):
    system: str | None = None
    code: str | None = None
    display: str | None = None


class _Concept(Struct):
    coding: list[_Coding] = []
    text: str | None = None


class _Reference(Struct):
    reference: str | None = None


class _Period(Struct):
    start: str | None = None
    end: str | None = None


class _Observation(Struct):
    status: str | None = None
    category: list[_Concept] = []
    subject: _Reference | None = None
    focus: list[_Reference] = []
    effectivePeriod: _Period | None = None  # noqa: N815  # FHIR's name
    effectiveDateTime: str | None = None  # noqa: N815  # FHIR's name
    effectiveInstant: str | None = None  # noqa: N815  # FHIR's name


class _Position(Struct):
    latitude: float
    longitude: float


class _Location(Struct):
    id: str | None = None
    status: str | None = None
    mode: str | None = None
    name: str | None = None
    type: list[_Concept] = []
    position: _Position | None = None
    partOf: _Reference | None = None  # noqa: N815  # FHIR's name


def _open_resource(record: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """Return the resource of an entry of a Bundle, or of a line, if it is of a kind."""
    resource = record.get("resource", record)
    if not isinstance(resource, dict):
        raise BadRowError("the resource is not an object")
    found = resource.get("resourceType")
    if found is None or (found == "Bundle" and resource is record):
        raise BadRowError("expected a resource: in NDJSON one in each line, not a Bundle")
    return resource if found == kind else None


def _find_exposures(record: dict[str, Any]) -> list[_Observation]:
    resource = _open_resource(record, "Observation")
    if resource is None:
        return []
    observation = read_form(resource, _Observation)
    codings = (coding for concept in observation.category for coding in concept.coding)
    return [observation] if any((coding.system, coding.code) == _EXPOSURE for coding in codings) else []


def _read_exposure(exposure: _Observation, zone: ZoneInfo | None) -> Stay:
    if exposure.status is None or exposure.status in _WITHDRAWN:
        raise BadRowError(f"the status is {exposure.status or 'missing'}")
    if len(exposure.focus) != 1:
        raise BadRowError(f"focus has {len(exposure.focus)} references: expected one, to a Location")
    person_id = _read_reference("subject", exposure.subject, "Patient")
    location_id = _read_reference("focus", exposure.focus[0], "Location")
    period = exposure.effectivePeriod or _Period(exposure.effectiveDateTime or exposure.effectiveInstant)
    start, end = read_moment("start", period.start, zone), read_moment("end", period.end, zone)
    return make_stay(person_id, location_id, start, end)


def _read_reference(what: str, reference: _Reference | None, kind: str) -> str:
    """Return the id of a resource: of a relative reference the last part, otherwise the whole address.

    An id that is valid only in its Bundle is refused: another Bundle may give it to another person or place.
    """
    text = reference.reference if reference else None
    if not text:
        raise BadRowError(f"{what} is only text or an identifier: expected a reference {kind}/ID")
    if text.startswith(("#", "urn:")):
        raise BadRowError(f"{what} refers to a resource by an id of this Bundle only: expected {kind}/ID")
    address = text.partition("/_history/")[0]
    parts = address.split("/")
    if len(parts) < len(("kind", "id")) or parts[-2] != kind:
        raise BadRowError(f"{what} is not a {kind}")
    return parts[1] if len(parts) == len(("kind", "id")) else address


def _find_locations(record: dict[str, Any]) -> list[_Location]:
    resource = _open_resource(record, "Location")
    return [] if resource is None else [read_form(resource, _Location)]


def _read_location(location: _Location, _zone: ZoneInfo | None) -> Place:
    if location.status in {"inactive", "entered-in-error"}:
        raise BadRowError(f"the status is {location.status}")
    if location.mode == "kind":
        raise BadRowError("the mode is kind: expected one place, not a class of places")
    position, concept = location.position, next(iter(location.type), _Concept())
    coding = next(iter(concept.coding), _Coding())
    where = (position.latitude, position.longitude) if position else None
    part_of = _read_reference("partOf", location.partOf, "Location") if location.partOf else None
    return make_place(location.id, location.name, where, concept.text or coding.display, part_of)


EXPOSURES: Final = Export("entry", "entry", "", _find_exposures, _read_exposure)
LOCATIONS: Final = Export("entry", "entry", "", _find_locations, _read_location)
