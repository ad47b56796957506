"""Owners on a real Kafka fence each other by transactional ids with a constant prefix, and also earlier builds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from fractions import Fraction
from typing import Any

import pytest

from monitor.brokers.connections import KafkaConnections
from monitor.contracts.alerts import make_owner_record
from monitor.contracts.versions import FENCE
from monitor.errors import FencedError, UnreachableError
from monitor.public.clock import SteppedClock
from monitor.public.parameters import Parameters
from monitor.release import configuration_version, owner_records
from monitor.release.configuration_version import compute_version
from monitor.release.ledger import EncodedRecord, Writer, fence_earlier_builds
from monitor.release.ledger_reader import LedgerReader
from monitor.release.owner import LedgerPlace, Owner
from monitor.release.owner_records import OwnerRecords
from monitor.release.period_check import PeriodCheck, PeriodLimits
from tests.builders import ORIGIN, build_parameters
from tests.release.owning import decide, ledger, read_owner_values

MakeLedger = Callable[..., LedgerPlace]
TakeOver = Callable[..., Owner]
OpenEarlier = Callable[..., Writer]
TakeChecked = Callable[[LedgerPlace, int], Owner]


def make_earlier_owner_record(partition: int = 0) -> EncodedRecord:
    """Return the owner record of a build whose transactional id has no prefix."""
    record = make_owner_record(
        source="town",
        service="town",
        fingerprint="fingerprint-1",
        input_topic_id="input-1",
        partitions=1,
        lost_at=None,
        input_since=None,
        partition=partition,
        at=ORIGIN,
    )
    value = {name: given for name, given in json.loads(record.value).items() if name != "fence"}
    return EncodedRecord(record.key, json.dumps(value).encode(), tuple(record.headers), ORIGIN // 1_000)


@pytest.fixture
def open_earlier(connections: KafkaConnections, request: pytest.FixtureRequest) -> OpenEarlier:
    """A function that opens the writer of an earlier build, which writes its owner record."""

    def open_writer(place: LedgerPlace, partition: int = 0) -> Writer:
        writer = Writer(connections, place.topic, place.topic_id, partition, prefix="")
        request.addfinalizer(writer.close)
        writer.append([make_earlier_owner_record(partition)])
        return writer

    return open_writer


@pytest.fixture
def take_checked(
    connections: KafkaConnections, make_parameters: Callable[..., Parameters], clock: SteppedClock, noise: Any
) -> Iterator[TakeChecked]:
    """A function that takes over one of two partitions, with a period check that fits only without other owners."""
    parameters = make_parameters(shards=2)
    with ExitStack() as opened:

        def take(place: LedgerPlace, partition: int) -> Owner:
            reader = LedgerReader(connections, parameters, place.topic, 2, clock.now)
            limits = PeriodLimits(Fraction(1_000), Fraction(1_000))
            check = PeriodCheck(connections, place, parameters, limits, reader, 2, clock.now)
            return opened.enter_context(closing(Owner(connections, place, partition, parameters, noise, clock, check)))

        yield take


def return_before_owner_record(
    monkeypatch: pytest.MonkeyPatch, open_one: Callable[[], Writer], at: int
) -> list[Writer]:
    """Let an earlier build take over a partition after the next owner has read it, and before its owner record."""
    announce, returned = OwnerRecords.announce, list[Writer]()

    def return_first(self: OwnerRecords, writer: Writer, partition: int, *given: Any) -> Any:
        if partition == at:
            returned.append(open_one())
        return announce(self, writer, partition, *given)

    monkeypatch.setattr(OwnerRecords, "announce", return_first)
    return returned


def fail(*_given: Any) -> None:
    """Fail as if Kafka did not answer."""
    raise UnreachableError("Kafka does not answer")


def fail_for_second() -> Callable[..., None]:
    """Return a function whose first call does nothing, and whose later calls fail."""
    calls: list[None] = []

    def call(*_given: Any) -> None:
        calls.append(None)
        if len(calls) > 1:
            fail()

    return call


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
        earlier.append([make_earlier_owner_record()])
    decide(owner, owner.first_tick)
    assert [value.get("fence", 1) for value in read_owner_values(ledger(connections, place))][:2] == [1, FENCE]


def test_returned_earlier_build_is_fenced(
    make_ledger: MakeLedger, take_over: TakeOver, open_earlier: OpenEarlier
) -> None:
    """An earlier build that took over from a present one is fenced by the next takeover."""
    place = make_ledger()
    take_over(place)
    earlier = open_earlier(place)
    take_over(place)
    with pytest.raises(FencedError):
        earlier.append([make_earlier_owner_record()])


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

    monkeypatch.setattr(owner_records, "fence_earlier_builds", fence_and_return)
    with pytest.raises(FencedError, match="stop all instances of the earlier build"):
        take_over(place)
    monkeypatch.undo()
    take_over(place)
    with pytest.raises(FencedError):
        returned[0].append([make_earlier_owner_record()])


@pytest.mark.promise(30)
@pytest.mark.parametrize("step", ["require_ledger", "fence_earlier_builds"])
def test_earlier_build_is_fenced_after_failure(
    make_ledger: MakeLedger,
    take_over: TakeOver,
    open_earlier: OpenEarlier,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    """
    The next takeover fences an earlier build that took over during a takeover which then failed.

    The failed takeover wrote the newest owner record, after that of the earlier build.
    """
    place = make_ledger()
    returned = return_before_owner_record(monkeypatch, lambda: open_earlier(place), 0)
    monkeypatch.setattr(owner_records, step, fail)
    with pytest.raises(UnreachableError):
        take_over(place)
    monkeypatch.undo()
    returned[0].append([EncodedRecord(b"other", b"{}", (), ORIGIN // 1_000)])  # it may still write
    take_over(place)
    with pytest.raises(FencedError):
        returned[0].append([make_earlier_owner_record()])


def test_earlier_build_is_fenced_once(
    connections: KafkaConnections,
    make_ledger: MakeLedger,
    take_over: TakeOver,
    open_earlier: OpenEarlier,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a takeover that fenced the earlier builds, later ones need no right to their transactional id."""
    place = make_ledger()
    open_earlier(place)
    take_over(place)
    monkeypatch.setattr(owner_records, "fence_earlier_builds", fail)
    for _ in range(2):
        owner = take_over(place)
    records = decide(owner, owner.first_tick)
    fenced_to: list[Any] = [value.get("fenced_to") for value in read_owner_values(ledger(connections, place))]
    assert fenced_to[0] is None
    assert fenced_to[0] is None
    assert fenced_to[1] > 0
    assert set(fenced_to[1:]) == {fenced_to[1]}
    assert len(fenced_to) == 4 + (not records)


@pytest.mark.promise(30)
def test_period_check_fences_earlier_builds(
    make_ledger: MakeLedger, take_checked: TakeChecked, open_earlier: OpenEarlier
) -> None:
    """
    If the period check fences an owner of another partition, it also fences an earlier build there.

    Its owner record would otherwise hide the earlier build from the next takeover of that partition.
    """
    place = make_ledger(2)
    earlier = [open_earlier(place, partition) for partition in (0, 1)]
    take_checked(place, 0)
    for partition, writer in enumerate(earlier):
        with pytest.raises(FencedError):
            writer.append([make_earlier_owner_record(partition)])
    take_checked(place, 1)


@pytest.mark.promise(30)
def test_period_check_fences_after_a_failure(
    make_ledger: MakeLedger, take_checked: TakeChecked, open_earlier: OpenEarlier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a period check failed between its owner record in another partition and the fence, the next one fences."""
    place = make_ledger(2)
    open_earlier(place, 1)
    returned = return_before_owner_record(monkeypatch, lambda: open_earlier(place, 1), 1)
    monkeypatch.setattr(owner_records, "require_ledger", fail_for_second())
    with pytest.raises(UnreachableError):
        take_checked(place, 0)
    monkeypatch.undo()
    returned[0].append([EncodedRecord(b"other", b"{}", (), ORIGIN // 1_000)])  # it may still write
    take_checked(place, 0)
    with pytest.raises(FencedError):
        returned[0].append([make_earlier_owner_record(1)])


def test_other_fences_mean_other_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances that do not fence each other have other versions, so they never share the release group."""
    parameters = build_parameters(("inn",), shards=1, max_lead=1)
    present = compute_version(parameters, "0123456789abcdef")
    monkeypatch.setattr(configuration_version, "FENCE", FENCE - 1)
    assert compute_version(parameters, "0123456789abcdef") != present
