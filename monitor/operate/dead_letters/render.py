"""Print dead letters as text or as JSON: reasons, positions and times, but no values, because they name people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from monitor.errors import escape_controls
from monitor.operate.dead_letters.read_letters import Letter, ReasonCount, Summary
from monitor.records.dead_letter_record import DeadLetterHeaders
from monitor.time.instants import SECOND, format_instant


def to_json(summary: Summary) -> str:
    """Return a summary as a JSON object. Times are RFC 3339 in UTC."""
    tree = {
        "topic": summary.topic,
        "reasons": {reason.value: _count(count) for reason, count in summary.reasons.items()},
        "foreign": _count(summary.foreign),
        "latest": [{"topic": summary.topic, **describe(letter)} for letter in summary.latest],
    }
    return json.dumps(tree, indent=2)  # ASCII: a header may contain characters that control a terminal


def _count(count: ReasonCount) -> Mapping[str, Any]:
    span = {"first": format_instant(count.first), "last": format_instant(count.last)} if count.letters else {}
    return {"dead_letters": count.letters, "refused": count.refused, **span}


def describe(letter: Letter) -> dict[str, Any]:
    """Return what may be shown of a dead letter: its position and time, and its headers."""
    place: dict[str, Any] = {"partition": letter.partition, "offset": letter.offset, "time": format_instant(letter.at)}
    headers = letter.headers
    if headers is None:
        return place
    return place | {
        "reason": headers.reason.value,
        "error": headers.error,
        "count": int(headers.count),
        "truncated": "truncated" in headers.model_fields_set,
        "origin": {
            "topic": headers.topic,
            "partition": int(headers.partition),
            "offset": int(headers.offset),
            "index": int(headers.index) if headers.index.isdecimal() else None,
        },
    }


def render(summary: Summary, console: Console) -> None:
    """Print the counts by reason, then the latest dead letters with their positions."""
    total = sum(count.letters for count in summary.reasons.values())
    console.print(f"{summary.topic}: {total} dead letters", markup=False, highlight=False)
    for line in _format_table(summary):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if summary.foreign.letters:
        text = f"{summary.foreign.letters} records are not dead letters of this service: they lack its headers."
        console.print(text, markup=False, highlight=False)
    shown = [(letter, letter.headers) for letter in summary.latest if letter.headers is not None]
    if shown:
        console.print(f"\nThe latest {len(shown)}, with the record that each comes from:", highlight=False)
        for letter, headers in shown:
            line = f"  {_to_second(letter.at)} {summary.topic}-{letter.partition}@{letter.offset}"
            console.print(f"{line} {_describe(headers)}", markup=False, highlight=False, soft_wrap=True)


def _describe(headers: DeadLetterHeaders) -> str:
    visit = "" if headers.index == "-" else f" visit {headers.index}"
    several = "" if headers.count == "1" else f" ({headers.count} refused)"
    origin = f"{headers.topic}-{headers.partition}@{headers.offset}{visit}"
    return escape_controls(f"from {origin}{several}: {headers.reason.value}: {headers.error}")


def _format_table(summary: Summary) -> Iterator[str]:
    """Yield a table, one line per reason. Lines are not wrapped, so that programs can read them."""
    if not summary.reasons:
        return
    heads = ("reason", "dead letters", "refused", "first", "last")
    rows = [
        (reason.value, str(count.letters), str(count.refused), _to_second(count.first), _to_second(count.last))
        for reason, count in summary.reasons.items()
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _to_second(instant: int) -> str:
    return format_instant(instant // SECOND * SECOND)
