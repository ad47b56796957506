"""The records of the output topic that the public may use, checked and written as one line of JSON each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from pydantic import BaseModel, ValidationError

from monitor.contracts.alerts import AT_TIMES, DWELL, HOT_SPOTS, OVER_TIME, AtTimesSnapshot, HotSpotsSnapshot
from monitor.contracts.alerts import OverTimeAlert as OverTimeContract
from monitor.contracts.dwell import DwellSnapshot
from monitor.public.instants import parse_instant

CONTRACTS: Final[Mapping[str, type[BaseModel]]] = {
    OVER_TIME: OverTimeContract,
    AT_TIMES: AtTimesSnapshot,
    HOT_SPOTS: HotSpotsSnapshot,
    DWELL: DwellSnapshot,
}
"""The contract of each type of record. Records of other types are not for subscribers."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class Entry(NamedTuple):
    """A record of the output topic. `as_of` is an instant, and `line` the whole record in the form of `replay`.

    `alarms`: the number of noisy counts that its tick drew.
    """

    partition: int
    offset: int
    type: str
    key: str
    tick: int
    as_of: int
    alarms: int
    line: bytes

    @property
    def value(self) -> dict[str, Any]:
        """The value of the record."""
        value: dict[str, Any] = _decode(self.line)["value"]
        return value


def read_entry(record: Any) -> Entry | None:
    """Return a consumer's record as an entry; None if its type is not for subscribers, or if it breaks its contract."""
    headers = {name: (value or b"").decode(errors="replace") for name, value in record.headers or ()}
    contract = CONTRACTS.get(headers.get("ce_type", ""))
    if contract is None or record.key is None or record.value is None:
        return None
    try:
        contract.model_validate_json(record.value)
        value = _decode(record.value)
        key = record.key.decode()
        line = {"key": key, "headers": headers, "value": value, "partition": record.partition, "offset": record.offset}
        as_of = parse_instant(value["as_of"])
    except (ValidationError, msgspec.DecodeError, UnicodeError, ValueError):
        return None
    return Entry(
        record.partition, record.offset, headers["ce_type"], key, value["tick"], as_of, _alarms(value), _encode(line)
    )


def _alarms(value: Mapping[str, Any]) -> int:
    if value["kind"] == "at_times":
        return sum(noisy["tick"] == value["tick"] for noisy in value["noisy_counts"].values())
    return int(value.get("status") == "noisy_count")
