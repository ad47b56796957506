"""The input topic that the answers of each output partition count. Its id is in the owner records."""

from __future__ import annotations

from monitor.tools.audit.owners import OwnerFacts


class InputIds:
    """The id of the input topic in the latest owner record of each output partition.

    If the input was re-created, the visits that earlier answers count are gone. The input is then not whole for these
    answers.
    """

    def __init__(self) -> None:
        self._named: dict[int | None, str] = {}

    def take_owner(self, partition: int | None, facts: OwnerFacts) -> None:
        """Take an owner or start record."""
        if facts.input_topic_id:
            self._named[partition] = facts.input_topic_id

    def find(self, partition: int | None) -> set[str]:
        """Return the id of a partition's input; the empty set if it is not known."""
        return {self._named[partition]} if partition in self._named else set()


def counts_another_input(input_ids: set[str], topic_id: str) -> bool:
    """Return whether one of these ids differs from `topic_id`, the id of the present input; "" if it is not known."""
    return bool(topic_id) and not input_ids <= {topic_id}
