"""The records of the output topic that the public may use, each as one line of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from monitor.contracts.alerts import AT_TIMES, DWELL, HOT_SPOTS, OVER_TIME
from monitor.public.instants import parse_instant

PUBLIC: Final = frozenset({OVER_TIME, AT_TIMES, HOT_SPOTS, DWELL})
"""The types of records for subscribers. Others are of the service for itself."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class Entry(NamedTuple):
    """A record of the output topic. `as_of` is an instant, and `line` the whole record in the form of `replay`.

    `alarms`: the number of noisy counts that its tick drew. `value_at`: where the value begins in the line.
    """

    partition: int
    offset: int
    type: str
    key: str
    tick: int
    as_of: int
    alarms: int
    line: bytes
    value_at: int

    @property
    def raw(self) -> bytes:
        """The value of the record as JSON."""
        return self.line[self.value_at : -1]

    @property
    def value(self) -> dict[str, Any]:
        """The value of the record."""
        value: dict[str, Any] = _decode(self.raw)
        return value


def read_entry(record: Any) -> Entry | None:
    """Return a consumer's record as an entry; None if its type is not for subscribers, or if it cannot be read.

    A newer form of a record is kept, because a subscriber must learn that it does not understand the latest answer.
    """
    headers = {name: (value or b"").decode(errors="replace") for name, value in record.headers or ()}
    kind = headers.get("ce_type", "")
    if kind not in PUBLIC or record.key is None or record.value is None:
        return None
    try:
        value, key = _decode(record.value), record.key.decode()
        tick, as_of, alarms = int(value["tick"]), parse_instant(value["as_of"]), _count_alarms(value)
    except (msgspec.DecodeError, ValueError, TypeError, KeyError, AttributeError):
        return None
    about = {"key": key, "headers": headers, "partition": record.partition, "offset": record.offset}
    head = _encode(about)[:-1] + b',"value":'
    line = b"%s%s}" % (head, _encode(value))  # on one line, as server-sent events require
    return Entry(record.partition, record.offset, kind, key, tick, as_of, alarms, line, len(head))


def _count_alarms(value: Mapping[str, Any]) -> int:
    if value["kind"] == "at_times":
        return sum(noisy["tick"] == value["tick"] for noisy in value["noisy_counts"].values())
    return int(value.get("status") == "noisy_count")
