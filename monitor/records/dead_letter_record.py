"""Dead letters: refused records and visits, with the reason (docs/interface.md, section 4).

The values of dead letters contain personal data, so the topic needs its own access rules. The headers contain no
personal data, because headers are logged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from monitor.records.visit_contract import Fault, Reason, remove_default

WHOLE_RECORD: Final = "-"
"""The value of the header `index` if a whole record is refused."""


class DeadLetterHeaders(BaseModel):
    """The headers of a dead letter. All are strings on the wire."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: Reason
    error: str = Field(description="The key and the expected value; never the actual value.")
    topic: str = Field(description="The topic of the refused record.")
    partition: str = Field(pattern=r"^\d+$", description="The partition of the refused record.")
    offset: str = Field(pattern=r"^\d+$", description="The offset of the refused record.")
    index: str = Field(pattern=r"^(\d+|-)$", description="The index of the visit in the record; - for a whole record.")
    count: str = Field(
        default="1",
        pattern=r"^\d+$",
        json_schema_extra=remove_default,
        description="The number of visits or records that the dead letter represents, if several. The index is that of "
        "the first.",
    )
    truncated: Literal["true"] = Field(
        default="true", json_schema_extra=remove_default, description="Present only if the value was cut at the limit."
    )


@dataclass(frozen=True, slots=True)
class Origin:
    """The position of a refused record in the input."""

    topic: str
    partition: int
    offset: int


class DeadLetter(NamedTuple):
    """A record for the dead-letter topic. It has no key, because a key would be personal data."""

    value: bytes
    headers: list[tuple[str, bytes]]


def encode_visit(visit: object) -> bytes:
    """Encode one refused visit as JSON, with all of its keys. A number outside a double's range becomes a string."""
    return to_json(visit, inf_nan_mode="strings")


def make_dead_letter(
    fault: Fault, payload: bytes, origin: Origin, index: int | None, limit: int, count: int | None = None
) -> DeadLetter:
    """Return the dead letter of a refused record (`index` None) or visit, with its value cut at `limit` bytes.

    `count` is the number of records or visits, if the dead letter represents several.
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
