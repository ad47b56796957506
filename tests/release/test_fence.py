"""Owners on a real Kafka fence each other by transactional ids with a constant prefix, and also earlier builds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from monitor.brokers.connections import KafkaConnections
from monitor.contracts.alerts import owner_record
from monitor.contracts.versions import FENCE
from monitor.errors import FencedError
from monitor.release import owner as owner_module
from monitor.release import version
from monitor.release.ledger import EncodedRecord, Writer, fence_earlier_builds
from monitor.release.owner import LedgerPlace, Owner
from monitor.release.version import compute_version
from tests.builders import ORIGIN, build_parameters
from tests.release.owning import decide, ledger, owner_values

MakeLedger = Callable[..., LedgerPlace]
TakeOver = Callable[..., Owner]
OpenEarlier = Callable[[LedgerPlace], Writer]


def earlier_owner_record() -> EncodedRecord:
    """Return the owner record of a build whose transactional id has no prefix."""
    record = owner_record(
        source="town",
        service="town",
        fingerprint="fingerprint-1",
        input_topic_id="input-1",
        partitions=1,
        lost_at=None,
        input_since=None,
        partition=0,
        at=ORIGIN,
    )
    value = {name: given for name, given in json.loads(record.value).items() if name != "fence"}
    return EncodedRecord(record.key, json.dumps(value).encode(), tuple(record.headers), ORIGIN // 1_000)


@pytest.fixture
def open_earlier(connections: KafkaConnections, request: pytest.FixtureRequest) -> OpenEarlier:
    """Opens the writer of an earlier build, which writes its owner record."""

    def open_writer(place: LedgerPlace) -> Writer:
        writer = Writer(connections, place.topic, place.topic_id, 0, prefix="")
        request.addfinalizer(writer.close)
        writer.append([earlier_owner_record()])
        return writer

    return open_writer


def test_transactional_id_has_a_constant_prefix(make_ledger: MakeLedger, take_over: TakeOver) -> None:
    """The transactional id is the prefix, the topic's id and the partition, without the name of the service."""
    place = make_ledger()
    producer: Any = take_over(place)._writer._producer
    assert producer.config["transactional_id"] == f"location-monitor.{place.topic_id}-0"


@pytest.mark.promise(30)
def test_owner_of_earlier_build_is_fenced(
    connections: KafkaConnections, make_ledger: MakeLedger, take_over: TakeOver, open_earlier: OpenEarlier
) -> None:
    """
    If an earlier build wrote the newest owner record, a takeover also fences that build's transactional id.

    Otherwise an instance of the earlier build that wakes up would draw a second answer.
    """
    place = make_ledger()
    earlier = open_earlier(place)
    owner = take_over(place)
    with pytest.raises(FencedError):
        earlier.append([earlier_owner_record()])
    decide(owner, owner.first_tick)
    assert [value.get("fence", 1) for value in owner_values(ledger(connections, place))][:2] == [1, FENCE]


def test_earlier_build_is_fenced_after_its_return(
    make_ledger: MakeLedger, take_over: TakeOver, open_earlier: OpenEarlier
) -> None:
    """An earlier build that took over from a present one is fenced by the next takeover."""
    place = make_ledger()
    take_over(place)
    earlier = open_earlier(place)
    take_over(place)
    with pytest.raises(FencedError):
        earlier.append([earlier_owner_record()])


@pytest.mark.promise(30)
def test_live_earlier_build_is_refused(
    make_ledger: MakeLedger, take_over: TakeOver, open_earlier: OpenEarlier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A takeover ends with the remedy if an instance of an earlier build takes over at the same time."""
    place = make_ledger()
    open_earlier(place)
    returned: list[Writer] = []

    def fence_and_return(*given: Any) -> None:
        fence_earlier_builds(*given)
        returned.append(open_earlier(place))

    monkeypatch.setattr(owner_module, "fence_earlier_builds", fence_and_return)
    with pytest.raises(FencedError, match="stop all instances of the earlier build"):
        take_over(place)
    monkeypatch.undo()
    take_over(place)
    with pytest.raises(FencedError):
        returned[0].append([earlier_owner_record()])


def test_builds_with_other_fences_differ_in_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances that do not fence each other have other versions, so they never share the release group."""
    parameters = build_parameters(("inn",), shards=1, max_lead=1)
    present = compute_version(parameters, "0123456789abcdef")
    monkeypatch.setattr(version, "FENCE", FENCE - 1)
    assert compute_version(parameters, "0123456789abcdef") != present
