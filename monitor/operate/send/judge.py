"""Judge visits with the code of the service, so that the service will decide the same (docs/interface.md, section 1).

The fate of a visit depends on the visit, the broker's timestamp of its record and the configuration. A visit that is
sent now gets a timestamp of now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.ingest.accept_visits import EXPIRED, NOT_WATCHED, Accepted, accept
from monitor.ingest.decode_visits import Columns, decode_records
from monitor.kinds.facts_and_questions import HASH_BYTES
from monitor.kinds.parameters import Parameters
from monitor.operate.convert.plausibility import Plausibility
from monitor.operate.convert.rows import Stay
from monitor.operate.send.visits_file import FileVisit
from monitor.records.visit_contract import Reason
from monitor.store.hash_persons import PersonHasher

PORTION_VISITS: Final = 10_000
"""How many visits are in memory at the same time."""

RECORD_VISITS: Final = 500
"""How many visits a record has."""

MOST_LINES: Final = 20
"""The most line numbers that a message lists."""

MOST_CAUSES: Final = 50
"""The most different causes that are listed. Errors in JSON have a position, so each can be another cause."""

_HASHER: Final = PersonHasher(bytes(HASH_BYTES), cached=1_000)  # fates do not depend on the hashes
_WHY_NOT: Final = {
    EXPIRED: "too late: no window or horizon of this configuration contains the visit any more",
    NOT_WATCHED: "no monitor of this configuration watches its place and time",
}
_REASONS: Final = frozenset(reason.value for reason in Reason)


class Cause(NamedTuple):
    """Why a visit is not sent: its fate or the reason for its refusal, and this in words."""

    name: str
    why: str


class Judged(NamedTuple):
    """The visits of a portion."""

    visits: Sequence[FileVisit]
    causes: Sequence[Cause | None]
    """Why each is not sent; None: it is sent."""
    valid: NDArray[np.int64]
    """The positions of those that can be read."""
    arrived: NDArray[np.int64]
    """The instants at which these begin."""
    left: NDArray[np.int64]
    """The instants at which these end."""


def judge_visits(parameters: Parameters, visits: Iterable[FileVisit], now: int) -> Iterator[Judged]:
    """Yield the visits in portions, judged as if their records were stamped at an instant."""
    slot, source = parameters.grid.find_slot(now), iter(visits)
    while portion := list(islice(source, PORTION_VISITS)):
        causes: list[Cause | None] = [None] * len(portion)
        columns, accepted = _judge(parameters, portion, slot, RECORD_VISITS)
        records = {refusal.record for refusal in accepted.refused}
        for record in sorted(records.union(accepted.record[~accepted.counted].tolist())):
            start = record * RECORD_VISITS
            part = portion[start : start + RECORD_VISITS]
            causes[start : start + len(part)] = _find_causes(parameters, part, slot)
        yield Judged(portion, causes, columns.record * RECORD_VISITS + columns.index, columns.arrived, columns.left)


def join_visits(visits: Iterable[FileVisit]) -> bytes:
    """Return a record with these visits."""
    return b'{"visits":[' + b",".join(visit.value for visit in visits) + b"]}"


def _judge(parameters: Parameters, visits: Sequence[FileVisit], slot: int, size: int) -> tuple[Columns, Accepted]:
    """Judge visits in records of a size. In a record, a visit can neither be an envelope nor contain further visits."""
    values = [join_visits(visits[start : start + size]) for start in range(0, len(visits), size)]
    columns = decode_records(parameters, values)
    return columns, accept(parameters, _HASHER, columns, np.full(len(values), slot))


def _find_causes(parameters: Parameters, visits: Sequence[FileVisit], slot: int) -> list[Cause | None]:
    """Judge each visit in a record of its own, and return why it is not sent."""
    causes: list[Cause | None] = [None] * len(visits)
    _, accepted = _judge(parameters, visits, slot, 1)
    for refusal in accepted.refused:
        causes[refusal.record] = Cause(refusal.reason.value, refusal.error)
    for position in np.flatnonzero(~accepted.counted).tolist():
        fate = EXPIRED if accepted.expired[position] else NOT_WATCHED
        causes[int(accepted.record[position])] = Cause(fate, _WHY_NOT[fate])
    for position, visit in enumerate(visits):
        if visit.fault is not None:
            causes[position] = Cause(visit.fault.reason.value, visit.fault.error)
    return causes


@dataclass(slots=True)
class _Lines:
    """The number of visits of one cause, and the first lines with such a visit."""

    visits: int = 0
    lines: int = 0
    last: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        self.visits += 1
        if line != self.last:
            self.lines += 1
            self.last = line
            if len(self.first) < MOST_LINES:
                self.first.append(line)

    def __str__(self) -> str:
        more = self.lines - len(self.first)
        return ", ".join(map(str, self.first)) + (f" and {more} more" if more else "")


class Survey:
    """The numbers of a file's visits: how many would be sent, and the lines of the others by cause.

    `last_line`: where its last visit begins. `plausibility`: what looks as if the file was misread.
    """

    def __init__(self) -> None:
        self.visits = self.last_line = 0
        self.left_out: dict[Cause, _Lines] = {}
        self.plausibility = Plausibility()

    def add(self, judged: Judged) -> None:
        """Count the visits of a portion."""
        for visit, cause in zip(judged.visits, judged.causes, strict=True):
            if cause is None:
                self.visits += 1
            else:
                self._leave_out(visit.line, cause)
        self.last_line = judged.visits[-1].line
        for position, arrived, left in zip(*map(np.ndarray.tolist, judged[2:]), strict=True):
            line, keys = judged.visits[position][:2]
            end = None if keys.get("left_at") is None else left
            self.plausibility.add(f"line {line}", Stay(keys["person_id"], keys["location_id"], arrived, end))

    def _leave_out(self, line: int, cause: Cause) -> None:
        if cause not in self.left_out and len(self.left_out) >= MOST_CAUSES:
            cause = Cause(cause.name, "for other causes")
        self.left_out.setdefault(cause, _Lines()).add(line)

    @property
    def total(self) -> int:
        """The number of visits. A line that cannot be read counts as one."""
        return self.visits + sum(lines.visits for lines in self.left_out.values())

    @property
    def has_refused(self) -> bool:
        """Whether the service would refuse some of them."""
        return any(cause.name in _REASONS for cause in self.left_out)

    def explain_left_out(self) -> Iterator[str]:
        """Yield a sentence for each cause of visits that are not sent, with their lines."""
        for (name, why), lines in self.left_out.items():
            yield f"{lines.visits} not sent ({name}), lines {lines}: {why}"
