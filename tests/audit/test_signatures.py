"""The audit verifies signed answers, and finds every attack on them."""

from __future__ import annotations

import base64
import hashlib
import json
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from monitor.audit import audit_topics
from monitor.audit.findings import BUDGET, SIGNED, TICKS, Findings, ProvenStretch
from monitor.audit.follow_topic import Follower
from monitor.audit.live.result_file import ResultFile
from monitor.audit.parse_values import parse_instant
from monitor.audit.signatures import Signatures, read_public_key
from monitor.ledger.sign_ticks import SignedLog
from monitor.records.output_records import OutputRecord
from monitor.records.signed_notes import create_signing_key, read_signing_key
from tests.audit.conftest import Tiny
from tests.audit.records import NIGHT, as_of, charges, night, owner
from tests.audit.test_auditor import ready, run_auditor, write_service
from tests.audit.test_follow import FAR_AHEAD, HIDDEN, Published, run
from tests.client.test_verification import VECTORS
from tests.conftest import Eventually
from tests.kit.signed import SIGNER, TOPIC_ID
from tests.shared_kafka import SharedKafka

__all__ = ["run"]  # a fixture


def verify(vector: dict[str, Any], *, whole: bool = False) -> Findings:
    """Return the findings about the records of a vector, which has only one partition."""
    findings = Findings()
    read_signatures(vector["records"], findings, whole=whole).end(0)
    return findings


def read_signatures(
    records: list[dict[str, Any]],
    findings: Findings | None = None,
    *,
    whole: bool = False,
    locations: int = 0,
    cosigned: Mapping[int, str] | None = None,
) -> Signatures:
    """Return the verification of the records of a vector."""
    key = read_public_key(str(SIGNER.verifier))
    signatures = Signatures([key], Findings() if findings is None else findings, locations=locations)
    signatures.expect(cosigned or {})
    for record in records:
        headers = {f"ce_{name}": record[name].encode() for name in ("id", "type", "time")}
        signatures.take(TOPIC_ID, record["partition"], headers, record["value"].encode(), whole=whole)
    return signatures


@pytest.mark.promise(37, 45)
@pytest.mark.parametrize("name", VECTORS)
def test_vector(name: str) -> None:
    """The audit finds the attacks of the vectors, each once or twice, and nothing in the others."""
    vector = VECTORS[name]
    findings = verify(vector)
    assert set(findings.totals) == ({SIGNED} if vector["problem"] else set())
    assert findings.totals[SIGNED] <= 2


def test_first_tick_is_verified() -> None:
    """If nothing has expired, an answer that was altered in the first signed tick is found."""
    vector = deepcopy(VECTORS["honest"])
    assert verify(vector, whole=True).totals == {}
    vector["records"][0]["value"] = "9"
    assert verify(vector, whole=True).totals == {SIGNED: 1}


def test_last_answers_are_verified() -> None:
    """Answers at the end of a partition that no checkpoint follows are found."""
    vector = deepcopy(VECTORS["honest"])
    del vector["records"][-1]
    assert verify(vector).totals == {SIGNED: 1}


@pytest.mark.parametrize(("answers", "found"), [(100_000, 0), (100_001, 1)])
def test_flood_without_checkpoint_is_found(answers: int, found: int) -> None:
    """More answers without a checkpoint than subscribers keep are one finding, and none of them is kept."""
    findings = Findings()
    signatures = read_signatures(VECTORS["honest"]["records"][:3], findings)
    headers = {"ce_type": b"org.location-monitor.over_time", "ce_id": b"flood", "ce_time": b"1970-01-01T01:00:00Z"}
    for number in range(answers):
        if number == answers - 1_000:
            tracemalloc.start()  # which slows the others down
        signatures.take(TOPIC_ID, 0, headers, bytes(100))
    kept, _most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert findings.totals[SIGNED] == found
    assert found == 0 or "too many answers without a checkpoint" in findings.listed[SIGNED][0]
    assert kept < 50_000, "a part of the last thousand answers was kept"


def test_flood_of_bytes_is_found() -> None:
    """The limit is also one of bytes, and grows with the number of locations."""
    headers = {"ce_type": b"org.location-monitor.over_time", "ce_id": b"flood", "ce_time": b"1970-01-01T01:00:00Z"}
    for locations, found in ((0, 1), (10_000, 0)):
        findings = Findings()
        signatures = read_signatures(VECTORS["honest"]["records"][:3], findings, locations=locations)
        for _ in range(103):
            signatures.take(TOPIC_ID, 0, headers, bytes(1_000_000))
        assert findings.totals[SIGNED] == found


def sign(tiny: Tiny, *ticks: int, topic_id: str = "topic-1") -> list[dict[str, Any]]:
    """Return the records of the run's ticks, with their checkpoints."""
    log = SignedLog(SIGNER, "tiny", topic_id, 0)
    lines: list[dict[str, Any]] = []
    for tick in range(max(ticks) + 1):
        answers = [line for line in tiny.records if line["value"]["tick"] == tick]
        as_of = parse_instant(answers[0]["value"]["as_of"])
        signed = log.sign(tick, as_of, [_encode(line) for line in answers])
        headers = {name: (text or b"").decode() for name, text in signed.headers}
        checkpoint = answers[0] | {"key": "checkpoint", "headers": headers, "value": json.loads(signed.value or b"")}
        lines += [*answers, checkpoint] if tick in ticks else []
    return lines


def _encode(line: dict[str, Any]) -> OutputRecord:
    headers = tuple((name, text.encode()) for name, text in line["headers"].items())
    return OutputRecord(line["key"].encode(), json.dumps(line["value"]).encode(), headers, 0)


@pytest.mark.promise(37, 45)
def test_unsigned_noisy_counts_are_hidden(tiny: Tiny) -> None:
    """
    Later ticks leave out the noisy counts of ticks without a checkpoint, which are spent: right if others have one.

        tick     0   1      2   3      4   5   6
        walk     s   z      p   p      p   s   s      ticks 1 and 3 were cut off, before their checkpoints
        night            -      z      u
    """
    for tick in (2, 3, 4):
        tiny.walk(tick, "paused", [], resumes_at=as_of(5))
    tiny.remove(night(4, {})["headers"]["ce_id"])
    tiny.insert(night(4, {}, "unknown"))
    for unsigned, expected in (({1, 3}, set()), ((), {BUDGET}), (range(7), {BUDGET})):
        lines = sign(tiny, *range(7))
        tiny.records = [line for line in lines if line["key"] != "checkpoint" or line["value"]["tick"] not in unsigned]
        assert set(tiny.audit().totals) == expected, unsigned
        tiny.records = [line for line in tiny.records if line["key"] != "checkpoint"]


@pytest.mark.promise(37, 45)
@pytest.mark.parametrize("cut", [(1, 3), (1,), (3,), ()], ids=str)
def test_part_before_the_checkpoint_is_hidden(tiny: Tiny, cut: tuple[int, ...]) -> None:
    """
    Noisy counts that were appended before a takeover may be hidden, although the next owner signs the rest of the tick.

        tick     0 c   1        owner  c   2 c   3               owner  3  c   4 c   5 c   6 c
        walk     s     z                   p                            p      p     s     s
        night    -                         -     z                             u
    """
    for tick in (2, 3, 4):
        tiny.walk(tick, "paused", [], resumes_at=as_of(5))
    tiny.remove(night(4, {})["headers"]["ce_id"])
    tiny.insert(night(4, {}, "unknown"))
    lines = sign(tiny, *range(7))
    for tick in cut:
        of_tick = [line for line in lines if line["value"].get("tick") == tick]
        begin, end = lines.index(of_tick[0]), lines.index(of_tick[-1]) + 1
        part = [line for line in of_tick if line["key"] == (NIGHT if tick == 3 else "walk/park")]
        lines[begin:end] = [*part, owner(), *(line for line in of_tick if line not in part)]
    engine = tiny.live().follow([owner(), *lines[:4]], lines[4:])
    hidden = 3 * (1 not in cut) + (3 not in cut)  # at the ticks 2 to 4, and at tick 4
    assert engine.findings.totals == ({BUDGET: hidden} if hidden else {})


@pytest.mark.promise(37)
def test_cut_off_tick_may_lack_records(tiny: Tiny) -> None:
    """A signed tick whose records have arrived in part is no finding if the next owner has recorded its rest as lost.

    ledger    owner  0 c  1 c  2 c  3 (walk only)  owner (incomplete: 3)  4 c  5 c  6 c
    """
    tiny.remove(night(3, {})["headers"]["ce_id"], night(4, {})["headers"]["ce_id"])
    tiny.insert(night(4, {"shop": {"tick": 4, "noisy_count": 2}}))
    lines = [line for line in sign(tiny, *range(7)) if line["key"] != "checkpoint" or line["value"]["tick"] != 3]
    before = [line for line in lines if line["value"]["tick"] <= 3]
    after = lines[len(before) :]
    lost = [owner(), owner(incomplete=3)]
    tiny.live().records = [owner(), *before, *lost, *after]
    assert tiny.audit().totals == {}
    assert tiny.follow([owner(), *before], lost, after).findings.totals == {}
    tiny.records = [owner(), *before, owner(), *after]
    assert set(tiny.audit().totals) == {TICKS}
    tiny.records = [owner(), *before, *after]
    assert set(tiny.audit().totals) == {TICKS}


@pytest.mark.promise(37)
def test_signed_noisy_count_is_not_hidden(tiny: Tiny) -> None:
    """Ticks that leave out a signed noisy count are found, also if an owner record is read alone."""
    for tick in (2, 3, 4):
        tiny.walk(tick, "paused", [], resumes_at=as_of(5))
    lines = sign(tiny, *range(7))
    before = [line for line in lines if line["value"]["tick"] <= 1]
    engine = tiny.live().follow([owner(), *before], [owner()], lines[len(before) :])
    assert engine.findings.totals == {BUDGET: 3}


@pytest.fixture
def signed(run: Published) -> Published:
    """A run whose configuration has the public key."""
    run.tiny.config += f"signing: {{public_key: {SIGNER.verifier}}}\n"
    run.report()
    return run


def judge(follower: Follower) -> set[str]:
    """Judge until nothing remains, and verify to the end. Return the kinds of findings."""
    for _ in range(2):
        while follower.take_turn():
            pass
    assert follower.waiting_ticks == 0
    return set(follower.engine.findings.totals)


@contextmanager
def transaction(run: Published, lines: list[dict[str, Any]]) -> Iterator[Any]:
    """Append records in a transaction that stays open, and yield its producer."""
    with closing(run.kafka.create_producer(transactional_id=f"owner-{run.alerts}")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for line in lines:
            record = _encode(line)
            producer.send(run.alerts, record.value, record.key, list(record.headers), partition=0).get(timeout=10)
        yield producer


@pytest.mark.promise(45)
def test_another_checkpoint_than_the_cosigned_one(tmp_path: Path) -> None:
    """An auditor that restarts reads what it cosigned, and finds another checkpoint of the same tick and log."""
    path = tmp_path / "result.json"
    honest = read_signatures(VECTORS["honest"]["records"])
    notes = {partition: note for partition, (_, note) in honest.notes.items()}
    ResultFile(path, SIGNER).write(ProvenStretch(0, 1, 0, Fraction(1)), notes)
    for vector, found in (("honest", {}), ("fork", {SIGNED: 1})):
        findings = Findings()
        from_tick_2 = VECTORS[vector]["records"][-6:]
        read_signatures(from_tick_2, findings, cosigned=ResultFile(path, SIGNER).cosigned)
        assert findings.totals == found


@pytest.mark.promise(37, 45)
def test_committed_answers_are_verified(signed: Published) -> None:
    """Answers of an aborted transaction need no checkpoint. Those that another program appends are found at once.

    output    ticks 0 to 5 | answers of 6 (open) ... aborted | tick 6 | the answer of tick 5 again
    proven    up to 5        up to 5                           up to 6  nothing
    """
    lines = sign(signed.tiny, *range(7), topic_id=signed.facts.read_topic_id(signed.alerts))
    last = [line for line in lines if line["value"]["tick"] == 6]
    signed.publish(owner(charges()), *lines[: -len(last)])
    with closing(signed.follow()) as follower:
        with transaction(signed, last[:-1]) as producer:
            assert judge(follower) == set()
            assert "\ntick 5 " in follower.proven_notes[0]
            producer.abort_transaction()
        assert judge(follower) == set()
        assert "\ntick 5 " in follower.proven_notes[0]
        signed.publish(*last)
        assert judge(follower) == set()
        assert "\ntick 6 " in follower.proven_notes[0]
        signed.publish(next(line for line in lines if line["headers"]["ce_id"] == "walk/park/5"))
        assert judge(follower) == {SIGNED}
        assert follower.proven_notes == {}
    assert audit_topics([signed.tiny.folder / "config.yaml"], signed.make_sources()).totals == {SIGNED: 1}


@pytest.mark.promise(45)
def test_no_success_before_later_tick(signed: Published, kafka: SharedKafka, eventually: Eventually) -> None:
    """With `since`, the auditor is ready when a later tick is signed, and reports nothing that was forged before.

    output    ticks 0 to 5 | a forged record of 2199 | since | tick 6
    """
    lines = sign(signed.tiny, *range(7), topic_id=signed.facts.read_topic_id(signed.alerts))
    last = [line for line in lines if line["value"]["tick"] == 6]
    forged = lines[0] | {"headers": lines[0]["headers"] | {"ce_id": "forged", "ce_time": FAR_AHEAD}}
    signed.publish(owner(charges()), *lines[: -len(last)], forged)
    with run_auditor(write_service(signed, kafka), since=as_of(5)) as auditor:
        eventually(lambda: "no tick after --since is signed yet" in auditor.fetch("/readyz")[1], 30)
        assert auditor.value("last_success_timestamp_seconds") is None
        signed.publish(*last)
        eventually(lambda: ready(auditor), 30)
        assert auditor.value("last_success_timestamp_seconds") is not None
        assert auditor.value("findings_total", kind="signed") == 0


@pytest.mark.promise(45)
def test_proven_checkpoint_is_cosigned(signed: Published, kafka: SharedKafka, eventually: Eventually) -> None:
    """The result has the last checkpoint with a cosignature, until something is false.

    The bytes are those of C2SP tlog-cosignature.
    """
    lines = sign(signed.tiny, *range(7), topic_id=signed.facts.read_topic_id(signed.alerts))
    last = [line for line in lines if line["value"]["tick"] == 6]
    signed.publish(owner(charges()), *lines[: -len(last)])
    (signed.tiny.folder / "cosign.key").write_text(create_signing_key("auditor.example/1"))
    signed.tiny.config += "auditor: {cosign_key_file: cosign.key}\n"
    config = write_service(signed, kafka)
    result = config.parent / "result.json"
    with run_auditor(config, result=result) as auditor:
        eventually(
            lambda: result.exists() and "\ntick 5 " in json.loads(result.read_text())["cosigned"].get("0", ""), 30
        )
        text, _, signatures = json.loads(result.read_text())["cosigned"]["0"].partition("\n\n")
        signed.report(HIDDEN)
        signed.publish(*last)
        eventually(lambda: json.loads(result.read_text())["cosigned"] == {})
        assert auditor.value("findings_total", kind="safe") == 1
        assert auditor.value("findings_total", kind="signed") == 0
    assert text.startswith(SIGNER.verifier.name)
    name, encoded = signatures.splitlines()[1].removeprefix("— ").split(" ")
    cosignature = base64.b64decode(encoded)
    key = read_signing_key((config.parent / "cosign.key").read_text())
    public = base64.b64decode(str(key.verifier).split("+", 2)[2])[1:]
    assert name == "auditor.example/1"
    typed = b"\x04" + public
    assert cosignature[:4] == hashlib.sha256(b"auditor.example/1\n" + typed).digest()[:4]
    time = int.from_bytes(cosignature[4:12], "big")
    message = f"cosignature/v1\ntime {time}\n{text}\n".encode()
    Ed25519PublicKey.from_public_bytes(public).verify(cosignature[12:], message)  # raises if it is wrong
    assert key.cosigner_key == f"{name}+{cosignature[:4].hex()}+{base64.b64encode(typed).decode()}"
