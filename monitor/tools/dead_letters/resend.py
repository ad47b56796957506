"""Send corrected visits to the input again, after checking each of them as the service will check it.

The fate of a visit depends on the visit, the broker's timestamp of its record and the configuration (docs/interface.md,
section 1). A visit that is sent again gets a new timestamp: the earliest tick that can count it is the next one, and a
visit that is too late for every window and horizon stays too late. Messages name lines, never a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from monitor.contracts.dead_letters import encode_visit
from monitor.contracts.instants import MILLISECOND, format_instant
from monitor.contracts.parameters import Parameters
from monitor.contracts.visits import Fault, Reason, open_record
from monitor.errors import TopicError
from monitor.ingest.accept import APPLIED, DEAD_LETTER, EXPIRED, NOT_WATCHED, accept
from monitor.ingest.decode import decode_records
from monitor.kafka.connections import KafkaConnections
from monitor.store.hashing import HASH_BYTES

SEND_SECONDS: Final = 30.0
CLOSE_SECONDS: Final = 5.0
MOST_LINES: Final = 20
"""The most line numbers that a message lists."""

_WHY_NOT: Final = {
    EXPIRED: "too late: no window or horizon of this configuration contains the visit any more",
    NOT_WATCHED: "no monitor of this configuration watches its place and time",
}


class _Nobody:
    """A hasher for callers that need only fates: all people have the same hash."""

    def hash_many(self, persons: list[str]) -> list[bytes]:
        """Return one meaningless hash per person."""
        return [bytes(HASH_BYTES)] * len(persons)


@dataclass(frozen=True, slots=True)
class LineVisits:
    """The visits of a line of the file that will be sent, encoded as JSON. `number` counts lines from 1."""

    number: int
    visits: tuple[bytes, ...]

    @property
    def record(self) -> bytes:
        """The value of the record to send."""
        return b'{"visits":[' + b",".join(self.visits) + b"]}"


@dataclass(frozen=True, slots=True)
class ResendPlan:
    """The lines to send, and what is not sent: the line, a fate or reason, and why, for each visit.

    `refused`: the service would refuse these again. `left_out`: nothing would count these.
    """

    lines: tuple[LineVisits, ...]
    refused: tuple[tuple[int, str, str], ...]
    left_out: tuple[tuple[int, str, str], ...]

    @property
    def visits(self) -> int:
        """The number of visits to send."""
        return sum(len(line.visits) for line in self.lines)

    def explain_left_out(self) -> Iterator[str]:
        """Yield a sentence for each cause of visits that are not sent, with their lines."""
        causes: dict[tuple[str, str], list[int]] = {}
        for number, name, why in (*self.refused, *self.left_out):
            causes.setdefault((name, why), []).append(number)
        for (name, why), numbers in causes.items():
            yield f"{len(numbers)} not sent ({name}), lines {_list_numbers(numbers)}: {why}"


def _list_numbers(numbers: Sequence[int]) -> str:
    distinct = sorted(set(numbers))
    more = f" and {len(distinct) - MOST_LINES} more" if len(distinct) > MOST_LINES else ""
    return ", ".join(map(str, distinct[:MOST_LINES])) + more


@dataclass(frozen=True, slots=True)
class Sent:
    """The fates of the visits that were sent, by the timestamps of the brokers, and the last of these (an instant)."""

    fates: Mapping[str, int]
    stamped: int


def judge(parameters: Parameters, visit: bytes, stamp: int) -> tuple[str, Fault | None]:
    """Return the fate of a visit whose record is stamped at an instant, and the reason if it is refused.

    The code is that of the service, so the service will decide the same.
    """
    columns = decode_records([b'{"visits":[' + visit + b"]}"], parameters.default_stay)
    accepted = accept(parameters, _Nobody(), columns, np.array([parameters.grid.find_slot(stamp)]))
    if accepted.refused:
        return DEAD_LETTER, accepted.refused[0].fault
    return next(fate for fate, count in accepted.fates.items() if count), None


def plan_resending(parameters: Parameters, path: Path, now: int) -> ResendPlan:
    """Read a file with a batch of visits, or one visit, per line, and decide what to send.

    Args:
        parameters: the parameters of the service.
        path: a file as `--export` writes it. Only the visits are sent, without the other keys of a line.
        now: the present instant.
    """
    refused: list[tuple[int, str, str]] = []
    lines: list[LineVisits] = []
    left_out: list[tuple[int, str, str]] = []
    for number, visits in _read_lines(path, refused):
        kept = []
        for visit in map(encode_visit, visits):
            fate, fault = judge(parameters, visit, now)
            if fault is not None:
                refused.append((number, fault.reason.value, fault.error))
            elif fate == APPLIED:
                kept.append(visit)
            else:
                left_out.append((number, fate, _WHY_NOT[fate]))
        if kept:
            lines.append(LineVisits(number, tuple(kept)))
    return ResendPlan(tuple(lines), tuple(refused), tuple(left_out))


def _read_lines(path: Path, refused: list[tuple[int, str, str]]) -> Iterator[tuple[int, list[Any]]]:
    """Yield the number and the visits of each line, and add lines without visits to the refused ones."""
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            visits = open_record(text.strip())
            if isinstance(visits, Fault):
                refused.append((number, visits.reason.value, visits.error))
            elif not visits:
                refused.append((number, Reason.NOT_A_VISIT.value, "visits: expected at least one visit"))
            else:
                yield number, visits


def send(connections: KafkaConnections, topic: str, plan: ResendPlan, parameters: Parameters) -> Sent:
    """Send one record per line, wait until all in-sync replicas have them, and return the visits' fates.

    Raises:
        TopicError: the input topic does not exist.
        UnreachableError: Kafka does not accept a record. Some may have been written: send the file again, because a
            visit that arrives twice counts once.
    """
    _require_topic(connections, topic)
    fates: Counter[str] = Counter()
    stamped = 0
    with connections.translate_errors(), closing(_Producer(connections)) as producer:
        sent = [(line, producer.client.send(topic, value=line.record)) for line in plan.lines]
        producer.client.flush(timeout=SEND_SECONDS)
        for line, future in sent:
            stamp = int(future.get(timeout=SEND_SECONDS).timestamp) * MILLISECOND
            fates.update(judge(parameters, visit, stamp)[0] for visit in line.visits)
            stamped = max(stamped, stamp)
    return Sent(fates, stamped)


class _Producer:
    """A producer whose `close` waits for a limited time."""

    def __init__(self, connections: KafkaConnections) -> None:
        self.client = connections.create_producer(linger_ms=5)

    def close(self) -> None:
        """Close the producer."""
        self.client.close(timeout=CLOSE_SECONDS)


def _require_topic(connections: KafkaConnections, topic: str) -> None:
    with connections.translate_errors(), closing(connections.create_consumer()) as consumer:
        if not consumer.partitions_for_topic(topic):
            raise TopicError(
                f"kafka.topics.visits is {topic!r}: there is no such topic, so nothing was sent; correct "
                "kafka.topics.visits or kafka.bootstrap_servers"
            )


def explain(sent: Sent, parameters: Parameters) -> Iterator[str]:
    """Yield sentences about the fates of the sent visits, and the first tick that counts all of them."""
    grid = parameters.grid
    stamped, as_of = format_instant(sent.stamped), format_instant(grid.as_of(grid.find_slot(sent.stamped)))
    fates = ", ".join(f"{fate} {count}" for fate, count in sent.fates.items())
    yield (
        f"Their fates: {fates}. The last one has the timestamp {stamped}, so they count from the tick at {as_of} on. "
        "Earlier answers are not revised."
    )
    if set(sent.fates) != {APPLIED}:
        yield "Some were not applied, because a slot ended after the check, or because a clock differs."
