"""GeoJSON (RFC 7946): the features of a FeatureCollection as places."""

from __future__ import annotations

from typing import Any, Final
from zoneinfo import ZoneInfo

from msgspec import Struct

from monitor.operate.convert.exports import Export, read_form
from monitor.operate.convert.registries import Place, make_place


class _Properties(Struct):
    """The properties that are read. The last ones are OpenStreetMap's, and may be something else in other maps."""

    location_id: str | int | None = None
    id: str | int | None = None
    name: str | None = None
    kind: str | None = None
    amenity: Any = None
    shop: Any = None
    tourism: Any = None
    leisure: Any = None
    healthcare: Any = None
    office: Any = None
    craft: Any = None
    public_transport: Any = None
    railway: Any = None
    aeroway: Any = None


_TAGS: Final = _Properties.__struct_fields__[_Properties.__struct_fields__.index("amenity") :]
_SEPARATORS: Final = str.maketrans("_;", "  ")


class _Geometry(Struct):
    type: str
    coordinates: list[Any] = []


class _Feature(Struct):
    id: str | int | None = None
    properties: _Properties | None = None
    geometry: _Geometry | None = None


def _find_kind(properties: _Properties) -> str | None:
    """Return the property `kind`, or else the words of the tags of OpenStreetMap."""
    if properties.kind is not None:
        return properties.kind
    tags = {tag: value for tag in _TAGS if isinstance(value := getattr(properties, tag), str) and value != "no"}
    words = (" ".join((tag if value == "yes" else value).translate(_SEPARATORS).split()) for tag, value in tags.items())
    return ", ".join(dict.fromkeys(words))


def _read_feature(record: dict[str, Any], _zone: ZoneInfo | None) -> Place:
    """Return the place of a feature. Only a point has coordinates in a registry."""
    feature = read_form(record, _Feature)
    properties, geometry = feature.properties or _Properties(), feature.geometry
    ids = (properties.location_id, feature.id, properties.id)
    found = next((each for each in ids if each is not None), None)
    where = None
    if geometry and geometry.type == "Point":
        longitude, latitude = read_form(geometry.coordinates[:2], tuple[float, float])
        where = (latitude, longitude)
    return make_place(None if found is None else str(found), properties.name, where, _find_kind(properties))


FEATURES: Final = Export("features", "feature", "", lambda record: [record], _read_feature)
