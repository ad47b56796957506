"""A subscriber that begins after a forged record: it shows what was signed since, and no "safe" that hides an alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from monitor.client import connect
from monitor.client import verification as verification_module
from monitor.client.known_at_a_moment import KnownPlaces
from monitor.client.state_from_records import SubscriberView
from monitor.client.verification import FEWEST_WAITING, Verification, read_trust
from monitor.errors import UsageError
from monitor.kinds.at_times.record import AT_TIMES
from monitor.kinds.locations import find_shard
from monitor.records.output_records import OutputRecord, make_record
from monitor.time.instants import DAY, HOUR, MINUTE, format_instant
from tests.client.records import REGISTRY, SLOTS, over_time, snapshot
from tests.client.test_verification import ATTACKS, Ticks, alter, make_ticks
from tests.kit.signed import SIGNER, TOPIC_ID, make_answers, open_log, publish

PLACES: Final = Path(__file__).parents[2] / "config" / "city-locations.csv"
FAR: Final = b"9000-01-01T00:00:00Z"


def begin(since: int | None, records: Sequence[OutputRecord]) -> tuple[Verification, list[bytes | None]]:
    """Return the verification of records after an instant, and the values of the answers that it let through."""
    verification = Verification(SIGNER.verifier, TOPIC_ID, since=since)
    return verification, [record.value for record in verification.check(publish(records))]


def list_values(ticks: Ticks) -> list[bytes | None]:
    return [record.value for tick in ticks for record in tick[:2]]


@pytest.mark.promise(45)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__.strip("_"))
def test_attack_before_is_skipped(attack: Callable[[Ticks], Ticks]) -> None:
    """After any attack on earlier ticks, exactly the ticks after `since` are shown, and there is no problem."""
    ticks = make_ticks(6)
    records = [record for tick in [*attack(ticks[:4]), *ticks[4:]] for record in tick]
    assert begin(None, records)[0].problem
    verification, values = begin(3 * HOUR, records)
    assert (verification.problem, verification.unverified) == ("", "")
    assert values == list_values(ticks[4:])


@pytest.mark.promise(45)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__.strip("_"))
def test_attack_after_is_found(attack: Callable[[Ticks], Ticks]) -> None:
    """An attack on later ticks than the first one that is shown is found, as without `since`."""
    records = [record for tick in attack(make_ticks()) for record in tick]
    assert begin(-1, records)[0].problem == begin(None, records)[0].problem != ""


@pytest.mark.promise(45)
def test_forged_time_does_not_count() -> None:
    """Forged records of the far future, and replayed ticks, do not delay the beginning, and are not shown."""
    ticks = make_ticks(5)
    future = [alter(record, ce_time=FAR) for record in make_answers(9)]
    records = [*ticks[0], future[0], *ticks[1][:2], future[1], ticks[1][2], *ticks[2], *ticks[0], *future, *ticks[3]]
    verification, values = begin(2 * HOUR, [*records, *ticks[4]])
    assert verification.problem == ""
    assert values == list_values(ticks[3:])


def test_partition_without_places_hides_nothing() -> None:
    """A partition whose ticks have no answers is verified, also after a forged record in it."""
    log, forged = open_log(), make_answers(1)
    empty = [log.sign(tick, tick * HOUR, []) for tick in range(4)]
    for records in (empty, [*empty[:2], *forged, *empty[2:]]):
        verification, values = begin(2 * HOUR, records)
        assert (verification.problem, verification.unverified, values) == ("", "", [])


def test_waiting_display_says_why() -> None:
    """Until a tick after `since` is signed, the verification says that there is none."""
    verification, values = begin(9 * HOUR, [record for tick in make_ticks() for record in tick])
    assert values == []
    assert verification.unverified == (
        "output partition 0: no tick after 1970-01-01T09:00:00Z is signed by example.org/town"
    )


class Log:
    """The records of a partition, some of them forged, as a subscriber with `since` receives them.

    Places have a monitor over time, whose answer is "safe" at each tick, and a designated time in slot 2, at which the
    last record (tick 6) has an alarm for `school`.
    """

    def __init__(self) -> None:
        self.signed, self.records = open_log(), list[OutputRecord]()

    def sign(self, tick: int, *others: OutputRecord, forged: Sequence[OutputRecord] = ()) -> None:
        """Append a tick. Forged records, which no checkpoint signs, come before its last record."""
        answers = [*(over_time(place, tick, 0) for place in REGISTRY.ids), *others]
        checkpoint = self.signed.sign(tick, SLOTS.as_of(tick), answers)
        self.records += [*answers[:-1], *forged, answers[-1], checkpoint]

    def know(self, since: int, now: int, view: SubscriberView) -> KnownPlaces:
        """Return what is known at a time."""
        verification = Verification(SIGNER.verifier, TOPIC_ID, since=since)
        for record in verification.check(publish(self.records)):
            view.add(record.headers, record.value)
        assert verification.problem == ""
        return KnownPlaces(view, HOUR, lambda: now)


def forge_snapshots() -> Iterator[OutputRecord]:
    """Yield snapshots that a writer without the key may add: of any division into shards, time and as_of."""
    for shards, shard, time, as_of in product((1, 2, 7), (0, 1), (2, 9_000), (4, 9_000)):
        value = b'{"monitor":"midday","time":"%s","shard":%d,"shards":%d,"as_of":"%s"}' % (
            format_instant(SLOTS.start(time) + HOUR // 2).encode(),
            shard,
            shards,
            format_instant(SLOTS.as_of(as_of)).encode(),
        )
        yield make_record("town", AT_TIMES, "forged", SLOTS.as_of(6), "midday", value)


SINCE: Final = SLOTS.as_of(6) + MINUTE
SCHOOL: Final = find_shard("school", 2)


@pytest.mark.promise(45)
def test_hidden_alarm_is_never_safe() -> None:
    """A place with an alarm at a designated time before `since` is unknown for a day, whatever else was forged.

        tick    5    6 with the alarm, altered | since | 7 safe   8 safe

    Then the alarm no longer counts, and the place is safe.
    """
    final = snapshot(SCHOOL, 6, {"school": (6, 9)})
    for forged in [None, *forge_snapshots()]:
        for first in (True, False):
            log = Log()
            added = [] if forged is None else [forged]
            log.sign(5, forged=added if first else [])
            log.sign(6, final, forged=[over_time("market", 6, 0), *(added if not first else [])])
            for tick in (7, 8):
                log.sign(tick)
            known = log.know(SINCE, SLOTS.as_of(8) + MINUTE, SubscriberView(REGISTRY))
            assert known.get("school").state == "unknown", (forged, first)
            for tick in range(9, 34):
                log.sign(tick)
            known = log.know(SINCE, SLOTS.as_of(33) + MINUTE, SubscriberView(REGISTRY))
            assert known.get("school").state == "safe", (forged, first)


def test_live_time_is_known_again() -> None:
    """A designated time that is still answered after `since` is known again with its next snapshot."""
    log = Log()
    log.sign(4, *(snapshot(shard, 4) for shard in (0, 1)), forged=[over_time("market", 4, 0)])
    log.sign(5, *(snapshot(shard, 5, {"school": (4, 9)} if shard == SCHOOL else {}) for shard in (0, 1)))
    known = log.know(SLOTS.as_of(4), SLOTS.as_of(5) + MINUTE, SubscriberView(REGISTRY))
    assert {place: known.get(place).state for place in REGISTRY.ids} == {
        "market": "safe",
        "park": "safe",
        "school": "noisy_count",
        "clinic": "safe",
    }


def test_many_forged_times_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """More snapshots before the beginning than the service publishes are a problem."""
    monkeypatch.setattr(verification_module, "FEWEST_WAITING", most := 1_000)
    value = b'{"monitor":"m","time":"2026-01-05T00:00:00Z","shard":%d,"shards":200000,"as_of":"2026-01-05T00:00:00Z"}'
    forged = [make_record("town", AT_TIMES, "f", 0, "m", value % n) for n in range(most + 1)]
    enough, _ = begin(DAY, [*forged[:-1], *make_answers(9)])
    assert enough.problem == ""
    verification, _ = begin(DAY, [*forged, *make_answers(9)])
    assert f"more than {most:,} snapshots before the first signed tick" in verification.problem


@pytest.mark.parametrize("n", [FEWEST_WAITING, FEWEST_WAITING + 1])
def test_flood_without_checkpoint_is_named(n: int) -> None:
    """More answers without a checkpoint than the largest tick has are a problem, and are not kept."""
    ticks = make_ticks(2)
    flood = publish([*ticks[0], *[ticks[1][0]] * n])
    verification = Verification(SIGNER.verifier, TOPIC_ID)
    verification.check(flood)
    assert ("too many answers without a checkpoint" in verification.problem) == (n > FEWEST_WAITING)
    assert bool(verification.waiting) == (n <= FEWEST_WAITING)


def test_flood_of_bytes_is_named() -> None:
    """The limit is also one of bytes, and grows with the number of places."""
    first, (answer, *_rest) = make_ticks(2)
    large = [answer._replace(value=bytes(1_000_000))] * 103
    for places, found in ((0, True), (10_000, False)):
        verification = Verification(SIGNER.verifier, TOPIC_ID, places)
        verification.check(publish([*first, *large]))
        assert bool(verification.problem) == found


def test_flood_before_the_first_checkpoint_is_dropped() -> None:
    """Before the first checkpoint, a flood is no problem and not kept: answers need not be signed there."""
    ticks = make_ticks(2)
    verification, values = begin(None, [*[ticks[0][0]] * (FEWEST_WAITING + 1), *ticks[0], *ticks[1]])
    assert verification.problem == ""
    assert values == list_values(ticks)


@pytest.mark.parametrize("since", ["2026-01-05", "2026-01-05T00:00:00"])
def test_since_is_a_time_with_a_key(since: str) -> None:
    """`since` must be a time of RFC 3339, and needs the public key."""
    with pytest.raises(UsageError, match=f"--since {since}: .*(RFC 3339|offset)"):
        read_trust(str(SIGNER.verifier), since)
    with pytest.raises(UsageError, match=r"expected a configuration with signing\.public_key"):
        connect(["localhost:1"], "alerts", slot="1h", registry=PLACES, since=since)
