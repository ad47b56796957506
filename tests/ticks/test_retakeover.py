"""Repeated takeovers on real servers: after a fence, a failed append, or a replaced topic."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from monitor.errors import LedgerChangedError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.parameters import Parameters
from monitor.ledger.append_to_ledger import Writer
from monitor.ledger.read_ledger import read_partition
from monitor.records.output_records import OutputRecord
from monitor.time.clock import SteppedClock
from tests.kit.topics import recreate_topic
from tests.ticks.worlds import reading_instant

Make = Callable[..., Parameters]
MakeSite = Callable[..., Any]


@pytest.mark.promise(30)
def test_fenced_owner_takes_over_again(
    make_site: MakeSite, make_parameters: Make, clock: SteppedClock, kinds: Callable[..., list[str]]
) -> None:
    """A fenced instance takes over again and decides the remaining ticks."""
    parameters = make_parameters()
    first = make_site(parameters, clock)
    second = make_site(parameters, clock, first.place)
    assert first.release.take_over()
    assert second.release.take_over()
    clock.move_to(reading_instant(parameters, 0))
    assert not first.tick(0)
    assert first.release.owner is None
    assert first.observer.ticks == []
    assert second.tick(0)
    assert first.release.take_over()
    clock.move_to(reading_instant(parameters, 1))
    assert first.release.find_next_tick() == 1
    assert not first.tick(0)
    assert first.tick(1)
    assert [json.loads(record.value)["tick"] for record in first.release.last_records] == [1, 1, 1]
    answers = [kind for kind in kinds(first.place) if kind != "owner"]
    assert answers == ["over_time"] * 9, "tick 0, its bytes again by the takeover, tick 1"


@pytest.mark.promise(28)
def test_unknown_outcome_is_never_drawn_again(
    make_site: MakeSite,
    make_parameters: Make,
    clock: SteppedClock,
    connections: KafkaConnections,
    noise: Any,
    kinds: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    If the acknowledgement of tick 0 is lost, the takeover repeats its bytes; a new draw would be another answer.

        draw      0          9
        append    sent, ?    -     taken over again: the same bytes once more (docs/rules.md, rule 4)
    """
    parameters = make_parameters(places=1)
    site = make_site(parameters, clock)
    noise.script = [0, 9, 9]
    site.release.take_over()
    append = Writer.append

    def unacknowledged(writer: Writer, records: Sequence[OutputRecord], within: float) -> int:
        append(writer, records, within)
        monkeypatch.setattr(Writer, "append", append)  # once
        raise UnreachableError("no broker answers")

    monkeypatch.setattr(Writer, "append", unacknowledged)
    clock.move_to(reading_instant(parameters, 0))
    assert not site.tick(0)
    assert site.release.take_over()
    assert site.release.find_next_tick() == 1
    assert not site.tick(0)
    answers: dict[bytes, set[OutputRecord]] = {}
    for _, record in read_partition(connections, site.place.topic, 0):
        answers.setdefault(dict(record.headers)["ce_id"], set()).add(record)
    assert {len(records) for records in answers.values()} == {1}
    assert kinds(site.place) == ["owner", "over_time", "owner", "over_time"]
    assert len(noise.drawn) == 1


@pytest.mark.promise(32)
def test_recreated_ledger_gets_no_answers(
    make_site: MakeSite,
    make_parameters: Make,
    clock: SteppedClock,
    admin: Any,
    connections: KafkaConnections,
) -> None:
    """A re-created ledger ends the tick, and no answer gets into it: its fence belongs to the new topic id."""
    parameters = make_parameters()
    site = make_site(parameters, clock)
    site.release.take_over()
    clock.move_to(reading_instant(parameters, 0))
    assert site.tick(0)
    recreate_topic(connections, site.place.topic)
    clock.move_to(reading_instant(parameters, 1))
    with pytest.raises(LedgerChangedError):
        site.tick(1)
    assert list(read_partition(connections, site.place.topic, 0)) == []
