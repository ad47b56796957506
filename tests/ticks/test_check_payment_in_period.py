"""The check at the end of every takeover, on a real ledger: two configurations, with one or three partitions.

The old configuration watches X and Y at ε = 1/2 each, the new one X, Y and Z at 1/3. Each states what it may charge
alone. With three partitions each location is in a separate one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest

from monitor.config.kafka_and_redis import KafkaSettings
from monitor.errors import FencedError, LedgerError, MonitorError, PeriodError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import describe_topics, list_topic_needs
from monitor.kinds.locations import Registry, find_shard
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.kinds.parameters import Parameters
from monitor.ledger.append_to_ledger import Writer
from monitor.ledger.compute_payment import declare_charges
from monitor.ledger.ledger_state import LedgerState
from monitor.ledger.read_ledger import LedgerReader
from monitor.operate.replay.driver import adapt_topic_needs
from monitor.privacy.over_time import OverTimeRule
from monitor.privacy.payment_of_one_person import compute_over_time_payment
from monitor.records.charges_record import Charges
from monitor.records.output_records import OutputRecord
from monitor.service.create_topics import Beginning, set_up
from monitor.ticks.check_payment_in_period import ATTEMPTS, PeriodCheck, PeriodLimits, TakeoverRules
from monitor.ticks.owner import LedgerTopic, Owner, OwnerRecords
from monitor.time.clock import SteppedClock
from monitor.time.instants import DAY
from tests.builders import replace_monitors
from tests.ticks.deciding import own, publish, read

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
IDS = tuple(
    next(name for name in map("place-{}".format, range(99)) if find_shard(name, 3) == part) for part in range(3)
)
"""X, Y and Z: the first place of each of three partitions."""

TICK = 10
STATED = compute_over_time_payment(Fraction(1), 1, 24, 1, 3 * 24 + 1)


@dataclass
class Scene:
    """An initialised ledger, and instances of several configurations."""

    connections: KafkaConnections
    base: Parameters
    opened: ExitStack
    topic: str
    topic_id: str
    input_id: str
    ledger_partitions: int

    def parameters(self, *shares: Fraction) -> Parameters:
        """Return a configuration that watches the first locations at these ε_l."""
        rules = tuple(OverTimeRule(epsilon, 1, 60, 24, 1) for epsilon in shares)
        return replace_monitors(self.base, over_time=(OverTime("stations", tuple(range(len(shares))), rules),))

    @property
    def old(self) -> Parameters:
        return self.parameters(HALF, HALF)

    @property
    def new(self) -> Parameters:
        return self.parameters(THIRD, THIRD, THIRD)

    @property
    def now(self) -> int:
        return self.base.grid.start(TICK) + 1

    def place(self) -> LedgerTopic:
        return LedgerTopic(self.topic, self.topic_id, self.input_id, "fingerprint", self.now)

    def accounting(self, parameters: Parameters, stated: Fraction = STATED) -> PeriodCheck:
        """Return the check of one instance of a configuration."""
        partitions = range(self.ledger_partitions)
        reader = LedgerReader(self.connections, parameters, self.topic, partitions, lambda: self.now)
        records = OwnerRecords(self.place(), parameters, lambda: self.now)
        return PeriodCheck(self.connections, records, PeriodLimits(stated, STATED), reader, self.ledger_partitions)

    def take(self, parameters: Parameters, row: int, accounting: PeriodCheck | None = None) -> Owner:
        """Take over the partition of a location."""
        clock, partition = SteppedClock(self.now), row % self.ledger_partitions
        check = (accounting or self.accounting(parameters)).end_takeover
        owner = own(self.connections, self.place(), partition, parameters, clock, check=check)
        self.opened.callback(owner.close)
        return owner


def decide(owner: Owner, rows: set[int], tick: int = TICK) -> None:
    """Decide a tick with 100 people at these locations and nobody elsewhere; a false alarm has a chance below 10⁻⁸."""
    publish(owner, tick, read(owner.decider.build_questions(tick, owner.state), dict.fromkeys(rows, 100)))


@pytest.fixture
def make_scene(
    connections: KafkaConnections, parameters: Parameters, kafka_settings: KafkaSettings
) -> Iterator[Callable[[int], Scene]]:
    """A function that creates scenes: `make_scene(3)` has three ledger partitions."""
    with ExitStack() as opened:

        def make(ledger_partitions: int) -> Scene:
            base = replace_monitors(parameters, registry=Registry(IDS, 3), at_times=(), period=3 * DAY)
            partitions = kafka_settings.partitions.model_copy(update={"alerts": ledger_partitions})
            kafka = kafka_settings.model_copy(update={"partitions": partitions})
            wanted = adapt_topic_needs(list_topic_needs(base, kafka))  # records of early 2026 must not expire
            set_up(connections, base, wanted, Beginning.FIRST_START, base.grid.start(TICK))
            with closing(connections.create_admin()) as admin:
                topics = describe_topics(admin, [kafka.topics.alerts, kafka.topics.visits])
            alerts, visits = (topics[name].topic_id for name in (kafka.topics.alerts, kafka.topics.visits))
            return Scene(connections, base, opened, kafka.topics.alerts, alerts, visits, ledger_partitions)

        yield make


class TestOnePartition:
    @pytest.mark.promise(15)
    def test_old_answers_block_new_configuration(self, make_scene: Callable[[int], Scene]) -> None:
        """An answer at X at 1/2 blocks a configuration of three thirds: together they exceed the stated ε."""
        scene = make_scene(1)
        decide(scene.take(scene.old, 0), {0})
        with pytest.raises(
            PeriodError, match=r"4 \+ 1/6 = 25/6, which is 1/6 too much.*This configuration would fit from"
        ):
            scene.take(scene.new, 0)
        decide(scene.take(scene.old, 0), {1}, TICK + 1)

    @pytest.mark.promise(15)
    def test_new_answers_block_old_configuration(self, make_scene: Callable[[int], Scene]) -> None:
        """An answer at Z, which the old configuration does not watch, blocks a rollback."""
        scene = make_scene(1)
        scene.take(scene.old, 0)
        decide(scene.take(scene.new, 0), {2})
        with pytest.raises(PeriodError, match=r"4 \+ 1/3 = 13/3"):
            scene.take(scene.old, 0)
        decide(scene.take(scene.new, 0), {0}, TICK + 1)


class TestThreePartitions:
    @pytest.mark.promise(15)
    def test_owners_of_other_configuration_are_fenced(self, make_scene: Callable[[int], Scene]) -> None:
        """
        Owners of another configuration are fenced if both together would exceed the stated ε.

        Nothing was answered yet, so the new configuration may start, but only after it fences the owners of X and Y.

            partition   X      Y      Z
            owner       old    old    new     fences both
        """
        scene = make_scene(3)
        fenced = [scene.take(scene.old, row) for row in (0, 1)]
        owner = scene.take(scene.new, 2)
        for row, fenced_owner in enumerate(fenced):
            with pytest.raises(FencedError):
                decide(fenced_owner, {row})
        decide(owner, {2})
        with pytest.raises(PeriodError, match=r"4 \+ 1/3 = 13/3"):
            scene.take(scene.old, 0)
        decide(scene.take(scene.new, 0), {0})

    def test_refused_instance_fences_no_owner(self, make_scene: Callable[[int], Scene]) -> None:
        """A refused instance fences no owner: the old ones continue at X and Y."""
        scene = make_scene(3)
        owners = [scene.take(scene.old, row) for row in (0, 1)]
        decide(owners[0], {0})
        with pytest.raises(PeriodError, match=r"4 \+ 1/6"):
            scene.take(scene.new, 2)
        for owner in owners:
            decide(owner, {1}, TICK + 1)

    def test_sufficient_epsilon_fences_no_owner(self, make_scene: Callable[[int], Scene]) -> None:
        """If 4/3 is stated, old and new owners answer side by side."""
        scene = make_scene(3)
        owners = [scene.take(scene.old, row, scene.accounting(scene.old, STATED * 4 / 3)) for row in (0, 1)]
        owners.append(scene.take(scene.new, 2, scene.accounting(scene.new, STATED * 4 / 3)))
        for row, owner in enumerate(owners):
            decide(owner, {row})

    def test_unknown_charges_never_fit(self, make_scene: Callable[[int], Scene]) -> None:
        """Charges that are too large for an owner record are not known, so such an owner may not continue."""
        scene = make_scene(1)
        rules = TakeoverRules(scene.old, PeriodLimits(STATED * 9, STATED), declare_charges(scene.old))
        other = Charges("0" * 16, 1, None, None)
        spent = {0: replace(LedgerState().summarize_spent(), owned=True, charges=other)}
        assert rules.find_others(spent) == {0: other}
        assert not rules.fits_with(spent, {0: other}, TICK)

    def test_answers_before_the_fence_count(
        self, make_scene: Callable[[int], Scene], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An answer between the first reading and the fence is found by the second reading."""
        scene = make_scene(3)
        first = scene.take(scene.old, 0)

        def answered_before(*arguments: Any) -> Writer:
            decide(first, {0})
            return Writer(*arguments)

        monkeypatch.setattr("monitor.ticks.check_payment_in_period.Writer", answered_before)
        with pytest.raises(PeriodError, match=r"4 \+ 1/6"):
            scene.take(scene.new, 2)

    def test_takeover_gives_up_after_attempts(
        self, make_scene: Callable[[int], Scene], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If other owners keep returning, the takeover fails after a few attempts and is retried later."""
        scene = make_scene(3)
        scene.take(scene.old, 0)
        attempts = []
        monkeypatch.setattr(PeriodCheck, "_announce", lambda _, partitions: attempts.append(list(partitions)))
        with pytest.raises(UnreachableError, match="keep taking over partitions"):
            scene.take(scene.new, 2)
        assert attempts == [[0]] * ATTEMPTS

    def test_unreadable_partition_refuses_takeovers(self, make_scene: Callable[[int], Scene]) -> None:
        """An unreadable ledger partition refuses every takeover, because its spent ε is unknown."""
        scene = make_scene(3)
        with closing(Writer(scene.connections, scene.topic, scene.topic_id, 1)) as writer:
            writer.append([OutputRecord(b"stations/a", b"{}", (("ce_type", b"org.location-monitor.over_time"),), 0)])
        with pytest.raises(LedgerError, match="it spent is not known"):
            scene.take(scene.new, 0)

    @pytest.mark.promise(15)
    @pytest.mark.parametrize("round_", range(6))
    def test_simultaneous_takeovers_decide_at_most_once(self, round_: int, make_scene: Callable[[int], Scene]) -> None:
        """Of two simultaneous takeovers at most one decides: at least one sees the other, and fences it or is refused.

        Answers of both would exceed the stated ε: 1/2 at X and 1/3 at Y and Z.
        """
        scene = make_scene(3)
        start, decided = threading.Barrier(2), dict[str, bool]()

        def run(name: str, parameters: Parameters, row: int) -> None:
            accounting = scene.accounting(parameters)
            start.wait()
            try:
                decide(scene.take(parameters, row, accounting), {row})
                decided[name] = True
            except (FencedError, PeriodError, UnreachableError):
                decided[name] = False

        threads = [
            threading.Thread(target=run, args=("old", scene.old, 0)),
            threading.Thread(target=run, args=("new", scene.new, 2)),
        ]
        for thread in threads if round_ % 2 else reversed(threads):
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(decided) == ["new", "old"]
        assert not all(decided.values())


class TestSurvey:
    def test_readings_include_new_records(self, make_scene: Callable[[int], Scene]) -> None:
        """Each reading includes the new records of all partitions, aborted ones too."""
        scene = make_scene(3)
        reader = LedgerReader(scene.connections, scene.old, scene.topic, range(3), lambda: scene.now)
        reader.refresh()
        assert [spent.owned for spent in reader.read_spent(3).values()] == [False] * 3
        owners = [scene.take(scene.old, row) for row in (0, 1)]
        reader.refresh()
        assert [spent.owned for spent in reader.read_spent(3).values()] == [True, True, False]
        for row, owner in enumerate(owners):
            decide(owner, {row})
        reader.refresh()
        marked = [list(spent.marks) for spent in reader.read_spent(3).values()]
        assert marked == [[("stations", IDS[0])], [("stations", IDS[1])], []]

    def test_later_reading_serves_waiting_threads(
        self, make_scene: Callable[[int], Scene], monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., Any]
    ) -> None:
        """Threads that wait during a reading share the result, or the failure, of one later reading."""
        scene = make_scene(1)
        reader = LedgerReader(scene.connections, scene.old, scene.topic, range(1), lambda: scene.now)
        going = threading.Event()
        readings: list[None] = []
        failed: list[None] = []

        def read(*_: Any) -> None:
            readings.append(None)
            assert going.wait(30)
            raise UnreachableError("away")

        def refresh() -> None:
            try:
                reader.refresh()
            except MonitorError:
                failed.append(None)

        monkeypatch.setattr(reader, "_read", read)
        threads = [threading.Thread(target=refresh) for _ in range(5)]
        threads[0].start()
        eventually(lambda: readings)
        asked = next(reader._order)  # noqa: SLF001  # how many have asked: nothing else shows it
        for thread in threads[1:]:
            thread.start()
        eventually(lambda: next(reader._order) >= asked + 4)  # noqa: SLF001  # as above
        going.set()
        for thread in threads:
            thread.join(30)
        assert (len(readings), len(failed)) == (2, 5)
