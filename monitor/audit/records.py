"""What was published: the OUT file (interface, section 2), record by record, each ce_id once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monitor.audit.findings import BYTES, FORM, Findings
from monitor.audit.terms import Terms
from monitor.audit.text import AuditError, is_utc, utc


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the output topic; `kind` is the last part of its ce_type."""

    line: int
    kind: str
    ce_id: str
    key: str
    headers: dict[str, str]
    value: Any


def read_records(path: Path, findings: Findings) -> Iterator[Record]:
    """Yield every record but repeats; a repeat whose bytes differ is a violation, and is not judged further.

    Raises:
        AuditError: the file cannot be read, or a line of it is no record.
    """
    digests: dict[str, bytes] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                record, digest = _record(path, number, line)
                known = digests.setdefault(record.ce_id, digest)
                if known is digest:
                    yield record
                elif known != digest:
                    findings.say(BYTES, f"line {number}: {record.ce_id} was published before with other bytes")
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{path} cannot be read: {error}") from error


def _record(path: Path, number: int, line: str) -> tuple[Record, bytes]:
    try:
        said = json.loads(line)
        key, headers, value = said["key"], said["headers"], said["value"]
        kind, ce_id = str(headers["ce_type"]).rpartition(".")[2], str(headers["ce_id"])
    except (ValueError, KeyError, TypeError) as error:
        raise AuditError(f"{path}, line {number}: expected a record of the output topic: {error!r}") from error
    written = json.dumps([key, headers, value]).encode()
    return Record(number, kind, ce_id, key, headers, value), hashlib.blake2b(written, digest_size=16).digest()


def check_envelope(record: Record, terms: Terms, key: str, tick: int, findings: Findings) -> None:
    """Check the key, the headers and the times that follow from them (interface, section 4)."""
    as_of = terms.grid.as_of(tick)
    expected = {
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
        findings.say(FORM, f"{record.ce_id} (line {record.line}): {name} is not that of tick {tick}, {utc(as_of)}")


def check_said(record: Record, expected: dict[str, object], findings: Findings) -> None:
    """Check values that are public facts, one by one."""
    for name, value in expected.items():
        said = record.value.get(name)
        if said != value:
            findings.say(FORM, f"{record.ce_id} (line {record.line}): {name} is {said!r}, expected {value!r}")
