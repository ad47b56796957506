"""Which input topic the answers of each output partition count: its id is in the owner records."""

from __future__ import annotations

from monitor.tools.audit.records import PublishedRecord


class InputIds:
    """The id of the input that the present owner of each output partition names.

    If the input was re-created, the visits that earlier answers count are gone. The input is then not whole for them.
    """

    def __init__(self) -> None:
        self._named: dict[int | None, str] = {}

    def take_owner(self, record: PublishedRecord) -> None:
        """Take an owner or start record."""
        named = record.value.get("input_topic_id") if isinstance(record.value, dict) else None
        if isinstance(named, str) and named:
            self._named[record.partition] = named

    def find(self, partition: int | None) -> set[str]:
        """Return the id that the owner of a partition names; nothing if none is known."""
        return {self._named[partition]} if partition in self._named else set()


def count_another(input_ids: set[str], topic_id: str) -> bool:
    """Return whether answers that count inputs with these ids count another than the one with this id; empty: unknown.

    The visits that earlier answers count are gone if the input was re-created.
    """
    return bool(topic_id) and not input_ids <= {topic_id}
