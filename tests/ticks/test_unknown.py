"""Why a tick is unknown: each cause is counted, and one log line explains it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from operator import attrgetter
from typing import Any, Final

import pytest

from monitor.errors import UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import OffsetRange
from monitor.kinds.hot_spots.keys_and_parameters import HotSpots
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState, OwnerTerms
from monitor.records.unknown_causes import (
    CAUSES,
    FACTS_MISSING,
    INPUT_BEHIND,
    LEDGER_LOST,
    count_causes,
    explain,
)
from monitor.ticks.collect_answers import Decider, Decision
from monitor.ticks.tick_reports import TickReports
from monitor.time.instants import HOUR, SECOND, parse_instant
from monitor.time.schedule import Schedule
from tests.builders import replace_monitors, select
from tests.conftest import Eventually
from tests.ticks.deciding import decide_complete, make_mark, read
from tests.ticks.worlds import World

Make = Callable[..., Parameters]
MakeSite = Callable[..., Any]
NOON: Final = "2026-01-01T12:30:00Z"


@pytest.mark.promise(39)
def test_open_transaction_is_named(
    make_closed_site: MakeSite,
    put: Callable[..., None],
    connections: KafkaConnections,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    While a producer's transaction keeps a tick unknown, the log and the readiness say so, and no longer after its end.

        offset    0  1  2
                  x  o  x       "o" is open: nobody can read beyond offset 1
    """
    site = make_closed_site()
    put(site.input_topic, 1, 1)
    with closing(connections.create_producer(transactional_id=f"{site.input_topic}-open")) as open_one:
        open_one.init_transactions()
        open_one.begin_transaction()
        open_one.send(site.input_topic, value=b"o", partition=1).get(timeout=10)
        put(site.input_topic, 1, 1)
        site.windows.write([OffsetRange(1, 0, 1)], {})
        with caplog.at_level(logging.WARNING, "monitor.ticks.tick_reports"):
            assert site.tick_at_release()
        said = "input partition 1 cannot be read beyond offset 1: a producer has an open transaction there"
        assert caplog.text.count(said) == 1
        assert said in site.release.trouble
        open_one.abort_transaction()
    lacking = Evidence({}, {0: INPUT_BEHIND}, {1: (1, 3)})
    reports = TickReports(0, site.context)  # no input gives this evidence
    eventually(lambda: reports.report_unknown(1, lacking, Decision((), {})) == "")


def test_same_causes_are_logged_once(make_world: Callable[..., World], caplog: pytest.LogCaptureFixture) -> None:
    """
    A second unknown tick with the same causes is counted and not logged; a known tick after it is logged.

        tick        100        101        102
                    unknown    unknown    known
        log         reason                known again
    """
    world = make_world()
    release = world.take_partition()
    with caplog.at_level(logging.WARNING, "monitor.ticks.tick_reports"):
        for tick, end in ((100, 7), (101, 7), (102, 0)):
            world.input.end = end
            world.set_clocks(world.parameters.grid.as_of(tick) + SECOND)
            assert release.decide_tick(tick, world.stop)
    lines = [record.getMessage().partition(": ")[2] for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].endswith("the windows contain input partition 0 up to offset 0 of 7")
    assert lines[1] == "ticks are known again"
    assert world.observer.causes == [{INPUT_BEHIND: 1}] * 2


@pytest.mark.parametrize(
    ("asked", "request_", "cause"),
    [("windows", "read", "store_unreachable"), ("context.input_topic", "read_end_offsets_at", "kafka_unreachable")],
)
def test_unreachable_server_is_named(
    asked: str, request_: str, cause: str, make_closed_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Redis returns no reading, or Kafka no end offsets, the tick is unknown because of this server.

    What the shard lacks is not known.
    """
    site = make_closed_site()

    def away(_: Any) -> Any:
        raise UnreachableError("no answer")

    monkeypatch.setattr(attrgetter(asked)(site), request_, away)
    assert site.tick_at_release()
    assert site.statuses() == ["unknown"] * 3
    assert site.observer.causes == [{cause: 1}]
    assert site.observer.missing_records == {}


def test_missing_facts_count_by_shard(make_parameters: Make, noise: Any) -> None:
    """
    Each shard whose facts are incomplete counts, besides a shard that was not read: W = 3, tick 5.

        shard            0         1         2         3
        complete from    0         4         4     (not read)
        cause            -      missing   missing    behind
    """
    decider = Decider(make_parameters(places=8, shards=4), range(4), noise)
    readings = read(decider.build_questions(5, LedgerState()), complete_from=4)
    evidence = Evidence({shard: readings[shard] for shard in range(3)}, {3: INPUT_BEHIND})
    complete = replace(readings[0], complete_from=0)
    evidence = replace(evidence, readings={**evidence.readings, 0: complete})
    decision = decider.decide(5, evidence, LedgerState())
    assert count_causes(evidence.causes.values(), decision.unknown) == {INPUT_BEHIND: 1, FACTS_MISSING: 2}


def test_paused_shard_has_no_cause(make_parameters: Make, noise: Any) -> None:
    """A shard whose places are all paused is not unknown, although its facts are incomplete."""
    decider = Decider(make_parameters(watched={"stations": [1]}), [0], noise)
    state = LedgerState(marks={("stations", "place-1"): {4: make_mark(4, 3)}})
    decision = decide_complete(decider, 5, state, complete_from=4)
    assert decision.answers == {("stations", "paused"): 1}
    assert decision.unknown == set()


@pytest.mark.parametrize(
    "lost",
    [{"terms": OwnerTerms("town", 1, lost_at=parse_instant(NOON) + 1)}, {"expired_until": parse_instant(NOON) + 1}],
    ids=["lost", "expired"],
)
def test_lost_ledger_counts_by_shard(
    lost: dict[str, Any], make_parameters: Make, make_at_times: Callable[..., Any], noise: Any
) -> None:
    """A designated time before the loss of the ledger, or before an expired record, is unknown in each shard."""
    parameters = make_parameters(places=8, shards=4, watched={}, at_times=(make_at_times("noon", NOON),))
    decision = decide_complete(Decider(parameters, [1, 2], noise), 12, LedgerState(**lost))
    assert decision.answers == {("noon", "unknown"): 2}
    assert count_causes((), decision.unknown) == {LEDGER_LOST: 2}


def test_total_counts_incomplete_shards(make_parameters: Make, noise: Any) -> None:
    """An answer about all shards that is unknown counts the shards whose facts are incomplete."""
    busiest = HotSpots("busiest", Schedule((parse_instant(NOON),)), Fraction(1), 2, 2 * HOUR)
    parameters = replace_monitors(make_parameters(places=8, shards=4, watched={}), hot_spots=(busiest,))
    decider = Decider(parameters, [], noise, select(parameters, HotSpots))
    readings = read(decider.build_questions(13, LedgerState()), present=[0, 0])
    readings[2] = replace(readings[2], times_evicted_until=parse_instant(NOON))
    decision = decider.decide(13, Evidence(readings), LedgerState())
    assert decision.answers == {("busiest", "unknown"): 1}
    assert decision.unknown == {(2, FACTS_MISSING)}


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_an_explanation(cause: str) -> None:
    """Each cause of the closed list is explained."""
    assert explain({cause: 1}, {0: (3, 7)})
