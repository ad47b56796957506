"""The facts about a topic that a consumer does not provide: its id, and the ends of its logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from kafka.errors import KafkaError, for_code

from monitor.kafka.kafka_python_3_0.log_ends import Leader, read_log_ends

_T = TypeVar("_T")

_NO_SUCH_TOPIC: Final = 3


class KafkaTopics:
    """The topics as an admin client describes them. It needs only to read, and is reopened after an error.

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
        leaders = {
            partition["partition_index"]: Leader(partition["leader_id"], partition["leader_epoch"])
            for partition in self._describe(name).get("partitions", ())
        }
        return read_log_ends(self._client, name, leaders) if leaders else {}
