"""Export dead letters to a file, and send the corrected visits of such a file to the input again.

The fate of a visit depends on the visit, the broker's timestamp of its record and the configuration (docs/interface.md,
section 1). A visit that is sent again gets a new timestamp: the earliest tick that can count it is the next one, and a
visit that is too late for every window and horizon stays too late. Messages name lines, never a value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from monitor.errors import TopicError, UsageError
from monitor.ingest.accept import APPLIED, EXPIRED, NOT_WATCHED, TOO_LATE, accept
from monitor.ingest.decode import decode_records
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.facts import HASH_BYTES
from monitor.kinds.parameters import Parameters
from monitor.new_files import create_file
from monitor.operate.dead_letters.letters import Letter
from monitor.operate.dead_letters.render import describe
from monitor.records.dead_letter_record import encode_visit
from monitor.records.visits import Fault, Reason, open_record
from monitor.store.hashing import PersonHasher
from monitor.time.instants import MILLISECOND, format_instant

SEND_SECONDS: Final = 30.0
MOST_LINES: Final = 20
"""The most line numbers that a message lists."""

_WHY_NOT: Final = {
    EXPIRED: "too late: no window or horizon of this configuration contains the visit any more",
    NOT_WATCHED: "no monitor of this configuration watches its place and time",
}


def export_letters(letters: Iterable[Letter], path: Path) -> int:
    """Write one line of JSON per dead letter, and return their number. Records of other programs are left out.

    Each line is a batch of visits that `plan_resending` reads: `visits` has the refused visits. If they cannot be read,
    `visits` is empty, and `value` has the text of the refused record. `dead_letter` describes the dead letter. The file
    names people, so only its owner may read it.

    Raises:
        UsageError: the file exists, or cannot be created.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(create_file(path))
        except FileExistsError as error:
            raise UsageError(f"--export {path}: the file exists: give the name of a new file") from error
        except OSError as error:
            raise UsageError(f"--export {path}: the file cannot be created: {error.strerror}") from error
        written = 0
        for letter in letters:
            if letter.headers is not None:
                file.write(f"{json.dumps(_to_line(letter), ensure_ascii=False)}\n".encode())
                written += 1
    return written


def _to_line(letter: Letter) -> dict[str, Any]:
    visits = open_record(letter.value)
    line: dict[str, Any] = {"dead_letter": describe(letter)}
    if isinstance(visits, Fault):
        return line | {"value": letter.value.decode("utf-8", "backslashreplace"), "visits": []}
    return line | {"visits": visits}


@dataclass(slots=True)
class ResendPlan:
    """The records to send, one for each line of the file, and the numbers of their visits and of lines."""

    records: list[bytes] = field(default_factory=list)
    visits: int = 0
    left_out: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """The lines of the visits that are not sent, by fate or reason and why."""
    has_refused: bool = False
    """Whether the service would refuse some of these again."""

    def leave_out(self, line: int, name: str, why: str) -> None:
        """Add a visit that is not sent."""
        self.left_out.setdefault((name, why), []).append(line)

    def refuse(self, line: int, fault: Fault) -> None:
        """Add a visit or a line that the service would refuse."""
        self.has_refused = True
        self.leave_out(line, fault.reason.value, fault.error)

    def count_left_out(self) -> int:
        """Return the number of visits that are not sent. A line that cannot be read counts as one."""
        return sum(map(len, self.left_out.values()))

    def explain_left_out(self) -> Iterator[str]:
        """Yield a sentence for each cause of visits that are not sent, with their lines."""
        for (name, why), numbers in self.left_out.items():
            yield f"{len(numbers)} not sent ({name}), lines {_list_numbers(numbers)}: {why}"


def _list_numbers(numbers: Sequence[int]) -> str:
    distinct = sorted(set(numbers))
    more = f" and {len(distinct) - MOST_LINES} more" if len(distinct) > MOST_LINES else ""
    return ", ".join(map(str, distinct[:MOST_LINES])) + more


def plan_resending(parameters: Parameters, path: Path, now: int) -> ResendPlan:
    """Read a file with a batch of visits, or one visit, per line, and decide what to send.

    Args:
        parameters: the parameters of the service.
        path: a file as `--export` writes it. Only the visits are sent, without the other keys of a line.
        now: the present instant.
    """
    plan = ResendPlan()
    for number, text in enumerate(path.read_bytes().splitlines(), 1):
        visits = open_record(text.strip()) if text.strip() else None
        if isinstance(visits, Fault):
            plan.refuse(number, visits)
        elif visits is not None:
            _plan_line(plan, parameters, number, visits, now)
    return plan


def _plan_line(plan: ResendPlan, parameters: Parameters, number: int, visits: list[Any], now: int) -> None:
    """Judge each visit of a line with the code of the service, so that the service will decide the same."""
    if not visits:
        plan.refuse(number, Fault(Reason.NOT_A_VISIT, "visits: expected at least one visit"))
    kept = []
    for visit in map(encode_visit, visits):
        columns = decode_records(parameters, [b'{"visits":[' + visit + b"]}"])
        hasher = PersonHasher(bytes(HASH_BYTES))  # fates do not depend on the key
        accepted = accept(parameters, hasher, columns, np.array([parameters.grid.find_slot(now)]))
        fate = next((fate for fate, count in accepted.fates.items() if count), "")
        if accepted.refused:
            plan.refuse(number, accepted.refused[0].fault)
        elif fate in {APPLIED, TOO_LATE}:
            kept.append(visit)
        else:
            plan.leave_out(number, fate, _WHY_NOT[fate])
    if kept:
        plan.records.append(b'{"visits":[' + b",".join(kept) + b"]}")
        plan.visits += len(kept)


def send(connections: KafkaConnections, topic: str, plan: ResendPlan) -> int:
    """Send one record per line, and wait until all in-sync replicas have them. Return the last timestamp, an instant.

    Raises:
        TopicError: the input topic does not exist.
        UnreachableError: Kafka does not accept a record. Some may have been written: send the file again, because a
            visit that arrives twice counts once.
    """
    with connections.translate_errors(), closing(connections.create_consumer()) as consumer:
        if not consumer.partitions_for_topic(topic):
            raise TopicError(
                f"kafka.topics.visits is {topic!r}: there is no such topic, so nothing was sent; correct "
                "kafka.topics.visits or kafka.bootstrap_servers"
            )
    with connections.translate_errors("Write"):
        producer = connections.create_producer(linger_ms=5)
        try:
            sent = [producer.send(topic, value=record) for record in plan.records]
            return max(int(future.get(timeout=SEND_SECONDS).timestamp) for future in sent) * MILLISECOND
        finally:
            producer.close(timeout=SEND_SECONDS)


def explain_counting(stamp: int, parameters: Parameters) -> str:
    """Return a sentence about the first tick that counts visits whose last record has this timestamp (an instant)."""
    grid = parameters.grid
    return (
        f"The last one has the timestamp {format_instant(stamp)}, so they count from the tick at "
        f"{format_instant(grid.as_of(grid.find_slot(stamp)))} on. Earlier answers are not revised."
    )
