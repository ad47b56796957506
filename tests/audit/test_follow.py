"""The standing auditor on real topics: what it finds as it is published, restarts, configurations, a lost input.

The run is drawn in records.py, here in two output partitions: shard 0 of `walk` and `night` is in partition 0.
"""

from __future__ import annotations

import csv
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaError

from monitor.audit.compare_ticks import Engine, Run
from monitor.audit.configuration import read_terms
from monitor.audit.findings import Outcome
from monitor.audit.follow_topic import Follower
from monitor.audit.live import start_audit
from monitor.audit.live.topic_facts import KafkaTopics
from monitor.audit.topic_reader import Sources
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.kafka_python_3_0.fetcher import FetchState, read_leniently
from tests.audit.conftest import Tiny
from tests.audit.records import charges, owner
from tests.kit.topics import create_topic, open_input
from tests.shared_kafka import SharedKafka

STRANGE = "planted-person-7"
LONG_AGO, FAR_AHEAD = "2001-01-01T00:00:00Z", "2199-01-01T00:00:00Z"
HIDDEN = [f"q{n},park,2026-01-01T06:10:00Z,2026-01-01T06:20:00Z," for n in range(2)]


@dataclass
class Published:
    """The tiny run, on topics that tests fill step by step."""

    tiny: Tiny
    kafka: KafkaConnections
    visits: str
    alerts: str
    facts: KafkaTopics

    def create(self) -> None:
        create_topic(self.kafka, self.visits, 2)
        create_topic(self.kafka, self.alerts)

    def report(self, lines: list[str] | None = None) -> None:
        """Produce lines of visits; by default those of the run."""
        header = self.tiny.lines[:1]
        with closing(self.kafka.create_producer()) as producer:
            for number, row in enumerate(csv.DictReader(header + (self.tiny.lines[1:] if lines is None else lines))):
                reported = row.pop("reported_at") or row["left_at"]
                stamp = int(datetime.fromisoformat(reported).timestamp() * 1_000)
                producer.send(self.visits, json.dumps(row).encode(), partition=number % 2, timestamp_ms=stamp)
            producer.flush()

    def publish(self, *records: dict[str, Any]) -> None:
        """Produce output records; by default those of the run."""
        with closing(self.kafka.create_producer()) as producer:
            for line in records or self.tiny.records:
                headers = [(name, text.encode()) for name, text in line["headers"].items()]
                value, key = json.dumps(line["value"]).encode(), line["key"].encode()
                producer.send(self.alerts, value, key, headers=headers, partition=line["partition"])
            producer.flush()

    def make_sources(self, facts: KafkaTopics | None = None, **changes: Any) -> Sources:
        """Return the topics of the run."""
        facts, consumer = facts or self.facts, self.kafka.create_consumer
        dated = partial(open_input, self.kafka)
        sources = Sources(self.alerts, consumer, facts.read_topic_id, facts.log_ends, self.visits, dated)
        return replace(sources, **changes)

    def follow(self, sources: Sources | None = None, **options: Any) -> Follower:
        """Return a follower of the configuration as it is now."""
        terms = read_terms(self.tiny.write()[1])
        return Follower([terms], sources or self.make_sources(), Run(ends=False, **options))

    def judge(self, **options: Any) -> Engine:
        """Follow the topics to their present ends, and require that nothing waits."""
        with closing(self.follow(**options)) as follower:
            while follower.take_turn():
                pass
            assert follower.cut_off == ""
            assert follower.waiting_ticks == 0
        return follower.engine


@pytest.fixture
def run(tiny: Tiny, kafka: SharedKafka, monkeypatch: pytest.MonkeyPatch) -> Iterator[Published]:
    """A run whose topics do not exist in other tests. The command, too, takes the tests' timestamps for stamps."""
    monkeypatch.setattr(start_audit, "FetchState", partial(FetchState, stamped_by_brokers=False))
    name, connections = uuid.uuid4().hex[:10], KafkaConnections((kafka.bootstrap_servers,))
    with closing(KafkaTopics(connections.create_admin)) as facts:
        made = Published(tiny, connections, f"visits-{name}", f"alerts-{name}", facts)
        made.create()
        yield made


@pytest.mark.promise(5)
def test_late_record_is_found(run: Published) -> None:
    """
    A record that a broker stamped before a tick closed, but appended after its answers, makes a "safe" false.

        input     p1 … p4                      q0 q1      stamped at the end of slot 6; T = 2
        output              ticks 0 to 6
    """
    run.report()
    run.publish(owner(charges()), *run.tiny.records)
    run.report([f"q{n},park,2026-01-01T06:10:00Z,2026-01-01T06:20:00Z,2026-01-01T06:59:59Z" for n in range(2)])
    assert set(run.judge().findings.totals) == {"safe"}


@pytest.mark.promise(37)
def test_unstamped_records_are_not_counted(run: Published) -> None:
    """
    A visit whose record no broker stamped is in no count, and makes no "safe" false.

    Its timestamp shows neither how far the input was read nor, after records have expired, where it begins.
    """

    def open_stamped(**settings: str) -> Any:
        return read_leniently(run.kafka.create_consumer(**settings), FetchState(tries=1))

    run.report([*run.tiny.lines[1:], f"p9,park,{LONG_AGO},{LONG_AGO},", f"p9,park,{FAR_AHEAD},{FAR_AHEAD},", *HIDDEN])
    run.publish(owner(charges()), *run.tiny.records)
    assert set(run.judge().findings.totals) == {"safe"}
    engine = run.judge(sources=run.make_sources(open_input=open_stamped))
    assert engine.findings.totals == {}
    assert engine.outcomes == {Outcome.PROVEN: 7}
    with closing(run.kafka.create_admin()) as admin:
        admin.delete_records({TopicPartition(run.visits, 0): 1, TopicPartition(run.visits, 1): 1})
    assert run.judge(sources=run.make_sources(open_input=open_stamped)).outcomes == {Outcome.PARTIAL: 7}


def plant_second_answer(run: Published) -> None:
    """Let tick 3 answer although its ε is spent."""
    mark = {"noisy_count": 3, "epsilon": "1"}
    marks = [mark | {"tick": 1, "until": 4}, mark | {"tick": 3, "until": 6}]
    p_value = run.tiny["walk/park/1"]["p_value"]
    run.tiny.walk(3, "noisy_count", marks, noisy_count=3, count_at_most=3, p_value=p_value)


@pytest.mark.promise(37)
def test_planted_falsehoods_are_found(run: Published) -> None:
    """A false "safe", a second value, a second answer and a stranger's record are found; nothing repeats its words."""
    run.report([*run.tiny.lines[1:], *HIDDEN])  # two people at the park make the "safe" of tick 6 false
    plant_second_answer(run)
    again = json.loads(json.dumps(run.tiny.find("walk/park/6")))
    again["value"]["status"] = "unknown"
    visit = {"person_id": STRANGE, "location_id": "park", "tick": 10**9}
    stranger = {"key": STRANGE, "headers": {"ce_id": STRANGE}, "value": visit, "partition": 0}
    run.publish(owner(charges()), *run.tiny.records[:5], stranger, *run.tiny.records[5:], again)
    found = run.judge().findings
    # A second answer within a window may also cost more than stated.
    assert {"safe", "bytes", "budget", "form"} <= set(found.totals) <= {"safe", "bytes", "budget", "form", "paid"}
    assert STRANGE not in str(found.listed)


def split_by_tick(run: Published) -> Iterator[list[dict[str, Any]]]:
    for tick in range(7):
        yield [line for line in run.tiny.records if line["value"]["tick"] == tick]


def test_answer_past_the_end_is_compared(run: Published) -> None:
    """If a tick is published while the follower catches up, it is compared with the input published before it."""
    *earlier, last = split_by_tick(run)
    run.publish(owner(charges()), *(line for records in earlier for line in records))

    class Late(KafkaTopics):
        """Facts about topics that publish a tick right after the first request for the ends of the input."""

        published = False

        def log_ends(self, name: str) -> Any:
            ends = super().log_ends(name)
            if name == run.visits and not self.published:
                self.published = True
                run.report([f"q{n},park,2026-01-01T06:10:00Z,2026-01-01T06:20:00Z," for n in range(2)])
                run.publish(*last)
            return ends

    facts = Late(run.kafka.create_admin)
    with closing(facts), closing(run.follow(run.make_sources(facts))) as follower:
        while follower.take_turn() or follower.engine.output.parts.last[0] < 6:
            pass
    assert set(follower.engine.findings.totals) == {"safe"}


@contextmanager
def open_transaction(run: Published, *lines: str) -> Iterator[Any]:
    """Report visits in a transaction that stays open, and yield its producer."""
    with closing(run.kafka.create_producer(transactional_id=f"slow-{run.visits}")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for row in csv.DictReader([*run.tiny.lines[:1], *lines]):
            stamp = int(datetime.fromisoformat(row["left_at"]).timestamp() * 1_000)
            row.pop("reported_at")
            producer.send(run.visits, json.dumps(row).encode(), partition=0, timestamp_ms=stamp).get(timeout=10)
        yield producer


@pytest.mark.promise(37)
@pytest.mark.parametrize("commits", [True, False], ids=["committed", "aborted"])
def test_open_transaction_is_waited_for(run: Published, commits: bool) -> None:
    """No tick is proven while a transaction hides visits that it may count. They count if it is committed.

    input    p1 … p4 | q0 q1 (open) ............... | commit: the "safe" of tick 6 is false
    auditor          reads to here, and must wait
    """
    run.report()
    run.publish(owner(charges()), *run.tiny.records)
    with open_transaction(run, *HIDDEN) as producer, closing(run.follow()) as follower:
        for _ in range(2):
            assert not follower.take_turn()
            assert follower.engine.outcomes == {Outcome.PROVEN: 1}  # later visits than this tick's were read
            assert follower.waiting_ticks == 6
            assert "a transaction is open" in follower.delayed
            assert follower.cut_off == ""
        (producer.commit_transaction if commits else producer.abort_transaction)()
        while follower.waiting_ticks:
            follower.take_turn()
        assert (follower.delayed, follower.cut_off) == ("", "")
    assert follower.engine.outcomes == {Outcome.PROVEN: 7}
    assert set(follower.engine.findings.totals) == ({"safe"} if commits else set())


def test_later_transactions_are_not_waited_for(run: Published) -> None:
    """A tick waits only for transactions that were open when it was read; otherwise a busy producer would block it."""
    run.report()
    run.publish(owner(charges()), *run.tiny.records)
    with open_transaction(run, *HIDDEN) as producer, closing(run.follow()) as follower:
        follower.take_turn()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(run.visits, b"{}", partition=0).get(timeout=10)
        follower.take_turn()
        assert follower.engine.outcomes == {Outcome.PROVEN: 7}
        producer.abort_transaction()


def test_answers_about_earlier_input_are_partial(run: Published) -> None:
    """Answers about an input that was re-created since are not proven, because the visits that they count are gone."""
    run.report()
    ticks = list(split_by_tick(run))
    earlier, later = (
        owner(charges(), input_topic_id="a" * 32),
        owner(charges(), input_topic_id=run.facts.read_topic_id(run.visits)),
    )
    run.publish(
        earlier, *(line for tick in ticks[:4] for line in tick), later, *(line for tick in ticks[4:] for line in tick)
    )
    engine = run.judge()
    assert engine.outcomes == {Outcome.PARTIAL: 4, Outcome.PROVEN: 3}
    assert engine.findings.totals == {}


class LateFacts(KafkaTopics):
    """Facts about topics; the first request for the input's `ends`, or for its `id`, fails."""

    def __init__(self, run: Published, late: str) -> None:
        super().__init__(run.kafka.create_admin)
        self._late = run.visits, late

    def _fails(self, name: str, what: str) -> bool:
        fails = (name, what) == self._late
        self._late = ("", "") if fails else self._late
        return fails

    def read_topic_id(self, name: str) -> str:
        return "" if self._fails(name, "id") else super().read_topic_id(name)

    def log_ends(self, name: str) -> Mapping[int, int]:
        if self._fails(name, "ends"):
            raise KafkaError("no leader")
        return super().log_ends(name)


@pytest.mark.parametrize(("kind", "late"), [("at_least", "ends"), ("lengths", "id")])
def test_earlier_input_causes_no_findings(run: Published, kind: str, late: str) -> None:
    """Lower bounds and lengths that count an earlier input are not compared with the present, empty one."""
    if kind == "at_least":
        run.tiny.bound({"shop": 2})
    else:
        run.tiny.watch_lengths(2_400 + 45 * 2_400, 1_200)  # true with the visits, impossible without
    run.publish(owner(None, input_topic_id="a" * 32), *run.tiny.records)
    facts = LateFacts(run, late)
    with closing(facts), closing(run.follow(run.make_sources(facts))) as follower:
        follower.take_turn()
        assert follower.waiting_ticks
        while follower.take_turn() or follower.waiting_ticks:
            pass
        assert follower.proven_stretch is None
    assert follower.engine.findings.totals == {}
    assert set(follower.engine.outcomes) == {Outcome.PARTIAL}


def test_follower_reports_at_each_tick(run: Published) -> None:
    """The follower reports at each tick that it is alive, because a turn can take minutes while it catches up."""
    run.publish(owner(charges()), *run.tiny.records)
    alive: list[int] = []
    sources = run.make_sources(open_input=None, alive=lambda: alive.append(1))
    with closing(run.follow(sources=sources)) as follower:
        follower.take_turn()
        assert follower.engine.complete
    assert len(alive) > 7


def test_output_alone_is_checked_without_input(run: Published) -> None:
    """Without input the ε, pauses, form and bytes are checked, and no tick counts as proven."""
    plant_second_answer(run)
    run.publish(owner(charges()), *run.tiny.records)
    engine = run.judge(sources=run.make_sources(open_input=None))
    assert "budget" in engine.findings.totals
    assert set(engine.outcomes) == {Outcome.OUTPUT_ONLY}


def test_lost_input_is_compared_later(run: Published) -> None:
    """While the input cannot be read, the follower reports it and checks the output; it compares all answers later."""
    run.report([*run.tiny.lines[1:], "q1,park,2026-01-01T00:10:00Z,2026-01-01T00:20:00Z,"])
    plant_second_answer(run)
    run.publish(owner(charges()), *run.tiny.records)
    down = [True]

    def open_later(**settings: str) -> Any:
        if down:
            raise ConnectionError("not now")
        return open_input(run.kafka, **settings)

    with closing(run.follow(run.make_sources(open_input=open_later))) as follower:
        follower.take_turn()
        assert "not now" in follower.cut_off
        assert follower.waiting_ticks == 7
        assert follower.engine.outcomes == {}
        assert "budget" in follower.engine.findings.totals
        assert "safe" not in follower.engine.findings.totals
        down.clear()
        follower.take_turn()
        assert follower.cut_off == ""
    assert follower.engine.outcomes == {Outcome.PROVEN: 7}
    assert "safe" in follower.engine.findings.totals


def test_waiting_answers_are_bounded_by_bytes(run: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    """If too many bytes wait for the input, the oldest ticks are given up, and the newest is kept."""

    def refuse(**settings: str) -> Any:
        raise ConnectionError(str(settings))

    monkeypatch.setattr("monitor.audit.compare_ticks.MOST_WAITING_BYTES", 1)
    run.publish(owner(charges()), *run.tiny.records)
    with closing(run.follow(run.make_sources(open_input=refuse))) as follower:
        follower.take_turn()
        assert follower.waiting_ticks == 1
        assert not follower.engine.complete
    assert follower.engine.outcomes == {Outcome.UNPROVEN: 6}
