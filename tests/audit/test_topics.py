"""One audit of the topics of a real Kafka: their contents, expired records, and the decoding of input records."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
import zstandard
from click.testing import CliRunner
from kafka import TopicPartition

from monitor.audit.configuration import AuditTerms, read_terms
from monitor.audit.live import start_audit
from monitor.audit.visits import decode
from monitor.cli import main
from monitor.ingest.decode_visits import decode_records
from monitor.kafka.kafka_python_3_0.fetcher import FetchState
from monitor.kinds.parameters import Parameters
from tests.audit.conftest import Tiny
from tests.audit.test_auditor import write_service
from tests.audit.test_follow import HIDDEN, Published, open_transaction, run
from tests.builders import build_parameters
from tests.fuzz.records import RecordGenerator, make_seeds
from tests.ingest import crafted
from tests.shared_kafka import SharedKafka

pytestmark = pytest.mark.long

__all__ = ["run"]  # a fixture


def audit(run: Published, kafka: SharedKafka, visits: str | None = None) -> tuple[int, str]:
    """Return the exit code and the output of the command."""
    config = write_service(run, kafka, visits)
    (config.parent / "person.key").write_text("qn/TGe6D7vsXiFKstZA9GykOnGMmd6iBzgSziHXuhUA=")
    result = CliRunner().invoke(main, ["audit", "--config", str(config)])
    return result.exit_code, " ".join(result.output.split())


def forget(run: Published, topic: str, below: int) -> None:
    """Delete the records of partition 0 below an offset."""
    with closing(run.kafka.create_admin()) as admin:
        admin.delete_records({TopicPartition(topic, 0): below})


def test_topics_are_read_without_files(run: Published, kafka: SharedKafka) -> None:
    """Without files the command reads the topics, and a correct run exits with 0."""
    run.report()
    run.publish()
    code, text = audit(run, kafka)
    assert code == 0, text
    assert "10 records of 7 ticks (0 to 6)" in text
    assert "expired." not in text
    assert "applied: 4, too_late: 0, not_watched: 0, expired: 0, dead_letter: 0" in text
    assert "Nothing wrong was found." in text
    assert "ε = 3/2 of 2" in text


def test_unusual_input_batches(run: Published, kafka: SharedKafka) -> None:
    """A batch that kafka-python cannot read is read, or skipped if nobody can.

    A gzip batch with bytes behind it makes a "safe" false. A bomb and a broken batch are skipped.
    """
    run.report()
    run.publish()
    times = {"arrived_at": "2026-01-01T06:10:00Z", "left_at": "2026-01-01T06:20:00Z"}
    visits = [{"person_id": person, "location_id": "park", **times} for person in ("p5", "p6")]
    stamp = int(datetime.fromisoformat(times["left_at"]).timestamp() * 1_000)
    bomb = zstandard.compress(crafted.records([bytes(1_000_000)] * 80))
    broken = zstandard.compress(crafted.record(b"{}", off=1))
    good = gzip.compress(crafted.records([json.dumps({"visits": visits}).encode()])) + b"garbage"
    for body, count, codec in ((bomb, 80, crafted.ZSTD), (broken, 1, crafted.ZSTD), (good, 1, crafted.GZIP)):
        crafted.produce(run.kafka, run.visits, crafted.batch(body, count, codec, stamp))
    code, text = audit(run, kafka)
    assert code == 1
    assert 'walk/park, tick 6: "safe" is false, there were 2 people or more' in text


def test_expired_output(run: Published, kafka: SharedKafka) -> None:
    """After records have expired, the marks of the first remaining records are taken as true.

    The records before tick 3 have expired, and the noisy count of tick 1 with them. Later records repeat it.

    tick     0     1     2 │   3     4     5     6
    says  safe     3       │ paused 4   safe  safe
    """
    run.report()
    run.publish()
    forget(run, run.alerts, 4)
    code, text = audit(run, kafka)
    assert code == 0, text
    assert f"Earlier records of the topic {run.alerts} have expired." in text


def test_expired_input(run: Published, kafka: SharedKafka) -> None:
    """Expired input causes no violation, and the command reports it."""
    run.report()
    run.publish()
    forget(run, run.visits, 1)
    code, text = audit(run, kafka)
    assert code == 0, text
    assert f"Earlier records of the topic {run.visits} have expired." in text
    assert 'Expired visits are not counted: a false "safe" may not be found' in text


def test_unstamped_input(run: Published, kafka: SharedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command counts no visit whose record no broker stamped, such as all those that tests report."""
    monkeypatch.setattr(start_audit, "FetchState", FetchState)
    run.report()
    run.publish()
    code, text = audit(run, kafka)
    assert code == 0, text
    assert "applied: 0, too_late: 0, not_watched: 0, expired: 0, dead_letter: 0" in text


def test_open_transaction_is_no_end(run: Published, kafka: SharedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a transaction hides visits that may count, the audit ends with an error and not with a verdict."""
    monkeypatch.setattr("monitor.audit.follow_topic.PATIENCE_SECONDS", 0.2)
    run.report()
    run.publish()
    with open_transaction(run, *HIDDEN) as producer:
        code, text = audit(run, kafka)
        producer.abort_transaction()
    assert code == 2
    assert "a transaction is open there" in text


def test_missing_topic_is_named(run: Published, kafka: SharedKafka) -> None:
    """A topic that does not exist ends with exit code 2, and is named."""
    code, text = audit(run, kafka, "nowhere")
    assert code == 2
    assert "there is no topic nowhere" in text


def test_input_decodes_as_in_service(tiny: Tiny) -> None:
    """The audit and the service read the same visits, and the same number of dead letters, from generated records.

    The 6,000 records are good, strange, flipped and cut, with each framing and without.
    """
    values = [made.value for made in RecordGenerator(make_seeds(300), 3).records(6_000)]
    terms = read_terms(tiny.write()[1])
    compare_decoding(replace(build_parameters(tuple(terms.rows)), default_stay=terms.default_stay), terms, values)


def compare_decoding(parameters: Parameters, terms: AuditTerms, values: Sequence[bytes | None]) -> None:
    """Check that the service and the audit decode the same visits and dead letters."""
    columns, rows = decode_records(parameters, values), parameters.registry.rows
    expected: list[list[tuple[str, int, int, int]]] = [[] for _ in values]
    for n, record in enumerate(columns.record.tolist()):
        visit = columns.persons[n], int(columns.row[n]), int(columns.arrived[n]), int(columns.left[n])
        expected[record].append(visit)
    refused = np.bincount([refusal.record for refusal in columns.refused], minlength=len(values))
    for place, value in enumerate(values):
        decoded = list(decode(value, 7, terms))
        visits = [(line[0], rows.get(line[1], -1), *line[2:4]) for line in decoded if not isinstance(line, int)]
        assert visits == expected[place], value
        assert len(decoded) - len(visits) == refused[place], value
