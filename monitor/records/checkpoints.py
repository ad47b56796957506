"""The checkpoint that ends each signed tick of an output partition (C2SP's tlog-checkpoint).

A checkpoint signs the size and the root of the Merkle tree over the ticks that the partition contains, and the newest
leaf. A leaf is the hash of all answers of a tick: with a leaf for each answer, signing would take three times as long.
Owner records and the ledger's first record are in no leaf: they are no answers, and a takeover adds some.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from operator import itemgetter
from typing import Annotated, Final, Literal, Protocol

from msgspec import Meta

from monitor.records.fields import UNREADABLE, Tick, Time, Value, check_time, encode, format_time, make_decoder
from monitor.records.output_records import LEDGER, OWNER, TYPE_PREFIX, OutputRecord, make_record
from monitor.records.signed_notes import Signer, Verifier

HASH_BYTES: Final = 32
_LEAF: Final = b"\0"
_NODE: Final = b"\1"

CHECKPOINT: Final = f"{TYPE_PREFIX}checkpoint"
NOT_IN_THE_TREE: Final = frozenset({CHECKPOINT.encode(), LEDGER.encode(), OWNER.encode()})
"""The values of `ce_type` whose records are in no leaf."""

_KEY: Final = "checkpoint"
_SIGNED_HEADERS: Final = itemgetter("ce_type", "ce_id", "ce_time")
_TEXT: Final = re.compile(r"(\S+)\n([1-9][0-9]{0,18})\n(\S+)\ntick (0|-?[1-9][0-9]{0,18}) (\S+)\n")

_Hash = Annotated[str, Meta(pattern="^[A-Za-z0-9+/]{43}=$")]


@dataclass(frozen=True, slots=True)
class Tree:
    """The Merkle tree of RFC 6962 over published ticks, without the ticks: its size and its right edge.

    `hashes` are the roots of its complete subtrees, the largest first.
    """

    size: int = 0
    hashes: tuple[bytes, ...] = ()

    @property
    def root(self) -> bytes:
        """The root hash."""
        if not self.hashes:
            return sha256().digest()
        root = self.hashes[-1]
        for left in self.hashes[-2::-1]:
            root = sha256(_NODE + left + root).digest()
        return root

    def append(self, leaf: bytes) -> Tree:
        """Return the tree with one more leaf, given its hash. It completes as many subtrees as `size` ends in ones."""
        size, hashes = self.size, list(self.hashes)
        while size % 2:
            leaf = sha256(_NODE + hashes.pop() + leaf).digest()
            size //= 2
        return Tree(self.size + 1, (*hashes, leaf))


def hash_leaf(content: bytes) -> bytes:
    """Return the hash of a leaf, which may be large."""
    leaf = sha256(_LEAF)
    leaf.update(content)
    return leaf.digest()


class Answer(Protocol):
    """An answer as it is published, or as a subscriber receives it."""

    @property
    def headers(self) -> Iterable[tuple[str, bytes | None]]:
        """The headers of the record."""

    @property
    def value(self) -> bytes | None:
        """The value of the record."""


class CheckpointRecord(Value, frozen=True):
    """The signed end of a tick, if answers are signed. Key: checkpoint."""

    kind: Literal["checkpoint"]
    tick: Tick
    as_of: Time
    note: Annotated[
        str, Meta(description="A signed note (C2SP): origin, size and root of the tree, the tick and its leaf.")
    ]
    hashes: Annotated[
        tuple[_Hash, ...],
        Meta(max_length=64, description="The roots of the tree's complete subtrees, the largest first."),
    ]

    def __post_init__(self) -> None:
        """Raise ValueError if `as_of` has another form."""
        check_time(self.as_of)


_read: Final = make_decoder(CheckpointRecord)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose signature was verified."""

    origin: str
    """It names the log: the key, the topic's id, the partition, and the tick with which the log begins."""
    tick: int
    leaf: bytes
    """The hash of the answers of the tick, and the last leaf of the tree."""
    tree: Tree
    text: str
    """What the key signed."""

    @property
    def begins(self) -> bool:
        """Whether the log begins with this tick."""
        return self.origin.rpartition("/")[2] == str(self.tick)

    def has_signed(self, answers: Iterable[Answer]) -> bool:
        """Return whether these are the answers of the tick. A line with a newline could be read as two lines."""
        try:
            lines = _list_lines(answers)
            return not any(b"\n" in line for line in lines) and hash_leaf(b"\n".join(lines)) == self.leaf
        except (LookupError, TypeError):  # a header or the value is missing
            return False

    def follows(self, before: Tree) -> bool:
        """Return whether the tree is this earlier one with the leaf of this tick."""
        return before.append(self.leaf) == self.tree


def name_log(key_name: str, topic_id: str, partition: int) -> str:
    """Return how the origins of all logs of an output partition begin."""
    return f"{key_name}/{topic_id}/{partition}/"


def write_text(origin: str, tick: int, leaf: bytes, tree: Tree) -> str:
    """Return the text of a checkpoint. C2SP allows the line with the tick and its leaf as an extension."""
    return f"{origin}\n{tree.size}\n{_encode(tree.root)}\ntick {tick} {_encode(leaf)}\n"


def make_checkpoint_record(
    source: str, signer: Signer, origin: str, partition: int, tick: int, as_of: int, leaf: bytes, tree: Tree
) -> OutputRecord:
    """Return the record of a checkpoint. The same tree always has the same bytes."""
    note = signer.sign(write_text(origin, tick, leaf, tree))
    value = encode(CheckpointRecord(_KEY, tick, format_time(as_of), note, tuple(map(_encode, tree.hashes))))
    digest = sha256(value).hexdigest()[:16]
    return make_record(source, CHECKPOINT, f"{_KEY}/{partition}/{tick}/{digest}", as_of, _KEY, value)


def read_checkpoint(value: bytes | None, verifier: Verifier, log: str) -> Checkpoint | None:
    """Return a checkpoint, if the key has signed it and its hashes have the signed root; else None.

    `log` is how its origin must begin (`name_log`).
    """
    try:
        record = _read(value or b"")
        text = verifier.open(record.note)
        parts = None if text is None else _TEXT.fullmatch(text)
        if text is None or parts is None or not parts[1].startswith(log):
            return None
        size, leaf = int(parts[2]), _decode(parts[5])
        tree = Tree(size, tuple(map(_decode, record.hashes)))
    except (*UNREADABLE, ValueError):
        return None
    if len(tree.hashes) != size.bit_count() or write_text(parts[1], record.tick, leaf, tree) != text:
        return None
    return Checkpoint(parts[1], record.tick, leaf, tree, text)


def hash_answers(answers: Iterable[Answer]) -> bytes:
    """Return the leaf of a tick, given its answers in the order of their offsets.

    The leaf contains four lines for each answer: ce_type, ce_id, ce_time and the value.
    """
    return hash_leaf(b"\n".join(_list_lines(answers)))


def _list_lines(answers: Iterable[Answer]) -> list[bytes]:
    lines: list[bytes] = []
    for answer in answers:
        lines += _SIGNED_HEADERS(dict(answer.headers))
        lines.append(answer.value)  # type: ignore[arg-type]  # only somebody else's is None
    return lines


def _encode(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def _decode(text: str) -> bytes:
    """Return a hash. Raise ValueError if the text is something else."""
    digest = base64.b64decode(text, validate=True)
    if len(digest) != HASH_BYTES:
        raise ValueError(text)
    return digest
