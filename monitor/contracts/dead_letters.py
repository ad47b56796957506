"""What goes to the dead-letter topic: records and visits that were refused, and why (docs/interface.md, section 4).

Dead letters hold personal data and have access rules of their own; their headers hold none, since headers get logged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from monitor.contracts.visits import Fault, Reason, without_default

WHOLE_RECORD: Final = "-"
"""The header `index` where a whole record is refused."""


class DeadLetterHeaders(BaseModel):
    """The headers of a dead letter; all are strings on the wire."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: Reason
    error: str = Field(description="The key and what was expected; never what was found.")
    topic: str = Field(description="The topic that the refused record lies in.")
    partition: str = Field(pattern=r"^\d+$", description="The partition that it lies in.")
    offset: str = Field(pattern=r"^\d+$", description="Its offset.")
    index: str = Field(pattern=r"^(\d+|-)$", description="The visit's place in the record; - for a whole record.")
    count: str = Field(
        default="1",
        pattern=r"^\d+$",
        json_schema_extra=without_default,
        description="Only where it tells of several visits or records: how many. Its place is that of the first.",
    )
    truncated: Literal["true"] = Field(
        default="true", json_schema_extra=without_default, description="Only where the value was cut at the limit."
    )


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a refused record lies."""

    topic: str
    partition: int
    offset: int


class DeadLetter(NamedTuple):
    """A record for the dead-letter topic, without a key: a key would have to be personal."""

    value: bytes
    headers: list[tuple[str, bytes]]


def encode_visit(visit: object) -> bytes:
    """One refused visit as JSON, with all of its keys; a number beyond a double's range is written as a string."""
    return to_json(visit, inf_nan_mode="strings")


def make_dead_letter(
    fault: Fault, payload: bytes, origin: Origin, index: int | None, limit: int, count: int | None = None
) -> DeadLetter:
    """Make a dead letter of a refused record (`index` None) or visit, its value cut at `limit` bytes.

    `count`: how many records or visits it tells of, if it is one that tells of several.
    """
    texts = {
        "reason": fault.reason.value,
        "error": fault.error,
        "topic": origin.topic,
        "partition": str(origin.partition),
        "offset": str(origin.offset),
        "index": WHOLE_RECORD if index is None else str(index),
    }
    if count is not None:
        texts["count"] = str(count)
    if len(payload) > limit:
        texts["truncated"] = "true"
    return DeadLetter(payload[:limit], [(name, text.encode()) for name, text in texts.items()])
