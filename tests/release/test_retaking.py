"""A partition on real servers that is fenced, whose append fails, or whose topics are others: it is taken again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from monitor.brokers.connections import KafkaConnections
from monitor.errors import InputChangedError, LedgerChangedError, UnreachableError
from monitor.public.clock import SteppedClock
from monitor.public.parameters import Parameters
from monitor.release.ledger import LedgerRecord, read_partition
from tests.release.worlds import released

Make = Callable[..., Parameters]
MakeSite = Callable[..., Any]
Eventually = Callable[..., Any]


def test_one_that_was_fenced_takes_over_again(
    make_site: MakeSite, make_parameters: Make, clock: SteppedClock, kinds: Callable[..., list[str]]
) -> None:
    """Two instances on one ledger: the first one's tick 0 is refused; once it has it back, it decides what is left."""
    parameters = make_parameters()
    first = make_site(parameters, clock)
    second = make_site(parameters, clock, first.place)
    assert first.release.take_over()
    assert second.release.take_over()
    clock.move_to(released(parameters, 0))
    assert not first.tick(0)
    assert first.release.owner is None
    assert first.counted.ticks == []
    assert second.tick(0)
    assert first.release.take_over()
    clock.move_to(released(parameters, 1))
    assert first.release.next_tick() == 1
    assert not first.tick(0)
    assert first.tick(1)
    assert [json.loads(record.value)["tick"] for record in first.release.last_records] == [1, 1, 1]
    told = [kind for kind in kinds(first.place) if kind != "owner"]
    assert told == ["over_time"] * 9, "tick 0, its bytes again by the takeover, tick 1"


def test_an_append_whose_outcome_is_not_known_is_taken_over_and_never_drawn_again(
    make_site: MakeSite,
    make_parameters: Make,
    clock: SteppedClock,
    connections: KafkaConnections,
    noise: Any,
    kinds: Callable[..., list[str]],
) -> None:
    """
    The answers of tick 0 are in the ledger, their acknowledgement is lost; the next draw would be another answer.

        draw      0          9
        append    sent, ?    -     taken over again: the same bytes once more (docs/rules.md, rule 4)
    """
    parameters = make_parameters(places=1)
    site = make_site(parameters, clock)
    noise.script = [0, 9, 9]
    site.release.take_over()
    writer = site.release.owner._writer
    append = writer.append

    def unacknowledged(records: Sequence[LedgerRecord]) -> int:
        append(records)
        writer.append = append  # once
        raise UnreachableError("no broker answers")

    writer.append = unacknowledged
    clock.move_to(released(parameters, 0))
    assert not site.tick(0)
    assert site.release.take_over()
    assert site.release.next_tick() == 1
    assert not site.tick(0)
    told: dict[bytes, set[LedgerRecord]] = {}
    for _, record in read_partition(connections, site.place.topic, 0):
        told.setdefault(dict(record.headers)["ce_id"], set()).add(record)
    assert {len(records) for records in told.values()} == {1}
    assert kinds(site.place) == ["owner", "over_time", "owner", "over_time"]
    assert len(noise.drawn) == 1


def test_a_successor_decides_what_was_left_with_the_counts_that_it_had(
    make_site: MakeSite, make_parameters: Make, clock: SteppedClock
) -> None:
    """Ended within tick 1's release: the next one answers tick 1 before slot 2 has closed, and none is lost."""
    parameters = make_parameters()
    site = make_site(parameters, clock)
    site.release.take_over()
    clock.move_to(released(parameters, 0))
    assert site.tick(0)
    clock.move_to(parameters.grid.as_of(1))
    site.release.close()
    successor = site.again()
    assert successor.take_over()
    clock.move_to(parameters.grid.as_of(2) - 1)
    assert successor.next_tick() == 1
    assert successor.decide_tick(1, site.stop)
    assert [json.loads(record.value)["tick"] for record in successor.last_records] == [1, 1, 1]
    assert site.counted.lost_ticks == []
    successor.close()


def test_an_input_that_was_made_anew_ends_the_tick(
    make_site: MakeSite, make_parameters: Make, clock: SteppedClock, admin: Any, eventually: Eventually
) -> None:
    """Everything must be made again under another fingerprint; nothing is decided."""
    parameters = make_parameters()
    site = make_site(parameters, clock)
    site.release.take_over()
    admin.delete_topics([site.input_topic])
    eventually(lambda: site.input_topic not in admin.list_topics())
    clock.move_to(released(parameters, 0))
    with pytest.raises(InputChangedError):
        site.tick(0)
    assert site.release.last_tick is None


def test_a_ledger_that_was_made_anew_ends_the_tick_and_nothing_gets_into_it(
    make_site: MakeSite,
    make_parameters: Make,
    clock: SteppedClock,
    admin: Any,
    connections: KafkaConnections,
    eventually: Eventually,
) -> None:
    """Its owner goes by the topic's id, its records by the topic's name: they would stand beside another's."""
    parameters = make_parameters()
    site = make_site(parameters, clock)
    site.release.take_over()
    clock.move_to(released(parameters, 0))
    assert site.tick(0)
    admin.delete_topics([site.place.topic])
    eventually(lambda: site.place.topic not in admin.list_topics())
    admin.create_topics({site.place.topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
    clock.move_to(released(parameters, 1))
    with pytest.raises(LedgerChangedError):
        site.tick(1)
    assert list(read_partition(connections, site.place.topic, 0)) == []
