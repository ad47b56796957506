"""A town whose topic of dead letters has refused visits."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner

from monitor.cli import main
from monitor.ledger.read_ledger import read_partition
from monitor.records.dead_letter_record import Origin, encode_visit, make_dead_letter
from monitor.records.visit_contract import Fault, Reason
from monitor.service.wiring import Settings
from monitor.time.instants import HOUR, MILLISECOND, format_instant

PERSON: Final = "planted-person-7"
LIMIT: Final = 65_536


@dataclass
class Refused:
    """A town, and the dead letters that `put` writes."""

    settings: Settings
    config: Path
    now: int
    _offset: int = field(default=0)

    def visit(self, location: str = "inn", hours_ago: float = 1, **changes: Any) -> dict[str, Any]:
        """Return a visit of the planted person."""
        arrived = format_instant(self.now - int(hours_ago * HOUR))
        return {"person_id": PERSON, "location_id": location, "arrived_at": arrived, **changes}

    def put(self, reason: Reason, value: object, at: int | None = None, count: int | None = None) -> None:
        """Write a dead letter of a visit (an object) or of a record (bytes), stamped at an instant."""
        index = None if isinstance(value, bytes) else 3
        payload = value if isinstance(value, bytes) else encode_visit(value)
        origin = Origin(self.settings.config.kafka.topics.visits, 0, self._offset)
        self._offset += 1
        letter = make_dead_letter(Fault(reason, "location_id: expected another"), payload, origin, index, LIMIT, count)
        self.write(letter.value, letter.headers, at)

    def write(self, value: bytes, headers: list[tuple[str, bytes]], at: int | None = None) -> None:
        """Append a record to the topic of dead letters."""
        topic = self.settings.config.kafka.topics.dead_letters
        stamp = (self.now if at is None else at) // MILLISECOND
        with closing(self.settings.kafka.create_producer()) as producer:
            producer.send(topic, value=value, headers=headers, timestamp_ms=stamp).get(timeout=10)

    def sent(self) -> list[Any]:
        """Return the records of the input topic."""
        records = read_partition(self.settings.kafka, self.settings.config.kafka.topics.visits, 0)
        return [json.loads(record.value) for _offset, record in records]


def run(refused: Refused, *words: str | Path, code: int = 0) -> str:
    """Run `dead-letters`, check its exit code and that no output names the planted person.

    Return the output without the lines of the progress, which have a rate.
    """
    result = CliRunner().invoke(main, ["dead-letters", "--config", str(refused.config), *map(str, words)])
    assert result.exit_code == code, result.output
    assert PERSON not in result.output
    lines = result.output.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("Reading ", "Sending ")))
