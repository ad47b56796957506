"""The facts about a topic that a consumer does not provide: its id, and the ends of its logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from kafka import OffsetSpec
from kafka.errors import KafkaError, for_code
from kafka.protocol.consumer import ListOffsetsRequest

_T = TypeVar("_T")

# A leader returns the end of its log to this replica id. To a consumer it returns the high watermark or, with
# read_committed, the last stable offset.
_DEBUGGING_REPLICA_ID: Final = -2
_NO_SUCH_TOPIC: Final = 3


class KafkaTopics:
    """The topics as an admin client describes them. It needs only the right Describe, and is reopened after an error.

    `open_admin` opens an admin client of kafka-python.

    Raises:
        KafkaError, OSError: (any method) Kafka does not answer, or refuses.
    """

    def __init__(self, open_admin: Callable[[], Any]) -> None:
        self._open = open_admin
        self._client: Any = None

    def read_topic_id(self, name: str) -> str:
        """Return the id of a topic; empty if there is no such topic."""
        return str(self._call(lambda: self._describe(name).get("topic_id", "")))

    def log_ends(self, name: str) -> Mapping[int, int]:
        """Return the offset after the last record of each partition; nothing if there is no such topic.

        Before these ends are also records that a consumer does not see yet: records of an open transaction or after its
        start, and records that followers have not copied.
        """
        return self._call(lambda: self._read_ends(name))

    def close(self) -> None:
        """Close the admin client."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(KafkaError, OSError):
                client.close()

    def _call(self, operation: Callable[[], _T]) -> _T:
        try:
            if self._client is None:
                self._client = self._open()
            return operation()
        except (KafkaError, OSError):
            self.close()
            raise

    def _describe(self, name: str) -> Mapping[str, Any]:
        (described,) = self._client.describe_topics([name])
        code = described["error_code"]
        if code == _NO_SUCH_TOPIC:
            return {}
        if code:
            raise for_code(code)(f"topic {name}")
        found: Mapping[str, Any] = described
        return found

    def _read_ends(self, name: str) -> Mapping[int, int]:
        led: dict[int, list[int]] = {}
        for partition in self._describe(name).get("partitions", ()):
            led.setdefault(partition["leader_id"], []).append(partition["partition_index"])
        return dict(self._client._manager.run(self._request_ends, name, led))  # noqa: SLF001  # kafka-python has no request for log end offsets

    async def _request_ends(self, name: str, led: Mapping[int, list[int]]) -> list[tuple[int, int]]:
        ends = []
        for node, partitions in led.items():
            response = await self._client._manager.send(_make_request(name, partitions), node_id=node)  # noqa: SLF001  # as above
            for partition in response.topics[0].partitions:
                if partition.error_code:
                    raise for_code(partition.error_code)(f"end of {name}-{partition.partition_index}")
                ends.append((partition.partition_index, partition.offset))
        return ends


def _make_request(name: str, partitions: list[int]) -> Any:
    topic = ListOffsetsRequest.ListOffsetsTopic
    asked = [
        topic.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=OffsetSpec.LATEST)
        for partition in partitions
    ]
    topics = [topic(name=name, partitions=asked)]
    return ListOffsetsRequest(replica_id=_DEBUGGING_REPLICA_ID, isolation_level=0, topics=topics, min_version=1)
