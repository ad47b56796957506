"""What was published, record by record, each ce_id once; and how the OUT file (docs/interface.md, section 2) is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from monitor.tools.audit.findings import BYTES, FORM, Findings
from monitor.tools.audit.terms import AuditTerms
from monitor.tools.audit.text import AuditError, is_utc, utc


class Told(NamedTuple):
    """A record as it was read: where, its parts, and all its bytes."""

    place: str
    key: str
    headers: dict[str, str]
    value: Any
    written: bytes


@dataclass(frozen=True, slots=True)
class PublishedRecord:
    """One record of the output topic: where it was read; `kind` is the last part of its ce_type."""

    place: str
    kind: str
    ce_id: str
    key: str
    headers: dict[str, str]
    value: Any


def each_once(records: Iterator[Told], findings: Findings) -> Iterator[PublishedRecord]:
    """Yield every record but repeats; a repeat whose bytes differ is a violation, and is not judged further.

    Raises:
        AuditError: one is no record of the output topic.
    """
    digests: dict[str, bytes] = {}
    for told in records:
        try:
            kind, ce_id = str(told.headers["ce_type"]).rpartition(".")[2], str(told.headers["ce_id"])
        except (KeyError, TypeError) as error:
            raise AuditError(f"{told.place}: expected a record of the output topic: {error!r}") from error
        digest = hashlib.blake2b(told.written, digest_size=16).digest()
        known = digests.setdefault(ce_id, digest)
        if known is digest:
            yield PublishedRecord(told.place, kind, ce_id, told.key, told.headers, told.value)
        elif known != digest:
            findings.say(BYTES, f"{told.place}: {ce_id} was published before with other bytes")


def read_file(path: Path) -> Iterator[Told]:
    """Yield the records of an OUT file.

    Raises:
        AuditError: the file cannot be read, or a line of it is no record.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                yield _told(path, number, line)
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{path} cannot be read: {error}") from error


def _told(path: Path, number: int, line: str) -> Told:
    try:
        said = json.loads(line)
        key, headers, value = said["key"], said["headers"], said["value"]
    except (ValueError, KeyError, TypeError) as error:
        raise AuditError(f"{path}, line {number}: expected a record of the output topic: {error!r}") from error
    return Told(f"line {number}", key, headers, value, json.dumps([key, headers, value]).encode())


def check_envelope(record: PublishedRecord, terms: AuditTerms, key: str, tick: int, findings: Findings) -> None:
    """Check the key, the headers and the times that follow from them (docs/interface.md, section 4)."""
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
        findings.say(FORM, f"{record.ce_id} ({record.place}): {name} is not that of tick {tick}, {utc(as_of)}")


def check_said(record: PublishedRecord, expected: dict[str, object], findings: Findings) -> None:
    """Check values that are public facts, one by one."""
    for name, value in expected.items():
        said = record.value.get(name)
        if said != value:
            findings.say(FORM, f"{record.ce_id} ({record.place}): {name} is {said!r}, expected {value!r}")
