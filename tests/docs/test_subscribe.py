"""The program of docs/subscribers.md for clients built on librdkafka reads the answers from a real Kafka."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kafka.admin import KafkaAdminClient, NewTopic

from monitor.kafka.connections import KafkaConnections
from monitor.kinds.locations import find_shard
from monitor.operate.schema.examples import make_examples
from tests.docs.blocks import read_blocks
from tests.docs.conftest import ROOT, Document
from tests.needed_programs import report_missing
from tests.shared_kafka import SharedKafka

PAGE: Final = ROOT / "docs" / "subscribers.md"
POLLS: Final = 15


def read_program(changes: dict[str, str]) -> str:
    """Return the program of the page with other values."""
    blocks = read_blocks(Document(PAGE, PAGE.read_text(encoding="utf-8")))
    (text,) = (block.code for block in blocks if "confluent_kafka" in block.code)
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def test_librdkafka_reads_answers(kafka: SharedKafka, topic: Callable[[str], str], tmp_path: Path) -> None:
    """The program prints the statuses of a place, and of each place of a snapshot: listed ones are noisy counts."""
    if find_spec("confluent_kafka") is None:
        report_missing("confluent-kafka", "pip install confluent-kafka")
    name = topic("answers")
    shard = find_shard("museum", 16)
    other = next(f"hall-{n}" for n in range(1_000) if find_shard(f"hall-{n}", 16) == shard)
    elsewhere = next(f"gym-{n}" for n in range(1_000) if find_shard(f"gym-{n}", 16) != shard)
    (tmp_path / "locations.csv").write_text(f"location_id\nmuseum\n{other}\n{elsewhere}\n")
    digest = hashlib.sha256(f"museum\n{other}\n{elsewhere}\n".encode()).hexdigest()
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
    with closing(KafkaConnections((kafka.bootstrap_servers,)).create_producer()) as producer:
        for number, example in enumerate((*make_examples()["overTime"], *make_examples()["atTimes"])):
            record = example.record
            assert record is not None
            value = record.value.replace(b'"shard":8', f'"shard":{shard}'.encode())
            start = value.find(b'"registry":"') + len('"registry":"')
            value = value[:start] + digest.encode() + value[start + 64 :] if b'"registry"' in value else value
            producer.send(name, value, record.key, list(record.headers), number % 2)
        producer.flush()
    program = read_program(
        {"safety-alerts": name, "localhost:9092": kafka.bootstrap_servers, "while True": f"for _ in range({POLLS})"}
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = {line.strip() for line in done.stdout.splitlines()}
    assert {"station-central 2026-01-05T09:00:00Z safe", "station-central 2026-01-05T17:00:00Z noisy_count 12"} <= lines
    assert {"museum 2026-01-05T12:00:00Z at most 12", f"{other} 2026-01-05T12:00:00Z safe"} <= lines
    assert not any(line.startswith(elsewhere) for line in lines)
