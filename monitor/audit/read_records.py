"""Read output records from a file or a consumer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import msgspec

from monitor.audit.kinds.all_kinds import KINDS
from monitor.audit.owner_records import Checkpoint, Owner, Start
from monitor.audit.parse_values import AuditError
from monitor.audit.record_fields import Instant, Record, parse_recorded_epsilon, parse_utc
from monitor.audit.shared_terms import Grid

ANSWERS: Final[dict[str, Any]] = {name: kind.answers for name, kind in KINDS.items()}
OWNERS: Final[dict[str, Any]] = {"owner": Owner, "ledger": Start}
CHECKPOINT: Final = "checkpoint"
FORMS: Final[dict[str, Any]] = ANSWERS | OWNERS | {CHECKPOINT: Checkpoint}


def read_file(path: Path, grid: Grid) -> Iterator[Record]:
    """Yield the records of an OUT file (docs/interface.md, section 2).

    Raises:
        AuditError: the file cannot be read, or a line is not a record.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                yield _parse_line(path, number, line, grid)
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{path} cannot be read: {error}") from error


def _parse_line(path: Path, number: int, line: str, grid: Grid) -> Record:
    position = f"line {number}"
    try:
        fields = json.loads(line)
        partition, value = int(fields.get("partition", 0)), json.dumps(fields["value"]).encode()
        key, headers = str(fields["key"]), {name: str(text) for name, text in fields["headers"].items()}
    except RecursionError:  # the value is nested too deeply to be parsed
        return _make_record(position, 0, "", {}, b"", line.encode(), grid)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AuditError(f"{path}, line {number}: expected a record of the output topic: {error!r}") from error
    return _make_record(position, partition, key, headers, value, repr((key, headers, value)).encode(), grid)


def decode_record(position: str, partition: int, record: Any, grid: Grid) -> Record:
    """Decode a record of a kafka-python consumer. If the key or a header is not text, it is left out."""
    written = repr((record.key, record.headers, record.value)).encode()
    try:
        key, headers = record.key.decode(), {name: text.decode() for name, text in record.headers}
    except (ValueError, TypeError, AttributeError):
        key, headers = "", {}
    return _make_record(position, partition, key, headers, record.value or b"", written, grid)


def _make_record(  # the parts of a record
    position: str, partition: int, key: str, headers: dict[str, str], value: bytes, written: bytes, grid: Grid
) -> Record:
    parsed, form, fault = None, None, ""
    kind = headers.get("ce_type", "").rpartition(".")[2]
    try:
        parsed = msgspec.json.decode(value)
        form = msgspec.convert(parsed, FORMS.get(kind, Any), dec_hook=_parse_text)
    except msgspec.ValidationError as error:
        fault = _explain(error)
    except (ValueError, RecursionError):
        fault = "expected strict JSON"
    found = parsed if isinstance(parsed, dict) else {}
    tick, monitor = found.get("tick"), found.get("monitor")
    if type(tick) is not int or not grid.has(tick):
        if form is not None and tick is not None:
            form, fault = None, "tick: the tick is out of range"
        tick = None
    monitor = monitor if isinstance(monitor, str) else ""
    return Record(position, partition, key, headers, written, form, fault, tick, monitor)


def _explain(error: msgspec.ValidationError) -> str:
    """Return the message, or only the path of the field if the message may quote the record."""
    text = str(error)
    return text if text.startswith(("Expected", "Object missing")) else text.rpartition(" - at ")[2]


def _parse_text(kind: type, text: object) -> Fraction | Instant:
    """Parse the text of an ε or of a time."""
    if not isinstance(text, str):
        raise ValueError("Expected a text")  # noqa: TRY004  # msgspec expects a ValueError
    return parse_recorded_epsilon(text) if kind is Fraction else parse_utc(text)
