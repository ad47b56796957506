"""The whole service on real servers and a stepped clock: no answer is false or drawn twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from monitor.errors import InputChangedError, InsecureNoiseError, ReplayError
from monitor.kafka.topics import create_topics
from monitor.observe.health import Health
from monitor.observe.update_service_metrics import Metrics
from monitor.operate.replay.driver import Replay
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.service.keep_running import prepare
from monitor.service.preflight import Preflight
from monitor.service.wiring import Service, create_noise, create_store
from tests.conftest import Eventually
from tests.service.running import is_decided

PERSONS = [f"p-{n}" for n in range(9)]


def run_ticks(run: Replay, *ticks: int) -> None:
    for tick in ticks:
        run.run_tick(tick)


def test_safe_then_noisy_count_then_pause(
    make_town: Callable[..., Any],
) -> None:
    """A location is safe until its count reaches T, then has one noisy count, then is paused for W + F ticks."""
    #   slot/tick  0 1 2 3 4 5 6 7
    #   inn            5 people in slot 2, W = 3, F = 1
    #   says       s s n p p p s s       until = 2 + W + F - 1 = 5
    #   bath           4 people
    #   says       s s s s s s s s
    town = make_town()
    with Replay(town.settings, town.prepare(), town.clock) as run:
        run_ticks(run, 0, 1)
        town.visit(PERSONS[:5], "inn", 2)
        town.visit(PERSONS[:4], "bath", 2)
        town.visit(PERSONS[:4], "bath", 2, minute=10)
        run_ticks(run, *range(2, 8))
    assert "".join(town.statuses("inn")) == "ssnpppss"
    assert "".join(town.statuses("bath")) == "ssssssss"
    noisy = town.answers_by_tick()["inn"][2]
    assert noisy["noisy_count"] == noisy["count_at_most"] == 5
    assert noisy["answers"] == [{"tick": 2, "noisy_count": 5, "epsilon": "40", "until": 5}]
    assert town.answers_by_tick()["inn"][4]["resumes_at"] == "2026-11-20T07:00:00Z"
    assert town.false_safe() == []


def test_person_counts_once_by_last_slot(make_town: Callable[..., Any]) -> None:
    """A person with several visits counts once, until the last slot leaves the window."""
    #   slot   0    1    2    3    4    5
    #   inn    abcd ab        a              a to d left the window of 3 at their last slot + 3
    town = make_town()
    with Replay(town.settings, town.prepare(), town.clock) as run:
        town.visit(PERSONS[:4], "inn", 0)
        run.run_tick(0)
        town.visit(PERSONS[:2], "inn", 1)
        run_ticks(run, 1, 2)
        town.visit([PERSONS[0], *PERSONS[5:9]], "inn", 3)
        run_ticks(run, 3, 4)
    assert town.recount("inn", 3) == 6
    assert "".join(town.statuses("inn")) == "sssnp"
    assert town.answers_by_tick()["inn"][3]["noisy_count"] == 6


def test_late_report_counts_from_its_slot(make_town: Callable[..., Any]) -> None:
    """Visits of slot 0 that are reported in slot 1 count from tick 1 on. Tick 0 was safe by the earlier reports."""
    town = make_town()
    with Replay(town.settings, town.prepare(), town.clock) as run:
        run.run_tick(0)
        town.visit(PERSONS[:6], "inn", 0, reported=1)
        run_ticks(run, 1, 2)
    assert "".join(town.statuses("inn")) == "snp"


def test_designated_time_over_its_horizon(
    make_town: Callable[..., Any],
) -> None:
    """A designated time is answered at each tick of its horizon, and a noisy count stays until the end."""
    #   τ = 12:00; ticks 12 … 17 evaluate it (12:00 < as_of ≤ 18:00); 17 is final
    #   mill  4 people, reported at 12; farm 2, and 2 more, reported at 14
    town = make_town()
    town.clock.move_to(town.parameters.grid.start(11))
    with Replay(town.settings, town.prepare(), town.clock) as run:
        run.run_tick(11)
        town.visit(PERSONS[:4], "mill", 12)
        town.visit(PERSONS[4:6], "farm", 12)
        run_ticks(run, 12, 13)
        town.visit(PERSONS[6:8], "farm", 12, reported=14)
        run_ticks(run, *range(14, 19))
    snapshots = town.snapshots()
    assert sorted({value["tick"] for value in snapshots}) == list(range(12, 18))
    assert {value["status"] for value in snapshots} == {"complete"}
    assert {value["tick"] for value in snapshots if value["final"]} == {17}
    assert sum(value["locations"] for value in snapshots if value["tick"] == 12) == 4
    noisy = {tick: merge_noisy_counts(snapshots, tick) for tick in (12, 13, 14, 17)}
    mill, farm = {"tick": 12, "noisy_count": 4}, {"tick": 14, "noisy_count": 4}
    assert noisy == {12: {"mill": mill}, 13: {"mill": mill}, 14: {"mill": mill, "farm": farm}, 17: noisy[14]}


def merge_noisy_counts(snapshots: list[dict[str, Any]], tick: int) -> dict[str, Any]:
    """Merge the noisy counts of all shards at a tick."""
    of_tick = [value["noisy_counts"] for value in snapshots if value["tick"] == tick]
    return {location: noisy for shard in of_tick for location, noisy in shard.items()}


@pytest.mark.promise(31)
def test_restart_keeps_pause(make_town: Callable[..., Any]) -> None:
    """After a restart the pause continues, and no tick is decided twice."""
    #   tick  0 1 2 | 3 4 5 6     restarted after tick 2
    #   inn   s n p | p p s s
    town = make_town(ledger_partitions=2)
    with Replay(town.settings, town.prepare(), town.clock) as run:
        run.run_tick(0)
        town.visit(PERSONS[:7], "inn", 1)
        run_ticks(run, 1, 2)
    preflight = prepare(town.settings, town.clock)
    with Replay(town.settings, preflight, town.clock, resumes=True) as run:
        run_ticks(run, 3, 4)
    preflight = prepare(town.settings, town.clock)
    with Replay(town.settings, preflight, town.clock, resumes=True) as run:
        run_ticks(run, 5, 6)
    assert "".join(town.statuses("inn")) == "snpppss"
    repeated, differing = town.repeated()
    assert differing == []
    assert all(name.endswith(("/2", "/4")) for name in repeated)  # a takeover appends the last tick again
    assert town.false_safe() == []


def test_flush_keeps_counts_and_pause(make_town: Callable[..., Any], flush: Callable[[], None]) -> None:
    """After a flush of Redis, visits are read again and the pause continues."""
    #   tick   0 1 | 2 3 4 5 6     flushed after tick 1
    #   inn    s n | p p p s s
    #   bath   s s | n p p p s     4 people in slot 1, one more in slot 2
    town = make_town(inputs=2)
    with Replay(town.settings, town.prepare(), town.clock) as run:
        run.run_tick(0)
        town.visit(PERSONS[:6], "inn", 1)
        town.visit(PERSONS[:4], "bath", 1)
        run.run_tick(1)
        flush()
        town.visit(PERSONS[4:5], "bath", 2)
        run.run_tick(2)
        flush()
        run_ticks(run, *range(3, 7))
    assert "".join(town.statuses("inn")) == "snpppss"
    assert "".join(town.statuses("bath")) == "ssnppps"
    assert town.false_safe() == []


@pytest.mark.promise(7)
def test_recreated_input_topic_means_unknown(make_town: Callable[..., Any], eventually: Eventually) -> None:
    """A recreated input topic ends the service; answers are unknown until a window is complete."""
    #   tick   0 1 | 2 3 4 5 6 7       recreated in slot 2: facts are complete from slot 2 + F + 1 = 4 on, so the first
    #   inn    s s | u u u u s s       complete window of 3 slots is that of tick 6
    town = make_town()
    with Replay(town.settings, town.prepare(), town.clock) as run:
        town.visit(PERSONS[:4], "inn", 0)
        run_ticks(run, 0, 1)
        recreate_input(town, eventually)
        with pytest.raises(ReplayError, match="deleted or re-created") as raised:
            run.run_tick(2)
        assert isinstance(raised.value.__cause__, InputChangedError)
    town.clock = type(town.clock)(town.parameters.grid.start(2))
    preflight = prepare(town.settings, town.clock)
    with Replay(town.settings, preflight, town.clock, resumes=True) as run:
        run_ticks(run, *range(2, 8))
    assert "".join(town.statuses("inn")) == "ssuuuuss"
    assert town.false_safe() == []


def recreate_input(town: Any, eventually: Eventually) -> None:
    with closing(town.settings.kafka.create_admin()) as admin:
        admin.delete_topics([town.topics.visits])
        eventually(lambda: admin.describe_topics([town.topics.visits])[0]["error_code"])
    create_topics(town.settings.kafka, town.settings.needs[:1], None)
    town.renew_producer()


@pytest.mark.promise(17)
def test_predictable_noise_is_refused(make_town: Callable[..., Any]) -> None:
    """A service refuses noise from a seeded generator."""
    town = make_town()
    preflight = town.prepare()
    noise = OneSidedNoise(SeededEntropy(1))
    with (
        closing(create_store(town.settings, preflight, town.clock.now)) as windows,
        pytest.raises(InsecureNoiseError),
    ):
        Service(town.settings, preflight, windows, town.clock, noise, Metrics(), Health())


@contextmanager
def run_service(town: Any, preflight: Preflight) -> Iterator[Service]:
    """Run one more instance of the service, on the town's clock."""
    with closing(create_store(town.settings, preflight, town.clock.now)) as windows:
        service = Service(town.settings, preflight, windows, town.clock, create_noise(), Metrics(), Health())
        service.start()
        try:
            yield service
        finally:
            service.stop()


def test_two_instances_share_the_work(make_town: Callable[..., Any], eventually: Eventually) -> None:
    """Two instances share the partitions, answer each tick once, and take over from each other."""
    #   tick     0 1 2 3 4 5 6 7 8
    #   first    ├───────┤             two ledger partitions, four of the input
    #   second   ├───────────────┤
    #   third            ├───────┤
    town = make_town(inputs=4, ledger_partitions=2)
    preflight = town.prepare()
    step = make_step(town, eventually)
    with ExitStack() as rest, ExitStack() as early:
        services = [early.enter_context(run_service(town, preflight)), rest.enter_context(run_service(town, preflight))]
        eventually(lambda: is_shared(services), 30)
        step(0)
        town.visit(PERSONS[:5], "inn", 1)
        for tick in (1, 2, 3):
            step(tick)
        assert town.repeated() == ([], [])
        early.close()
        services = [services[1], rest.enter_context(run_service(town, preflight))]
        eventually(lambda: is_shared(services), 30)
        town.visit(PERSONS[:6], "bath", 4)
        for tick in range(4, 9):
            step(tick)
    assert "".join(town.statuses("inn")) == "snpppssss"
    assert "".join(town.statuses("bath")) == "ssssnppps"
    assert town.repeated()[1] == []
    assert town.false_safe() == []


def is_shared(services: list[Service]) -> bool:
    """Return whether each of two instances owns one ledger partition and reads two input partitions."""
    owned = [set(service.loop.owners) for service in services]
    reading = [len(service.reader.assigned) for service in services]
    return all(len(partitions) == 1 for partitions in owned) and owned[0] != owned[1] and reading == [2, 2]


def make_step(town: Any, eventually: Eventually) -> Callable[[int], None]:
    def step(tick: int) -> None:
        as_of = town.parameters.grid.as_of(tick)
        town.clock.move_to(as_of + town.parameters.tolerance)
        town.clock.move_when_awaited(
            as_of + town.parameters.release_delay, town.settings.config.kafka.partitions.alerts
        )
        eventually(lambda: is_decided(town, tick), 30)

    return step
