"""Read published records: from an OUT file (docs/interface.md, section 2), or as a consumer returns them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from monitor.tools.audit.findings import FORM, Findings
from monitor.tools.audit.strict_json import parse_json
from monitor.tools.audit.terms import AuditTerms
from monitor.tools.audit.text import AuditError, format_utc, is_utc


@dataclass(frozen=True)
class PublishedRecord:
    """A record of the output topic, which may have any form.

    `position`: where it was read, in words. `written`: all its bytes. `strict`: the value is strict JSON, without NaN
    and infinite numbers.
    """

    position: str
    partition: int
    key: str
    headers: dict[str, Any]
    value: Any
    written: bytes
    strict: bool = True

    @cached_property
    def kind(self) -> str:
        """The last part of its ce_type; empty if it has none."""
        ce_type = self.headers.get("ce_type")
        return ce_type.rpartition(".")[2] if isinstance(ce_type, str) else ""

    @property
    def ce_id(self) -> str:
        """Its ce_id; empty if it has none."""
        ce_id = self.headers.get("ce_id")
        return ce_id if isinstance(ce_id, str) else ""


def read_file(path: Path) -> Iterator[PublishedRecord]:
    """Yield the records of an OUT file.

    Raises:
        AuditError: the file cannot be read, or a line is not a record.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                yield _parse_line(path, number, line)
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{path} cannot be read: {error}") from error


def _parse_line(path: Path, number: int, line: str) -> PublishedRecord:
    position = f"line {number}"
    try:
        fields, strict = parse_json(line)
        if fields is None and not strict:  # too deep to parse
            return PublishedRecord(position, 0, "", {}, None, line.encode(), strict)
        key, headers, value = fields["key"], fields["headers"], fields["value"]
        headers = headers if isinstance(headers, dict) else {}
        partition = fields.get("partition", 0)
        if not isinstance(partition, int):
            raise TypeError("partition: expected a whole number")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AuditError(f"{path}, line {number}: expected a record of the output topic: {error!r}") from error
    written = json.dumps([key, headers, value]) if strict else line
    return PublishedRecord(position, partition, key, headers, value, written.encode(), strict)


def check_envelope(record: PublishedRecord, terms: AuditTerms, key: str, tick: int, findings: Findings) -> None:
    """Check the key, the headers and as_of, which follow from subject and tick (docs/interface.md, section 4)."""
    as_of = terms.grid.as_of(tick)
    expected = {
        "ce_type": f"org.location-monitor.{record.kind}",
        "ce_specversion": "1.0",
        "ce_id": f"{key}/{tick}",
        "ce_source": terms.service,
        "content-type": "application/json",
    }
    wrong = [name for name, text in expected.items() if record.headers.get(name) != text]
    if record.key != key:
        wrong.append("the key")
    if not is_utc(record.headers.get("ce_time"), as_of):
        wrong.append("ce_time")
    if not is_utc(record.value.get("as_of"), as_of):
        wrong.append("as_of")
    for name in wrong:
        findings.add(FORM, f"{key}/{tick} ({record.position}): {name} is not that of tick {tick}, {format_utc(as_of)}")


def check_facts(record: PublishedRecord, key: str, tick: int, expected: dict[str, object], findings: Findings) -> None:
    """Check the fields that are determined by the configuration and the tick."""
    for name, value in expected.items():
        published = record.value.get(name)
        if type(published) is not type(value) or published != value:
            findings.add(FORM, f"{key}/{tick} ({record.position}): {name}: expected {value!r}, found another value")


def decode_record(position: str, partition: int, record: Any) -> PublishedRecord:
    """Decode a record of a kafka-python consumer.

    If the key or a header is not text, the record is returned without them; if the value is not JSON, without value.
    """
    written = repr((record.key, record.headers, record.value)).encode()
    try:
        key, headers = record.key.decode(), {name: text.decode() for name, text in record.headers}
    except (ValueError, TypeError, AttributeError):
        key, headers = "", {}
    try:
        value, strict = parse_json(record.value.decode())
    except (ValueError, AttributeError):
        value, strict = None, False
    return PublishedRecord(position, partition, key, headers, value, written, strict)
