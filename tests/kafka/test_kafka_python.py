"""The private parts of kafka-python that `monitor.kafka.kafka_python_3_0` replaces or calls have not changed."""

from __future__ import annotations

import hashlib
import inspect
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.cluster import ClusterMetadata
from kafka.consumer.fetcher import Fetcher
from kafka.coordinator.base import BaseCoordinator
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.producer.producer_batch import ProducerBatch
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager
from kafka.protocol.schemas.fields.struct import StructField
from kafka.record.default_records import ControlRecord, DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatch
from kafka.record.memory_records import MemoryRecordsBuilder

from monitor.kafka import kafka_python_3_0

PARTS: dict[str, tuple[str, list[Callable[..., Any] | type]]] = {
    "coordinator": (
        "06fba9177f933c48",
        [
            KafkaConsumer.__init__,
            ConsumerCoordinator,
            BaseCoordinator,
        ],
    ),
    "producer": (
        "e9183036dc6c662c",
        [KafkaProducer.close, KafkaProducer.flush, Sender, TransactionManager],
    ),
    "network": (
        "f1ecdc9030197e45",
        [
            KafkaNetClient,
            KafkaConnectionManager,
            ClusterMetadata.request_update,
            Sender,
        ],
    ),
    "decoders": ("c78a7ce6ef8e4510", [StructField]),
    "batch_queue": (
        "3e627306a6c87a2c",
        [KafkaProducer.send, RecordAccumulator, ProducerBatch, MemoryRecordsBuilder, DefaultRecordBatchBuilder],
    ),
    "fetcher": (
        "dcab47b00eb3c23f",
        [
            Fetcher,
        ],
    ),
    "batches": ("e42587d7f31d3864", [DefaultRecordBatch, LegacyRecordBatch]),
    "transactions": ("58cdc02567d8ef21", [Fetcher, DefaultRecordBatch, ControlRecord]),
    "log_ends": (
        "b3c07b356b4d06cb",
        [KafkaAdminClient.__init__, KafkaConnectionManager.run, KafkaConnectionManager.send],
    ),
}
"""By module of ours: a hash of kafka-python's code, and the code that the module relies on."""


@pytest.mark.parametrize("module", PARTS)
def test_private_parts_are_unchanged(module: str) -> None:
    """The code that a module replaces or calls is that of 3.0.12.

    After a change: read it, correct the module or delete it if its reason is gone, and write the new hash.
    """
    known, parts = PARTS[module]
    code = "".join(map(inspect.getsource, parts))
    assert hashlib.sha256(code.encode()).hexdigest()[:16] == known


def test_version_is_exact() -> None:
    """The package requires exactly the version that these tests check, so that no other one is ever installed."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"kafka-python=={version('kafka-python')}" in project["dependencies"]


def test_every_module_is_listed() -> None:
    """Each module with private parts has a hash."""
    folder = Path(kafka_python_3_0.__file__).parent
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(PARTS)
