"""The checkpoint that ends each signed tick of an output partition (C2SP's tlog-checkpoint).

A checkpoint signs the size and the root of the Merkle tree over the answers that the partition contains up to its tick.
Owner records and the ledger's first record are not in the tree: they are no answers, and a takeover adds some.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec
from pydantic import Field

from monitor.contracts.merkle import Tree, hash_leaf
from monitor.contracts.output_records import (
    LEDGER,
    OWNER,
    TYPE_PREFIX,
    Contract,
    OutputRecord,
    Tick,
    Time,
    encode,
    format_time,
    make_record,
)
from monitor.contracts.signed_notes import Signer, Verifier

CHECKPOINT: Final = f"{TYPE_PREFIX}checkpoint"
NOT_IN_THE_TREE: Final = frozenset({CHECKPOINT.encode(), LEDGER.encode(), OWNER.encode()})
"""The values of `ce_type` whose records are no leaves."""

SIGNED_HEADERS: Final = ("ce_type", "ce_id", "ce_time")
"""The headers that a leaf contains, with the value. None of them may contain a newline."""

_KEY: Final = "checkpoint"
_TEXT: Final = re.compile(r"(\S+)\n(0|[1-9][0-9]{0,18})\n(\S+)\ntick (0|-?[1-9][0-9]{0,18})\n")
_HASH_BYTES: Final = 32

Hash = Annotated[str, Field(pattern="^[A-Za-z0-9+/]{43}=$")]


class CheckpointRecord(Contract):
    """The signed end of a tick, if answers are signed. Key: checkpoint."""

    kind: Literal["checkpoint"]
    tick: Tick
    as_of: Time
    note: str = Field(description="A signed note (C2SP): origin, size and root of the tree, and the tick.")
    hashes: list[Hash] = Field(
        max_length=64, description="The roots of the tree's complete subtrees, the largest first."
    )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose signature was verified. `text` is what the key signed.

    `origin` names the log: the key, the topic's id, the partition, and the tick with which the log begins.
    """

    origin: str
    tick: int
    tree: Tree
    text: str

    @property
    def begins(self) -> bool:
        """Whether the log begins with this tick."""
        return self.origin.rpartition("/")[2] == str(self.tick)

    def ends(self, before: Tree, leaves: Iterable[bytes]) -> bool:
        """Return whether this checkpoint signs exactly these leaves after a tree."""
        return before.extend(leaves) == self.tree


class _Value(msgspec.Struct):
    tick: int
    note: str
    hashes: list[str]


_decode: Final = msgspec.json.Decoder(_Value).decode


def name_log(key_name: str, topic_id: str, partition: int) -> str:
    """Return how the origins of all logs of an output partition begin."""
    return f"{key_name}/{topic_id}/{partition}/"


def write_text(origin: str, tick: int, tree: Tree) -> str:
    """Return the text of a checkpoint. C2SP allows the line with the tick as an extension."""
    return f"{origin}\n{tree.size}\n{base64.b64encode(tree.root).decode()}\ntick {tick}\n"


def make_checkpoint_record(
    source: str, signer: Signer, origin: str, partition: int, tick: int, as_of: int, tree: Tree
) -> OutputRecord:
    """Return the record of a checkpoint. The same tree always has the same bytes."""
    value = encode(
        {
            "kind": _KEY,
            "tick": tick,
            "as_of": format_time(as_of),
            "note": signer.sign(write_text(origin, tick, tree)),
            "hashes": [base64.b64encode(each).decode() for each in tree.hashes],
        }
    )
    digest = hashlib.sha256(value).hexdigest()[:16]
    return make_record(source, CHECKPOINT, f"{_KEY}/{partition}/{tick}/{digest}", as_of, _KEY, value)


def read_checkpoint(value: bytes | None, verifier: Verifier, log: str) -> Checkpoint | None:
    """Return a checkpoint, if the key has signed it and its hashes have the signed root; else None.

    `log` is how its origin must begin (`name_log`).
    """
    try:
        record = _decode(value or b"")
        hashes = tuple(base64.b64decode(each, validate=True) for each in record.hashes)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, binascii.Error, ValueError):
        return None
    text = verifier.open(record.note)
    parts = None if text is None else _TEXT.fullmatch(text)
    if text is None or parts is None or not parts[1].startswith(log):
        return None
    size, tree = int(parts[2]), Tree(int(parts[2]), hashes)
    if len(hashes) != size.bit_count() or any(len(each) != _HASH_BYTES for each in hashes):
        return None
    if write_text(parts[1], record.tick, tree) != text:
        return None
    return Checkpoint(parts[1], record.tick, tree, text)


def hash_answer(headers: Mapping[str, bytes | None], value: bytes | None) -> bytes:
    """Return the hash of an answer's leaf, given its headers by name."""
    ce_type, ce_id, ce_time = map(headers.get, SIGNED_HEADERS)
    return hash_leaf(b"\n".join((ce_type or b"", ce_id or b"", ce_time or b"", value or b"")))
