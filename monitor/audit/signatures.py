"""Verify the checkpoints of signed answers (docs/subscribers.md, Signed answers), with code of its own.

They are verified on committed records, as a subscriber sees them: answers of an aborted transaction may have no
checkpoint.
"""

from __future__ import annotations

import re
import time
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from monitor.audit.findings import SIGNED, Findings
from monitor.audit.parse_values import AuditError
from monitor.audit.topic_reader import PATIENCE_SECONDS, HiddenRecordsError, Sources, TopicReader, UnreadableTopicError

_CHECKPOINT: Final = b"org.location-monitor.checkpoint"
_NO_LEAVES: Final = (b"org.location-monitor.owner", b"org.location-monitor.ledger")
_HASH: Final = r"([A-Za-z0-9+/]{43}=)"
_TEXT: Final = re.compile(rf"(\S+/(-?\d{{1,19}}))\n(\d{{1,19}})\n{_HASH}\ntick (-?\d{{1,19}}) {_HASH}\n", re.ASCII)
_SIGNATURE: Final = re.compile(r"— (\S+) ([A-Za-z0-9+/]+={0,2})")
_MOST_LINES: Final = 16
_MOST_WAITING: Final = 100_000
_MOST_PER_LOCATION: Final = 16
_BYTES_PER_ANSWER: Final = 1_024
_RECORDS_PER_TURN: Final = 20_000


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key of signed notes, with its name and its id."""

    name: str
    key_id: bytes
    key: Ed25519PublicKey

    def has_signed(self, text: str, line: str) -> bool:
        """Return whether a line is this key's signature of a text."""
        parts = _SIGNATURE.fullmatch(line)
        if parts is None or parts[1] != self.name:
            return False
        try:
            signature = b64decode(parts[2], validate=True)
            self.key.verify(signature[4:], text.encode())
        except (ValueError, InvalidSignature):
            return False
        return signature[:4] == self.key_id


def read_public_key(text: str) -> PublicKey:
    """Read `name+id+base64`.

    Raises:
        AuditError: the text is something else.
    """
    try:
        name, key_id, encoded = text.split("+", 2)
        content = b64decode(encoded, validate=True)
        key = Ed25519PublicKey.from_public_bytes(content[1:])
        if content[0] == 1 and sha256(f"{name}\n".encode() + content).digest()[:4] == bytes.fromhex(key_id):
            return PublicKey(name, bytes.fromhex(key_id), key)
    except ValueError:
        pass
    raise AuditError("signing.public_key: expected a line that `location-monitor keygen --signing` printed")


@dataclass(frozen=True, slots=True)
class Edge:
    """A Merkle tree of RFC 6962: its size and the roots of its complete subtrees, the largest first."""

    size: int = 0
    roots: tuple[bytes, ...] = ()

    def grow(self, leaf: bytes) -> Edge:
        """Return the tree with one more leaf, given its hash."""
        size, roots = self.size + 1, [*self.roots, leaf]
        for _ in range((size & -size).bit_length() - 1):  # the leaf completes as many subtrees
            right, left = roots.pop(), roots.pop()
            roots.append(sha256(b"\x01" + left + right).digest())
        return Edge(size, tuple(roots))

    def compute_root(self) -> bytes:
        """Return the root hash."""
        if not self.roots:
            return sha256(b"").digest()
        root, *others = reversed(self.roots)
        for left in others:
            root = sha256(b"\x01" + left + root).digest()
        return root


class _Value(msgspec.Struct):
    """What is read of the value of a checkpoint's record."""

    tick: int
    note: str
    hashes: list[str]


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """A checkpoint with a valid signature, in its `line`. `begins`: its log begins with its tick."""

    origin: str
    tick: int
    leaf: bytes
    edge: Edge
    text: str
    line: str
    begins: bool


@dataclass(slots=True)
class _Waiting:
    """The answers since the last checkpoint, which have the `ce_time` `time`: their number, size and leaf.

    They are hashed as they come and not kept, because somebody without the key may write any number of them.
    `ambiguous`: whether a line has a newline, so that it could be read as two lines.
    """

    time: bytes = b""
    answers: int = 0
    size: int = 0
    ambiguous: bool = False
    leaf: Any = field(default_factory=lambda: sha256(b"\x00"))

    def add(self, lines: Sequence[bytes]) -> None:
        """Add the signed lines of an answer."""
        for line in lines:
            self.leaf.update(b"\n" + line if self.size else line)
            self.size += len(line) + 1
            self.ambiguous = self.ambiguous or b"\n" in line
        self.answers += 1


@dataclass(slots=True)
class _Log:
    """What is known of an output partition."""

    whole: bool
    """Before the first checkpoint, whether all answers of the next tick have been read."""
    reports: bool
    """Whether findings are reported, because a tick from `since` on has been signed."""
    head: _Checkpoint | None = None
    """Its last checkpoint."""
    verified: bool = False
    """Whether the answers of its tick are those signed."""
    waiting: _Waiting = field(default_factory=_Waiting)
    """The answers since then."""

    def has_signed(self, found: _Checkpoint) -> bool:
        """Return whether a checkpoint signs the answers since the last one."""
        return bool(self.waiting.leaf.digest() == found.leaf) and not self.waiting.ambiguous


class Signatures:
    """The verification of all partitions' records, in the order of their offsets.

    With `since`, a partition's findings are reported from the first signed tick on that is not earlier, in the order of
    the log. Times that nobody has signed do not count: they may be in the future.

    Args:
        keys: the public keys that may have signed.
        findings: receive what is wrong.
        since: the first tick whose findings are reported; None: all are.
        locations: the number of locations, with which the largest tick grows. Subscribers keep no larger one.
    """

    def __init__(
        self, keys: Sequence[PublicKey], findings: Findings, since: int | None = None, locations: int = 0
    ) -> None:
        self._keys, self._findings, self._since = keys, findings, since
        self._most = _MOST_WAITING + _MOST_PER_LOCATION * locations
        self._logs: dict[int, _Log] = {}
        self._cosigned: Mapping[int, str] = {}

    def expect(self, cosigned: Mapping[int, str]) -> None:
        """Expect checkpoints that were cosigned earlier, by partition: another one of the same tick is a fork."""
        self._cosigned = cosigned

    @property
    def notes(self) -> dict[int, tuple[int, str]]:
        """By partition, the tick and the signed note of the last checkpoint, if its answers are those signed."""
        heads = {partition: log.head for partition, log in self._logs.items() if log.verified}
        return {
            partition: (head.tick, f"{head.text}\n{head.line}\n")
            for partition, head in heads.items()
            if head is not None
        }

    @property
    def unreported(self) -> str:
        """Why findings are not reported yet: a partition with no signed tick from `since` on. Empty if they are."""
        waiting = sorted(partition for partition, log in self._logs.items() if log.head is not None and not log.reports)
        why = "no tick after --since is signed yet, so wrong signatures are not reported"
        return f"output partition {waiting[0]}: {why}" if waiting else ""

    def take(
        self, topic_id: str, partition: int, headers: Mapping[str, bytes], value: bytes, *, whole: bool = False
    ) -> None:
        """Take the next record. `whole`: no record of its partition has expired."""
        log = self._logs.setdefault(partition, _Log(whole, reports=self._since is None))
        kind = headers.get("ce_type", b"")
        if kind == _CHECKPOINT:
            found = self._read(f"{topic_id}/{partition}/", value)
            if found is None and log.head is None:  # an earlier key may have signed it
                log.waiting, log.whole = _Waiting(), True
                return
            wrong = self._check(log, found)
            log.waiting = _Waiting()
            if found is not None and _is_fork(self._cosigned.get(partition, ""), found):
                wrong = f"tick {found.tick} was cosigned with another checkpoint"
            if wrong:
                self._report(partition, log, wrong)
        elif kind not in _NO_LEAVES:
            self._take_answer(partition, log, headers, value)

    def end(self, partition: int) -> None:
        """Note that the records of a partition end here, and that no transaction is open: the last tick is complete."""
        log = self._logs.get(partition)
        if log is not None and log.waiting.answers:
            self._drop_unsigned(partition, log)

    def _check(self, log: _Log, found: _Checkpoint | None) -> str:
        """Return what is wrong with a checkpoint; empty if nothing is.

        The first tick from `since` on need not follow the one before it, because earlier ticks have been examined.
        """
        if found is None:
            return "a checkpoint has no valid signature for this partition"
        wrong = _judge(log, found)
        if log.reports or self._since is None or found.tick < self._since:
            return wrong
        log.reports = True
        return "" if log.verified else wrong

    def _take_answer(self, partition: int, log: _Log, headers: Mapping[str, bytes], value: bytes) -> None:
        signed = [headers.get(name, b"") for name in ("ce_type", "ce_id", "ce_time")]
        if log.waiting.answers and log.waiting.time != signed[2]:
            self._drop_unsigned(partition, log)
        before, log.waiting.time = self._is_too_much(log.waiting), signed[2]
        log.waiting.add([*signed, value])
        if log.head is not None and self._is_too_much(log.waiting) and not before:
            limit = f"{self._most:,} answers, {self._most * _BYTES_PER_ANSWER:,} bytes"
            self._report(partition, log, f"too many answers without a checkpoint (the limit is {limit})")

    def _is_too_much(self, waiting: _Waiting) -> bool:
        return waiting.answers > self._most or waiting.size > self._most * _BYTES_PER_ANSWER

    def _drop_unsigned(self, partition: int, log: _Log) -> None:
        """Report answers that no checkpoint follows, if it is not before the first checkpoint."""
        log.waiting, log.whole = _Waiting(), True
        if log.head is not None:
            self._report(partition, log, f"answers after tick {log.head.tick} have no checkpoint")

    def _read(self, place: str, value: bytes) -> _Checkpoint | None:
        """Return a checkpoint of this topic and partition if a key has signed it."""
        try:
            record = msgspec.json.decode(value, type=_Value)
            roots = tuple(b64decode(root, validate=True) for root in record.hashes)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        text, _, lines = record.note.rpartition("\n\n")
        parts = _TEXT.fullmatch(f"{text}\n")
        if parts is None or int(parts[5]) != record.tick:
            return None
        edge = Edge(int(parts[3]), roots)
        if len(roots) != edge.size.bit_count() or any(len(root) != sha256().digest_size for root in roots):
            return None
        if edge.compute_root() != b64decode(parts[4]):
            return None
        begins = int(parts[2]) == record.tick
        for line in lines.split("\n")[:_MOST_LINES]:
            for key in self._keys:
                if parts[1] == f"{key.name}/{place}{parts[2]}" and key.has_signed(parts[0], line):
                    return _Checkpoint(parts[1], record.tick, b64decode(parts[6]), edge, parts[0], line, begins)
        return None

    def _report(self, partition: int, log: _Log, text: str) -> None:
        self._findings.muted = not log.reports
        self._findings.add(SIGNED, f"partition {partition}: {text}")


def _is_fork(cosigned: str, found: _Checkpoint) -> bool:
    """Return whether a note that was cosigned is about the tick of a checkpoint in the same log, and says otherwise."""
    text, _, _ = cosigned.rpartition("\n\n")
    parts = _TEXT.fullmatch(f"{text}\n")
    return parts is not None and (parts[1], int(parts[5])) == (found.origin, found.tick) and parts[0] != found.text


def _judge(log: _Log, found: _Checkpoint) -> str:
    """Compare a checkpoint with what came before it. Return what is wrong; empty if nothing is."""
    head, signed = log.head, log.has_signed(found)
    if head is None:
        return _begin(log, found, signed=signed)
    if found.text == head.text:  # a new owner appends the last tick again
        return "" if signed else f"tick {found.tick} is repeated with other answers"
    if found.tick <= head.tick:
        return f"tick {found.tick} is signed after tick {head.tick}"
    log.head, log.verified = found, signed
    if found.origin != head.origin and not found.begins:
        return f"tick {found.tick} is in another log than tick {head.tick}"
    before = Edge() if found.begins else head.edge
    if signed and before.grow(found.leaf) != found.edge:
        return f"the log has other ticks before tick {found.tick}"
    return "" if signed else f"the answers of tick {found.tick} are not those that were signed"


def _begin(log: _Log, found: _Checkpoint, *, signed: bool) -> str:
    """Begin with the first checkpoint that is read. Answers that expired before it cannot be verified."""
    log.head, log.verified = found, signed
    same = signed and found.begins and Edge().grow(found.leaf) == found.edge
    return "" if same or not log.whole else f"tick {found.tick} is the first signed one, but its log has other answers"


class SignedOutput:
    """The output topic, from which `signatures` are verified as it grows."""

    def __init__(self, sources: Sources, signatures: Signatures) -> None:
        self.signatures = signatures
        self._reader = TopicReader(sources, sources.alerts, sources.open_output, committed=True)
        self._ends: Mapping[int, int] = {}
        self._left = 0

    def verify(self) -> bool:
        """Verify the next committed records. Return whether there may be more.

        Raises:
            UnreadableTopicError: the topic cannot be read.
            TopicChangedError: the topic was re-created.
        """
        self._ends, self._left = self._reader.ask_ends(), _RECORDS_PER_TURN
        for partition in self._ends.keys() - self._find_unread().keys():
            self.signatures.end(partition)
        with suppress(HiddenRecordsError):  # an open transaction: nobody has been shown its records
            self._reader.read_while(lambda: self._find_unread() if self._left > 0 else {}, self._take, waits=False)
        return self._left <= 0

    def verify_all(self) -> None:
        """Verify everything that is committed. Raises as `verify` does."""
        began = time.monotonic()
        while self.verify() or self._left < _RECORDS_PER_TURN or self._find_unread():
            if self._left == _RECORDS_PER_TURN and time.monotonic() - began > PATIENCE_SECONDS:
                raise UnreadableTopicError(f"the topic {self._reader.name} has a transaction that does not end")

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()

    def _find_unread(self) -> Mapping[int, int]:
        positions = self._reader.positions
        return {partition: end for partition, end in self._ends.items() if positions.get(partition, 0) < end}

    def _take(self, partition: int, record: Any) -> None:
        self._left -= 1
        whole = self._reader.first.get(partition) == 0
        headers = {name: text or b"" for name, text in record.headers}
        self.signatures.take(self._reader.topic_id, partition, headers, record.value or b"", whole=whole)
