"""What is looked at before anything is decided, on real servers; and what earlier configurations still charge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import redis

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.topics import describe, needs
from monitor.config.servers import KafkaSettings
from monitor.contracts.alerts import at_times_record, hot_spots_record, ledger_record
from monitor.contracts.record_sizes import place_bytes
from monitor.errors import EvictionError, LedgerError, PeriodError, TopicError
from monitor.operate.preflight import Preflight, check_marks, look, require_room
from monitor.operate.setup import Beginning
from monitor.privacy.noise import OneSidedNoise, SystemEntropy
from monitor.privacy.over_time import Mark
from monitor.public.clock import SteppedClock
from monitor.public.parameters import OverTime, Parameters, Registry
from monitor.release.decide import Evidence
from monitor.release.ledger import LedgerRecord, Writer
from monitor.release.owner import LedgerPlace, Owner
from monitor.release.state import LedgerState, OwnerTerms
from monitor.tools.embedded import EmbeddedValkey
from monitor.windows.facts import COMPLETE_FROM_START, NEVER, Reading
from monitor.windows.redis_client import RedisAddress, redis_client
from monitor.windows.redis_store import RedisWindows

HALF = Fraction(1, 2)
Create = Callable[..., Any]


@pytest.fixture
def looked(connections: KafkaConnections, kafka_settings: KafkaSettings) -> Callable[[Parameters], Preflight]:
    """Looks at the servers as `run` does."""

    def look_as(parameters: Parameters) -> Preflight:
        wanted = needs(parameters, kafka_settings, simulated=False)
        return look(connections, parameters, wanted, kafka_settings.topics.alerts)

    return look_as


@pytest.fixture
def published(
    connections: KafkaConnections, kafka_settings: KafkaSettings, parameters: Parameters, create: Create
) -> Callable[..., None]:
    """Begins the ledger and publishes a noisy answer of tick t for every watched location (of ten people each)."""

    def publish(tick: int, ledger_partitions: int = 2) -> None:
        create()
        ledger = kafka_settings.topics.alerts
        with closing(connections.admin()) as admin:
            found = describe(admin, [ledger, kafka_settings.topics.visits])
        input_id = found[kafka_settings.topics.visits].topic_id if kafka_settings.topics.visits in found else "input"
        place = LedgerPlace(ledger, found[ledger].topic_id, input_id, "fingerprint", parameters.grid.start(tick))
        clock = SteppedClock(parameters.grid.start(tick))
        for partition in range(ledger_partitions):
            with closing(
                Owner(connections, place, partition, parameters, OneSidedNoise(SystemEntropy()), clock)
            ) as owner:
                readings = {
                    shard: Reading(
                        {}, COMPLETE_FROM_START, COMPLETE_FROM_START, NEVER, 0, dict.fromkeys(asked.windows, 10), {}
                    )
                    for shard, asked in owner.questions(tick).items()
                }
                owner.decide(tick, Evidence(readings))

    return publish


class TestLook:
    def test_what_is_there_is_found(
        self,
        create: Create,
        looked: Callable[[Parameters], Preflight],
        parameters: Parameters,
        kafka_settings: KafkaSettings,
    ) -> None:
        """Topics with ids, the terms, and a state for each partition of the ledger."""
        create()
        found = looked(parameters)
        terms = OwnerTerms("town", 2, input_topic_id=found.topics[kafka_settings.topics.visits].topic_id)
        assert found.terms == terms
        assert [state.terms for state in found.states] == [terms] * 2
        assert set(found.topics) == {name for _, name in kafka_settings.topics}
        assert len({topic.topic_id for topic in found.topics.values()}) == 3

    def test_missing_topics_come_first(self, looked: Callable[[Parameters], Preflight], parameters: Parameters) -> None:
        """Before the ledger is looked for."""
        with pytest.raises(TopicError, match="there is no such topic"):
            looked(parameters)

    def test_a_ledger_without_its_first_record_is_refused(
        self,
        create: Create,
        looked: Callable[[Parameters], Preflight],
        parameters: Parameters,
        admin: Any,
    ) -> None:
        """Topics that somebody made by hand are no ledger."""
        admin.create_topics(
            {
                need.topic: {
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "configs": {setting.key: setting.create for setting in need.settings},
                }
                for need in create.wanted  # type: ignore[attr-defined]  # the fixture's own class
            },
            wait_for_metadata=True,
        )
        with pytest.raises(LedgerError, match=r"has no first record.*`location-monitor topics --create`"):
            looked(parameters)

    def test_a_ledger_that_expired_is_told_from_one_that_never_began(
        self,
        create: Create,
        looked: Callable[[Parameters], Preflight],
        parameters: Parameters,
        kafka_settings: KafkaSettings,
        emptied: Callable[[str, int], None],
    ) -> None:
        """It is empty, but does not begin at offset 0."""
        create()
        emptied(kafka_settings.topics.alerts, 0)
        with pytest.raises(LedgerError, match=r"begins above offset 0.*--ledger-lost"):
            looked(parameters)

    def test_a_partition_of_the_ledger_that_was_lost_is_refused(
        self,
        create: Create,
        looked: Callable[[Parameters], Preflight],
        parameters: Parameters,
        kafka_settings: KafkaSettings,
        emptied: Callable[[str, int], None],
    ) -> None:
        """Not the first one, so the others must be looked at as well."""
        create()
        emptied(kafka_settings.topics.alerts, 1)
        with pytest.raises(LedgerError, match="partition 1 of"):
            looked(parameters)

    def test_another_services_ledger_is_refused(
        self, create: Create, looked: Callable[[Parameters], Preflight], parameters: Parameters
    ) -> None:
        """With both names."""
        create()
        with pytest.raises(LedgerError, match=r"service\.name is 'osaka'.*belongs to 'town'"):
            looked(replace(parameters, name="osaka"))

    def test_another_grid_is_refused_once_anything_was_decided(
        self, looked: Callable[[Parameters], Preflight], parameters: Parameters, published: Callable[..., None]
    ) -> None:
        """Ticks of half-hours say nothing about hours."""
        published(10)
        looked(parameters)
        halves = replace(parameters, grid=replace(parameters.grid, length=parameters.grid.length // 2))
        with pytest.raises(LedgerError, match=r"clock\.slot and clock\.origin put tick 10 at"):
            looked(halves)

    def test_another_number_of_shards_must_not_move_locations_away_from_what_they_spent(
        self, create: Create, looked: Callable[[Parameters], Preflight], parameters: Parameters
    ) -> None:
        """Of two ledger partitions: four shards leave each location where it was with two, three don't.

        Also before anything was published: another instance may publish as soon as this one has looked.
        """
        create()
        looked(replace(parameters, registry=Registry(parameters.registry.ids, 4)))
        moved = Registry(parameters.registry.ids, 3)
        assert any(moved.shard % 2 != parameters.registry.shard % 2)
        with pytest.raises(LedgerError, match=r"service\.shards is 3.*expected a multiple of 2, such as 2 or 4"):
            looked(replace(parameters, registry=moved))
        with pytest.raises(LedgerError, match=r"service\.shards is 1.*expected a multiple of 2, such as 2$"):
            looked(replace(parameters, registry=Registry(parameters.registry.ids, 1)))

    @pytest.mark.parametrize(("first", "other"), [(2, 3), (1, 2)])
    def test_a_ledger_whose_partitions_differ_in_their_number_is_refused(
        self,
        first: int,
        other: int,
        looked: Callable[[Parameters], Preflight],
        parameters: Parameters,
        kafka_settings: KafkaSettings,
        connections: KafkaConnections,
        create: Create,
        emptied: Callable[[str, int], None],
    ) -> None:
        """Else shards would be answered from two partitions, or from none; here by an earlier version's mistake."""
        create()
        ledger = kafka_settings.topics.alerts
        with closing(connections.admin()) as admin:
            topic_id = str(admin.describe_topics([ledger])[0]["topic_id"])
        for partition, ledger_partitions in enumerate((first, other)):
            emptied(ledger, partition)
            made = ledger_record(
                source="town", service="town", partitions=ledger_partitions, lost_at=None, partition=partition, at=0
            )
            with closing(Writer(connections, ledger, topic_id, partition)) as writer:
                writer.append([LedgerRecord(made.key, made.value, tuple(made.headers), 0)])
        with pytest.raises(LedgerError, match=rf"differ in how many partitions the ledger has \({first}, {other}\)"):
            looked(parameters)

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
    def test_a_ledger_is_read_whose_topic_compresses_it(
        self,
        codec: str,
        looked: Callable[[Parameters], Preflight],
        parameters: Parameters,
        kafka_settings: KafkaSettings,
        published: Callable[..., None],
        altered: Callable[..., None],
        create: Create,
    ) -> None:
        """The broker writes every batch anew in the topic's own compression.type, whatever we sent."""
        create()
        altered(kafka_settings.topics.alerts, compression_type=codec)
        published(10)
        marked = {key for state in looked(parameters).states for key in state.marks}
        assert marked == {("stations", "place-0"), ("stations", "place-1")}

    def test_one_ledger_partition_takes_any_number_of_shards(
        self,
        looked: Callable[[Parameters], Preflight],
        parameters: Parameters,
        kafka_settings: KafkaSettings,
        published: Callable[..., None],
        admin: Any,
    ) -> None:
        """All of them lie in it."""
        single = {"num_partitions": 1, "replication_factor": 1}
        needed = needs(parameters, kafka_settings, simulated=False)[1].settings
        configs = {setting.key: setting.create for setting in needed}
        admin.create_topics({kafka_settings.topics.alerts: {**single, "configs": configs}}, wait_for_metadata=True)
        published(10, ledger_partitions=1)
        for shards in (1, 3, 7):
            assert len(looked(replace(parameters, registry=Registry(parameters.registry.ids, shards))).states) == 1


class TestRoom:
    """What a place's record repeats must fit the topic, also where an earlier configuration gave more answers."""

    def test_the_present_answers_need_no_more_than_they_are_accepted_with(self, parameters: Parameters) -> None:
        """However many of them run."""
        rule = replace(parameters.over_time[0].rules[0], answers=20)
        many = replace(parameters, over_time=(OverTime("stations", (0, 1), (rule, rule)),))
        marks = tuple(Mark(tick, 5, rule.answer_epsilon, tick + rule.mark_lifetime - 1) for tick in range(20))
        state = holding({("stations", "place-0"): marks})
        require_room(many, state, "alerts", {"max.message.bytes": str(place_bytes(rule))})

    def test_more_answers_of_before_are_refused_with_the_size_that_would_do(self, parameters: Parameters) -> None:
        """Thousands at a small ε run on under one answer a window."""
        marks = tuple(Mark(tick, 5, Fraction(1, 8_000), tick + 8_000) for tick in range(4_000))
        state = holding({("stations", "place-0"): marks, ("gone", "place-1"): marks * 2})
        with pytest.raises(TopicError, match=r"max\.message\.bytes is 262144: expected at least \d+") as raised:
            require_room(parameters, state, "alerts", {"max.message.bytes": "262144"})
        would_do = str(raised.value).rpartition("=")[2].rstrip("`")
        require_room(parameters, state, "alerts", {"max.message.bytes": would_do})


class TestEviction:
    def test_a_server_that_may_evict_is_refused(self, valkey: EmbeddedValkey, parameters: Parameters) -> None:
        """A fact that is evicted makes a false "safe"."""
        with redis.Redis.from_url(valkey.url) as raw:
            raw.config_set("maxmemory-policy", "allkeys-lru")
            try:
                with (
                    closing(RedisWindows(parameters, "f", redis_client(RedisAddress(valkey.url)))) as windows,
                    pytest.raises(EvictionError, match=r"allkeys-lru: expected noeviction.*CONFIG SET"),
                ):
                    windows.check()
            finally:
                raw.config_set("maxmemory-policy", "noeviction")


def holding(marks: Mapping[tuple[str, str], tuple[Mark, ...]]) -> list[LedgerState]:
    """The state of a ledger of one partition that holds these marks."""
    state = LedgerState()
    for (monitor, location), spent in marks.items():
        state.spend(monitor, location, spent)
    return [state]


class TestMarks:
    """The scheme watches place-0 and place-1 in "stations", ε_l = 1/2 each, W + F = 25; at worst each charges 2."""

    def test_marks_within_the_present_shares_charge_nothing_more(self, parameters: Parameters) -> None:
        """They are in the configuration's worst case."""
        marks = {("stations", f"place-{row}"): (Mark(10, 5, HALF, 34),) for row in (0, 1)}
        check_marks(parameters, holding(marks), Fraction(4), Fraction(4), 12)

    def test_a_removed_monitors_marks_are_added_with_the_sum_and_the_date(self, parameters: Parameters) -> None:
        """
        Half an ε each was answered at two places of "bridges", which is gone; "stations" may charge 4 within a period.

            slot         11 …   21 …                 106       116
            place-2      1/2                                      the last slots whose visits they counted
            place-3             1/2
            period 1     # # #  # # # …                           its visits are counted up to tick 106: 1 + 4
            period 2            # # # …                           up to tick 116: 1/2 + 4
            at tick 32   3 of 25 ticks are left of the one, at tick 42 of the other: 1 + 3 and 1/2 + 3
        """
        marks = {
            ("bridges", "place-2"): (Mark(10, 5, HALF, 20),),
            ("bridges", "place-3"): (Mark(20, 5, HALF, 45),),
        }
        with pytest.raises(PeriodError) as raised:
            check_marks(parameters, holding(marks), Fraction(9, 2), Fraction(4), 22)
        message = str(raised.value)
        assert "privacy.epsilon is 9/2, and one person may pay 4 under this configuration and 1 more" in message
        assert "4 + 1 = 5, which is 1/2 too much" in message
        assert "It would fit from 2026-01-02T08:00:00Z on" in message
        check_marks(parameters, holding(marks), Fraction(9, 2), Fraction(4), 32)
        with pytest.raises(PeriodError, match="It would fit from 2026-01-02T18:00:00Z on"):
            check_marks(parameters, holding(marks), Fraction(4), Fraction(4), 32)
        check_marks(parameters, holding(marks), Fraction(4), Fraction(4), 42)
        check_marks(parameters, holding(marks), Fraction(5), Fraction(4), 22)

    def test_a_removed_locations_marks_are_added_too(self, parameters: Parameters) -> None:
        """The monitor is still there, place-7 is not in it any more."""
        marks = {("stations", "place-7"): (Mark(10, 5, HALF, 34),)}
        with pytest.raises(PeriodError, match="1/2 more by answers"):
            check_marks(parameters, holding(marks), Fraction(4), Fraction(4), 12)

    def test_of_a_smaller_share_only_the_excess_is_added(self, parameters: Parameters) -> None:
        """An answer at 3/4, where the present share is 1/2: 1/4 more."""
        marks = {("stations", "place-0"): (Mark(10, 5, Fraction(3, 4), 34),)}
        with pytest.raises(PeriodError, match="1/4 more by answers"):
            check_marks(parameters, holding(marks), Fraction(4), Fraction(4), 12)

    def test_a_longer_window_lengthens_what_runs(self, parameters: Parameters) -> None:
        """The mark had run out under W + F = 3 at tick 12; under 25 it runs until tick 34, and 3/2 may follow.

        From tick 32 on the other place can charge only 3/2 as well in a period that holds the mark.
        """
        marks = {("stations", "place-0"): (Mark(10, 5, Fraction(1), 12),)}
        with pytest.raises(PeriodError, match=r"4 \+ 1/2 = 9/2,.*It would fit from 2026-01-02T08:00:00Z on"):
            check_marks(parameters, holding(marks), Fraction(4), Fraction(4), 20)

    def test_marks_of_every_partition_are_added(self, parameters: Parameters) -> None:
        """A person may have been in the counts of locations of all of them."""
        states = [
            *holding({("bridges", "place-2"): (Mark(10, 5, HALF, 34),)}),
            *holding({("bridges", "place-3"): (Mark(10, 5, HALF, 34),)}),
        ]
        with pytest.raises(PeriodError, match="1 more by answers"):
            check_marks(parameters, states, Fraction(4), Fraction(4), 12)

    def test_marks_that_have_run_out_count_while_a_period_holds_what_they_charged(self, parameters: Parameters) -> None:
        """
        For three days place-7 was answered each second hour, at ε = 1; then it was left out.

        The marks run for two hours each, so all have run out. One period holds 33 of them, and what may yet cost 4.
        """
        marks = {("bridges", "place-7"): tuple(Mark(tick, 5, Fraction(1), tick + 1) for tick in range(0, 72, 2))}
        with pytest.raises(PeriodError, match=r"4 \+ 33 = 37"):
            check_marks(parameters, holding(marks), Fraction(10), Fraction(4), 72)
        with pytest.raises(PeriodError):
            check_marks(parameters, holding(marks), Fraction(10), Fraction(4), 72 + 40)
        check_marks(parameters, holding(marks), Fraction(10), Fraction(4), 72 + 97)

    def test_what_was_published_on_a_real_ledger_is_added(
        self, looked: Callable[[Parameters], Preflight], parameters: Parameters, published: Callable[..., None]
    ) -> None:
        """Two places answered at tick 10, 1/2 each; their monitor was removed, and noon's visits are charged for 8 h.

        A period that begins in slot 11 holds visits up to slot 83, which may be charged at tick 90.
        """
        published(10)
        without = replace(parameters, over_time=())
        states = looked(without).states
        with pytest.raises(PeriodError, match=r"1 \+ 1 = 2, which is 1 too much.*from 2026-01-04T19:00:00Z on"):
            check_marks(without, states, Fraction(1), Fraction(1), 11)
        check_marks(without, states, Fraction(1), Fraction(1), 91)
        check_marks(parameters, states, Fraction(1), Fraction(1), 11)


def answered(parameters: Parameters, *said: tuple[str, str, int, Fraction], shard: int = 0) -> LedgerState:
    """The state of a ledger that tells of these answers: (kind, monitor, day at noon, ε), the day from 0."""
    state = LedgerState()
    for kind, monitor, day, epsilon in sorted(said, key=lambda each: each[2]):
        tick = 24 * day + 12
        as_of = parameters.grid.as_of(tick)
        common: dict[str, Any] = {
            "source": "town",
            "monitor": monitor,
            "time": noon(parameters, day),
            "tick": tick,
            "as_of": as_of,
            "registry": "0" * 64,
            "locations": 4,
            "epsilon": epsilon,
        }
        if kind == "at_times":
            snapshot: dict[str, Any] = {"shard": shard, "shards": 2, "threshold": 3, "complete": True, "final": False}
            made = at_times_record(**common, **snapshot, noisy_counts={f"place-{shard}": (tick, 5)})
        else:
            made = hot_spots_record(**common, top=1, hot_spots=[("place-0", 5)])
        state.fold(LedgerRecord(made.key, made.value, tuple(made.headers), as_of // 1_000), parameters.grid)
    return state


def noon(parameters: Parameters, day: int) -> int:
    return parameters.grid.start(24 * day + 12)


class TestTimes:
    """The monitor "noon" asks about 12:00 each day for 6 hours, ε = 1; a period of 3 days holds 3: the worst is 3."""

    WORST = Fraction(3)

    def check(
        self, parameters: Parameters, state: LedgerState, stated: Fraction | int, hour: int, day: int = 3
    ) -> None:
        states = (LedgerState(), state)
        check_marks(parameters, states, Fraction(stated), self.WORST, 24 * day + hour)

    def test_answers_of_the_monitors_that_are_there_are_in_the_worst_case(self, parameters: Parameters) -> None:
        state = answered(parameters, *(("at_times", "noon", day, Fraction(1)) for day in range(4)))
        self.check(parameters, state, 3, hour=13)

    @pytest.mark.parametrize("kind", ["at_times", "hot_spots"])
    def test_a_monitor_under_another_name_or_of_another_kind_draws_anew_about_every_time_in_its_horizon(
        self, kind: str, parameters: Parameters
    ) -> None:
        """
        "midday" became "noon" on day 3 at 13:00; or "noon" did, which was one of hot spots.

            noon of day   0  1  2  3  4      any period of three days
            midday        1  1  1  1         3
            noon                   1  1 …    3 + 1, until 18:00
        """
        name = "midday" if kind == "at_times" else "noon"
        state = answered(parameters, *((kind, name, day, Fraction(1)) for day in range(4)))
        with pytest.raises(PeriodError) as raised:
            self.check(parameters, state, 3, hour=13)
        assert "3 + 1 = 4, which is 1 too much" in str(raised.value)
        assert "It would fit from 2026-01-04T18:00:00Z on" in str(raised.value)
        self.check(parameters, state, 4, hour=13)
        with pytest.raises(PeriodError):
            self.check(parameters, state, 3, hour=17)
        self.check(parameters, state, 3, hour=18)

    def test_a_removed_monitors_answers_count_while_a_period_can_hold_them(self, parameters: Parameters) -> None:
        """
        "noon" is gone, and windows reach back 26 slots.

            a visit of day 6, 12:00, may be charged for until day 7, 13:00; no period holds it and noon of day 3
            noon of day   1        3
            excess        1        1      2, from day 5, 13:00 on 1, from day 7, 13:00 on 0
        """
        state = answered(parameters, *(("at_times", "noon", day, Fraction(1)) for day in (1, 3)))
        with pytest.raises(PeriodError, match=r"2 more.*It would fit from 2026-01-06T13:00:00Z on"):
            self.check(replace(parameters, at_times=()), state, 4, hour=18)
        with pytest.raises(PeriodError, match=r"It would fit from 2026-01-08T13:00:00Z on"):
            self.check(replace(parameters, at_times=()), state, 3, hour=18)
        self.check(replace(parameters, at_times=()), state, 3, hour=13, day=7)

    def test_of_a_larger_epsilon_the_excess_counts_and_no_more_of_them_than_a_period_holds(
        self, parameters: Parameters
    ) -> None:
        """Five noons were answered at 3/2, where the configuration holds 1 for each: 1/2 more for each of three."""
        state = answered(parameters, *(("at_times", "noon", day, Fraction(3, 2)) for day in range(5)))
        with pytest.raises(PeriodError, match=r"3 \+ 3/2 = 9/2"):
            self.check(parameters, state, 3, hour=13, day=4)
        self.check(parameters, state, Fraction(9, 2), hour=13, day=4)

    def test_a_smaller_epsilon_counts_as_the_present_one(self, parameters: Parameters) -> None:
        """A place that was not noisy yet is answered at the present ε, and a person is at one place at a time."""
        self.check(parameters, answered(parameters, ("at_times", "noon", 3, HALF)), 3, hour=13)

    def test_shards_answer_about_one_time_and_a_person_was_in_one_of_them(self, parameters: Parameters) -> None:
        states = [answered(parameters, ("at_times", "midday", 3, Fraction(1)), shard=shard) for shard in (0, 1)]
        with pytest.raises(PeriodError, match=r"3 \+ 1 = 4,"):
            check_marks(parameters, states, Fraction(3), self.WORST, 24 * 3 + 13)

    def test_what_has_expired_may_have_been_answered_by_the_monitors_that_are_there(
        self, parameters: Parameters
    ) -> None:
        """Else its absence would make room for the answers of one that is gone."""
        state = answered(parameters, ("at_times", "midday", 3, Fraction(1)))
        self.check(parameters, state, 3, hour=18)
        state.expired_until = noon(parameters, 3) + 1
        with pytest.raises(PeriodError, match="1 more by answers"):
            self.check(parameters, state, 3, hour=18)

    def test_without_a_period_all_counts_that_the_ledger_tells(self, parameters: Parameters) -> None:
        state = answered(parameters, ("at_times", "morning", 1, Fraction(1)))
        gone = replace(parameters, at_times=(), period=0)
        with pytest.raises(PeriodError, match=r"state more$"):
            check_marks(gone, [state], Fraction(3), self.WORST, 24 * 300)
        check_marks(gone, [state], Fraction(4), self.WORST, 24 * 300)


def test_a_lost_ledger_is_looked_at_like_any_other(
    create: Create, looked: Callable[[Parameters], Preflight], parameters: Parameters
) -> None:
    """Its terms say when it was lost."""
    now = parameters.grid.start(30)
    create(Beginning.LEDGER_LOST, now)
    terms = looked(parameters).terms
    assert (terms.service, terms.partitions, terms.lost_at) == ("town", 2, now)
