"""Topics in memory, for a follower that judges the records of a test without a server."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from kafka import TopicPartition


def place_records(records: list[dict[str, Any]], first: int = 0) -> list[Any]:
    """Return output records from the offset `first` as kafka-python does. The values of the given ones are JSON."""
    return [
        SimpleNamespace(
            offset=offset,
            key=record["key"].encode(),
            value=record["value"].encode(),
            headers=[(name, text.encode()) for name, text in record["headers"].items()],
        )
        for offset, record in enumerate(records, first)
    ]


def place_visits(lines: list[str]) -> list[Any]:
    """Return the lines of a replay file as records of the input, in the order of their timestamps."""
    placed = []
    for row in csv.DictReader(lines):
        reported = row.pop("reported_at") or row["left_at"]
        visit: dict[str, Any] = row | ({"consent": row["consent"] == "true"} if "consent" in row else {})
        stamp = int(datetime.fromisoformat(reported).timestamp() * 1_000)
        placed.append(SimpleNamespace(timestamp=stamp, value=json.dumps(visit).encode()))
    return sorted(placed, key=lambda record: record.timestamp)


@dataclass
class Consumer:
    """The methods of a consumer that the follower calls, for topics of one partition."""

    topics: Mapping[str, list[Any]]
    _positions: dict[TopicPartition, int] = field(default_factory=dict)
    _paused: set[TopicPartition] = field(default_factory=set)

    def assignment(self) -> set[TopicPartition]:
        return set(self._positions)

    def assign(self, places: list[TopicPartition]) -> None:
        self._positions = dict.fromkeys(places, 0)

    def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: len(self.topics[place.topic]) for place in places}

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._positions[place] = offset

    def position(self, place: TopicPartition) -> int:
        return self._positions[place]

    def pause(self, *places: TopicPartition) -> None:
        self._paused |= set(places)

    def resume(self, *places: TopicPartition) -> None:
        self._paused -= set(places)

    def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:  # noqa: ARG002  # it does not wait
        polled = {}
        for place in self.assignment() - self._paused:
            polled[place] = self.topics[place.topic][self._positions[place] :][:max_records]
            self._positions[place] += len(polled[place])
        return polled

    def close(self, *, autocommit: bool = True) -> None:  # noqa: ARG002  # there is no group
        self._positions = {}


@dataclass(frozen=True)
class Topics:
    """The topics in memory, and the facts about them."""

    topics: Mapping[str, list[Any]]

    def open(self, **settings: str) -> Consumer:  # noqa: ARG002  # there is no transaction
        """Open a consumer."""
        return Consumer(self.topics)

    def read_topic_id(self, name: str) -> str:
        return f"id of {name}"

    def log_ends(self, name: str) -> Mapping[int, int]:
        return {0: len(self.topics[name])}
