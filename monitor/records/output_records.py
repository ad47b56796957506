"""The output records: alerts and ledger records, as CloudEvents in binary mode (docs/interface.md, section 4).

Here is what all of them have in common: headers, key and timestamp. The value of each kind of answer is defined beside
its monitor (`monitor/kinds/*/record.py`), and those of the ledger's own records in `owner_record.py`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Final, Literal, NamedTuple
from urllib.parse import quote

from msgspec import Meta, Struct

from monitor.records.fields import Time, format_time

TYPE_PREFIX: Final = "org.location-monitor."
OWNER: Final = f"{TYPE_PREFIX}owner"
LEDGER: Final = f"{TYPE_PREFIX}ledger"


class CloudEventHeaders(Struct, frozen=True, forbid_unknown_fields=True, rename={"content_type": "content-type"}):
    """The headers of every output record. All are strings on the wire."""

    ce_specversion: Literal["1.0"]
    ce_id: Annotated[
        str, Meta(description="Records with the same ce_id have the same bytes; a record may be delivered twice.")
    ]
    ce_source: Annotated[str, Meta(description="The name of the service.")]
    ce_type: Annotated[str, Meta(description="Skip records of unknown types.")]
    ce_time: Annotated[Time, Meta(description="as_of of the tick; for records without a tick, when they were written.")]
    content_type: Literal["application/json"]


class OutputRecord(NamedTuple):
    """An output record as bytes. The timestamp (ms) is as_of of the tick, or the time of writing without a tick."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int

    @property
    def ce_id(self) -> str:
        """The id in the headers; empty if there is none."""
        return (dict(self.headers).get("ce_id") or b"").decode(errors="replace")


_quote_source = lru_cache(maxsize=16)(quote)


def make_cloud_event_headers(source: str, ce_type: str, ce_id: str, time: int) -> tuple[tuple[str, bytes], ...]:
    """Return the headers of a record. `time` is an instant."""
    return (
        ("ce_specversion", b"1.0"),
        ("ce_id", ce_id.encode()),
        ("ce_source", _quote_source(source, safe="").encode()),
        ("ce_type", ce_type.encode()),
        ("ce_time", format_time(time).encode()),
        ("content-type", b"application/json"),
    )


def name_answer(monitor: str, about: str | int, tick: int, shard: int | None = None) -> str:
    """Return the ce_id of an answer about a location (its id), or about a designated time (an instant)."""
    subject = about if isinstance(about, str) else format_time(about)
    return f"{monitor}/{subject}/{tick}" if shard is None else f"{monitor}/{subject}/{shard}/{tick}"


def make_record(source: str, ce_type: str, ce_id: str, time: int, key: str, value: bytes) -> OutputRecord:
    """Return a record. `time` is the instant of its ce_time and of its timestamp."""
    return OutputRecord(key.encode(), value, make_cloud_event_headers(source, ce_type, ce_id, time), time // 1_000)
