"""The list of all records of the output topic, and the reader of the ledger (docs/architecture.md, section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from monitor.errors import LedgerError
from monitor.kinds.all_answers import ANSWERS, Answer
from monitor.records.checkpoints import CHECKPOINT, CheckpointRecord
from monitor.records.fields import UNREADABLE, Value, make_decoder
from monitor.records.output_records import LEDGER, OWNER
from monitor.records.owner_record import LedgerRecord, OwnerRecord

LEDGER_RECORDS: Final[Mapping[str, type[Answer | OwnerRecord | LedgerRecord]]] = {
    **ANSWERS,
    OWNER: OwnerRecord,
    LEDGER: LedgerRecord,
}
"""What a ledger contains, by ce_type. A checkpoint is no part of it: a foreign one is ignored."""

RECORDS: Final[Mapping[str, type[Value]]] = {**LEDGER_RECORDS, CHECKPOINT: CheckpointRecord}
"""All records of the output topic, by ce_type."""

_READERS: Final = {ce_type.encode(): make_decoder(form) for ce_type, form in LEDGER_RECORDS.items()}


def read_record(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> Answer | OwnerRecord | LedgerRecord | None:
    """Read a record of the ledger; return None for an unknown type of record.

    Raises:
        LedgerError: the record has a known type but cannot be read, so the ε that it spent is not known.
    """
    ce_type = None
    for name, content in headers:  # of two headers with one name, the last counts
        if name == "ce_type":
            ce_type = content
    reader = _READERS.get(ce_type or b"")
    if reader is None:
        return None
    try:
        return reader(value or b"")
    except LedgerError as error:
        raise LedgerError(f"{_name_record(key, headers)} is invalid: {error}") from error
    except UNREADABLE as error:
        kind = (ce_type or b"").decode()
        raise LedgerError(
            f"{_name_record(key, headers)} cannot be read as {kind}: {error}. The ε that it spent is not known; check "
            "which other producers write to kafka.topics.alerts"
        ) from error


def _name_record(key: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> str:
    """Return what identifies a record. The ce_id of a record without a tick contains the output partition."""
    return f"the ledger record with key {key or b''!r} and ce_id {dict(headers).get('ce_id') or b''!r}"
