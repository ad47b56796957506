"""Examples of every record for the AsyncAPI document. Output records are written by the service's own writers."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from monitor.kinds.all_kinds import KINDS
from monitor.kinds.base.examples import GRID, SOURCE, STATION
from monitor.records.checkpoints import Tree, hash_answers, make_checkpoint_record, name_log
from monitor.records.dead_letter_record import Origin, encode_visit, make_dead_letter
from monitor.records.output_records import OutputRecord
from monitor.records.owner_record import make_ledger_record, make_owner_record
from monitor.records.signed_notes import Signer
from monitor.records.visit_contract import Fault, Reason
from monitor.time.instants import HOUR

_TOPIC_ID: Final = "vPp3kQxHRhuWZTdJ0XkQdg"
_VISIT: Final = {
    "person_id": "p-17",
    "location_id": STATION,
    "arrived_at": "2026-01-05T08:15:00Z",
    "left_at": "2026-01-05T08:40:00Z",
}
_LIMIT: Final = 1_000_000


class Example(NamedTuple):
    """An example of a record: its name, what it shows, and its value. Visits have no headers.

    `record` is the record of the output topic that the example shows; None for other topics.
    """

    name: str
    summary: str
    payload: Any
    headers: dict[str, str]
    record: OutputRecord | None = None

    @property
    def message(self) -> dict[str, Any]:
        """The example as an AsyncAPI message example."""
        headers = {"headers": self.headers} if self.headers else {}
        return {"name": self.name, "summary": self.summary, **headers, "payload": self.payload}


def name_message(kind: str) -> str:
    """Return the name of an answer in AsyncAPI: its kind, with capitals instead of underscores."""
    first, *rest = kind.split("_")
    return "".join((first, *map(str.capitalize, rest)))


def make_examples() -> dict[str, tuple[Example, ...]]:
    """Return the examples of each message of the AsyncAPI document."""
    answers = {name: tuple(kind.words.list_examples()) for name, kind in KINDS.items()}
    first = next(iter(answers.values()))[0].record
    return {
        "visits": (
            Example("batch", "The visits of one person.", {"batch_id": "b-1", "visits": [_VISIT]}, {}),
            Example("visit", "One visit, with consent to lower bounds.", {**_VISIT, "consent": True}, {}),
        ),
        **{name_message(kind): tuple(_make_output_example(*each) for each in shown) for kind, shown in answers.items()},
        "checkpoint": (
            _make_output_example("signed", "The first signed tick, with one answer.", _make_checkpoint(first)),
        ),
        "owner": (_make_output_example("takeover", "An instance begins to write a partition.", _make_owner()),),
        "ledger": (_make_output_example("first", "The first record of an output partition.", _make_ledger()),),
        "deadLetter": (_make_dead_letter_example(),),
    }


def _make_output_example(name: str, summary: str, record: OutputRecord) -> Example:
    headers = {header: value.decode() for header, value in record.headers}
    return Example(name, summary, json.loads(record.value), headers, record)


def _make_checkpoint(answer: OutputRecord) -> OutputRecord:
    """Return the checkpoint of tick 8, which has this answer alone."""
    leaf = hash_answers([answer])
    signer = Signer("example.org/town", bytes(range(32)))
    origin = f"{name_log('example.org/town', _TOPIC_ID, 0)}8"
    return make_checkpoint_record(SOURCE, signer, origin, 0, 8, GRID.as_of(8), leaf, Tree().append(leaf))


def _make_owner() -> OutputRecord:
    return make_owner_record(
        source=SOURCE,
        service=SOURCE,
        fingerprint="9f86d081884c7d65",
        input_topic_id=_TOPIC_ID,
        partitions=1,
        lost_at=None,
        input_since=None,
        partition=0,
        at=GRID.as_of(7) + HOUR // 4,
        input_partitions=8,
    )


def _make_ledger() -> OutputRecord:
    return make_ledger_record(
        source=SOURCE,
        service=SOURCE,
        partitions=1,
        lost_at=None,
        partition=0,
        at=GRID.start(0),
        input_topic_id=_TOPIC_ID,
    )


def _make_dead_letter_example() -> Example:
    fault = Fault(Reason.UNKNOWN_LOCATION, "location_id: expected a location of the registry")
    visit = {**_VISIT, "location_id": "station-centrall"}
    value, headers = make_dead_letter(fault, encode_visit(visit), Origin("visits", 3, 1_207), 0, _LIMIT)
    texts = {name: text.decode() for name, text in headers}
    return Example("unknownLocation", "A visit to a place that is not in the registry.", value.decode(), texts)
