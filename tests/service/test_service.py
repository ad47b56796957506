"""The whole service on real servers and a stepped clock: what it says, and that it never says it falsely or twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any, Protocol

import pytest

from monitor.brokers.topics import create_topics, list_topic_needs
from monitor.errors import InputChangedError, InsecureNoiseError, LedgerError, ReplayError
from monitor.operate.health import Health
from monitor.operate.metrics import Metrics
from monitor.operate.preflight import Preflight
from monitor.privacy.noise import OneSidedNoise, SeededEntropy
from monitor.run import prepare
from monitor.service import Service, Settings, redis_windows, secure_noise
from monitor.tools.replay.driver import Replay

PERSONS = [f"p-{n}" for n in range(9)]


class Eventually(Protocol):
    """The type of the fixture `eventually`."""

    def __call__(self, condition: Callable[[], Any], deadline_seconds: float = 10.0) -> Any:
        """The condition's first true value."""


def ticks(run: Replay, *numbers: int) -> None:
    for number in numbers:
        run.tick(number)


def test_safe_until_the_count_reaches_the_threshold_then_one_noisy_count_then_a_pause(
    make_town: Callable[..., Any],
) -> None:
    #   slot/tick  0 1 2 3 4 5 6 7
    #   inn            5 people in slot 2, W = 3, F = 1
    #   says       s s n p p p s s       until = 2 + W + F - 1 = 5
    #   bath           4 people
    #   says       s s s s s s s s
    town = make_town()
    with Replay(town.settings, town.prepare(), town.clock) as run:
        ticks(run, 0, 1)
        town.visit(PERSONS[:5], "inn", 2)
        town.visit(PERSONS[:4], "bath", 2)
        town.visit(PERSONS[:4], "bath", 2, minute=10)
        ticks(run, *range(2, 8))
    assert "".join(town.statuses("inn")) == "ssnpppss"
    assert "".join(town.statuses("bath")) == "ssssssss"
    noisy = town.answers()["inn"][2]
    assert noisy["noisy_count"] == noisy["count_at_most"] == 5
    assert noisy["answers"] == [{"tick": 2, "noisy_count": 5, "epsilon": "40", "until": 5}]
    assert town.answers()["inn"][4]["resumes_at"] == "2026-11-20T07:00:00Z"
    assert town.false_safe() == []


def test_people_who_come_back_are_counted_once_and_by_their_last_slot(make_town: Callable[..., Any]) -> None:
    #   slot   0    1    2    3    4    5
    #   inn    abcd ab        a              a to d left the window of 3 at their last slot + 3
    town = make_town()
    with Replay(town.settings, town.prepare(), town.clock) as run:
        town.visit(PERSONS[:4], "inn", 0)
        run.tick(0)
        town.visit(PERSONS[:2], "inn", 1)
        ticks(run, 1, 2)
        town.visit([PERSONS[0], *PERSONS[5:9]], "inn", 3)
        ticks(run, 3, 4)
    assert town.recount("inn", 3) == 6
    assert "".join(town.statuses("inn")) == "sssnp"
    assert town.answers()["inn"][3]["noisy_count"] == 6


def test_a_report_counts_from_the_tick_that_closes_after_it_and_not_before(make_town: Callable[..., Any]) -> None:
    """Visits of slot 0 that are reported in slot 1: tick 0 was safe on all that was reported then."""
    town = make_town()
    with Replay(town.settings, town.prepare(), town.clock) as run:
        run.tick(0)
        town.visit(PERSONS[:6], "inn", 0, reported=1)
        ticks(run, 1, 2)
    assert "".join(town.statuses("inn")) == "snp"


def test_a_designated_time_is_asked_about_at_every_tick_of_its_horizon_and_marks_last(
    make_town: Callable[..., Any],
) -> None:
    #   τ = 12:00; ticks 12 … 17 evaluate it (12:00 < as_of ≤ 18:00); 17 is final
    #   mill  4 people, reported at 12; farm 2, and 2 more, reported at 14
    town = make_town()
    town.clock.move_to(town.parameters.grid.start(11))
    with Replay(town.settings, town.prepare(), town.clock) as run:
        run.tick(11)
        town.visit(PERSONS[:4], "mill", 12)
        town.visit(PERSONS[4:6], "farm", 12)
        ticks(run, 12, 13)
        town.visit(PERSONS[6:8], "farm", 12, reported=14)
        ticks(run, *range(14, 19))
    said = town.snapshots()
    assert sorted({value["tick"] for value in said}) == list(range(12, 18))
    assert {value["status"] for value in said} == {"complete"}
    assert {value["tick"] for value in said if value["final"]} == {17}
    assert sum(value["locations"] for value in said if value["tick"] == 12) == 4
    noisy = {tick: merged(said, tick) for tick in (12, 13, 14, 17)}
    mill, farm = {"tick": 12, "noisy_count": 4}, {"tick": 14, "noisy_count": 4}
    assert noisy == {12: {"mill": mill}, 13: {"mill": mill}, 14: {"mill": mill, "farm": farm}, 17: noisy[14]}


def merged(said: list[dict[str, Any]], tick: int) -> dict[str, Any]:
    return {
        location: noisy for value in said if value["tick"] == tick for location, noisy in value["noisy_counts"].items()
    }


def test_a_restart_keeps_the_pause_and_decides_no_tick_twice(make_town: Callable[..., Any]) -> None:
    #   tick  0 1 2 | 3 4 5 6     restarted after tick 2
    #   inn   s n p | p p s s
    town = make_town(ledger_partitions=2)
    with Replay(town.settings, town.prepare(), town.clock) as run:
        run.tick(0)
        town.visit(PERSONS[:7], "inn", 1)
        ticks(run, 1, 2)
    found = prepare(town.settings, town.clock)
    with Replay(town.settings, found, town.clock, resumes=True) as run:
        ticks(run, 3, 4)
    found = prepare(town.settings, town.clock)
    with Replay(town.settings, found, town.clock, resumes=True) as run:
        ticks(run, 5, 6)
    assert "".join(town.statuses("inn")) == "snpppss"
    twice, differing = town.said_twice()
    assert differing == []
    assert all(name.endswith(("/2", "/4")) for name in twice)  # the bytes of the last tick, once more
    assert town.false_safe() == []


def test_after_a_flush_in_the_middle_visits_are_read_again_and_the_pause_goes_on(
    make_town: Callable[..., Any], flush: Callable[[], None]
) -> None:
    #   tick   0 1 | 2 3 4 5 6     flushed after tick 1
    #   inn    s n | p p p s s
    #   bath   s s | n p p p s     4 people in slot 1, one more in slot 2
    town = make_town(inputs=2)
    with Replay(town.settings, town.prepare(), town.clock) as run:
        run.tick(0)
        town.visit(PERSONS[:6], "inn", 1)
        town.visit(PERSONS[:4], "bath", 1)
        run.tick(1)
        flush()
        town.visit(PERSONS[4:5], "bath", 2)
        run.tick(2)
        flush()
        ticks(run, *range(3, 7))
    assert "".join(town.statuses("inn")) == "snpppss"
    assert "".join(town.statuses("bath")) == "ssnppps"
    assert town.false_safe() == []


def test_an_input_topic_that_was_made_anew_ends_the_service_and_answers_are_unknown_until_a_window_is_whole(
    make_town: Callable[..., Any], eventually: Eventually
) -> None:
    #   tick   0 1 | 2 3 4 5 6 7       made anew in slot 2: whole from slot 2 + F + 1 = 4 on, so the window of 3 slots
    #   inn    s s | u u u u s s       that begins there is that of tick 6
    town = make_town()
    with Replay(town.settings, town.prepare(), town.clock) as run:
        town.visit(PERSONS[:4], "inn", 0)
        ticks(run, 0, 1)
        make_anew(town, eventually)
        with pytest.raises(ReplayError, match="deleted or re-created") as raised:
            run.tick(2)
        assert isinstance(raised.value.__cause__, InputChangedError)
    town.clock = type(town.clock)(town.parameters.grid.start(2))
    found = prepare(town.settings, town.clock)
    with Replay(town.settings, found, town.clock, resumes=True) as run:
        ticks(run, *range(2, 8))
    assert "".join(town.statuses("inn")) == "ssuuuuss"
    assert town.false_safe() == []


def make_anew(town: Any, eventually: Eventually) -> None:
    wanted = list_topic_needs(town.parameters, town.settings.config.kafka, simulated=True)
    with closing(town.settings.kafka.admin()) as admin:
        admin.delete_topics([town.topics.visits])
        eventually(lambda: admin.describe_topics([town.topics.visits])[0]["error_code"])
    create_topics(town.settings.kafka, wanted[:1], None)
    town.fresh_producer()


def test_a_service_of_another_name_is_refused_on_the_same_ledger(
    make_town: Callable[..., Any], make_settings: Callable[..., Settings]
) -> None:
    town = make_town()
    town.prepare()
    other = make_settings()
    kafka = other.config.kafka.model_copy(update={"topics": town.topics})
    intruder = replace(other, config=other.config.model_copy(update={"kafka": kafka}))
    with pytest.raises(LedgerError, match=r"belongs to .*: give each service its own kafka\.topics\.alerts"):
        prepare(intruder, town.clock)


def test_noise_that_can_be_predicted_is_refused(make_town: Callable[..., Any]) -> None:
    town = make_town()
    found = town.prepare()
    noise = OneSidedNoise(SeededEntropy(1))
    with closing(redis_windows(town.settings, found, town.clock)) as windows, pytest.raises(InsecureNoiseError):
        Service(town.settings, found, windows, town.clock, noise, Metrics(), Health())


@contextmanager
def serving(town: Any, found: Preflight) -> Iterator[Service]:
    """One more instance of the service, on the town's clock."""
    with closing(redis_windows(town.settings, found, town.clock)) as windows:
        service = Service(town.settings, found, windows, town.clock, secure_noise(), Metrics(), Health())
        service.start()
        try:
            yield service
        finally:
            service.stop()


def decided(town: Any, tick: int) -> bool:
    return all(tick in said for said in town.answers().values()) and len(town.answers()) == 2


def test_two_instances_share_the_work_answer_each_tick_once_and_take_over_from_each_other(
    make_town: Callable[..., Any], eventually: Eventually
) -> None:
    #   tick     0 1 2 3 4 5 6 7 8
    #   first    ├───────┤             two ledger partitions, four of the input
    #   second   ├───────────────┤
    #   third            ├───────┤
    town = make_town(inputs=4, ledger_partitions=2)
    found = town.prepare()
    step = stepper(town, eventually)
    with ExitStack() as rest, ExitStack() as early:
        services = [early.enter_context(serving(town, found)), rest.enter_context(serving(town, found))]
        eventually(lambda: share(services), 30)
        step(0)
        town.visit(PERSONS[:5], "inn", 1)
        for tick in (1, 2, 3):
            step(tick)
        assert town.said_twice() == ([], [])
        early.close()
        services = [services[1], rest.enter_context(serving(town, found))]
        eventually(lambda: share(services), 30)
        town.visit(PERSONS[:6], "bath", 4)
        for tick in range(4, 9):
            step(tick)
    assert "".join(town.statuses("inn")) == "snpppssss"
    assert "".join(town.statuses("bath")) == "ssssnppps"
    assert town.said_twice()[1] == []
    assert town.false_safe() == []


def share(services: list[Service]) -> bool:
    """Whether each instance owns one ledger partition and reads two of the input."""
    owned = [set(service.loop.owners) for service in services]
    reading = [len(service.reader._source.reading) for service in services]
    return all(len(own) == 1 for own in owned) and owned[0] != owned[1] and reading == [2, 2]


def stepper(town: Any, eventually: Eventually) -> Callable[[int], None]:
    def step(tick: int) -> None:
        town.clock.move_to(town.parameters.grid.as_of(tick) + town.parameters.release_delay)
        eventually(lambda: decided(town, tick), 30)

    return step


def test_the_store_is_away_for_a_while_and_the_replay_goes_on(make_town: Callable[..., Any], store: Any) -> None:
    """Killed without persistence between two ticks: everything is read again before the next answer."""
    town = make_town()
    with Replay(town.settings, town.prepare(), town.clock) as run:
        town.visit(PERSONS[:4], "inn", 0)
        run.tick(0)
        store.kill()
        began = time.monotonic()
        store.restart()
        town.visit(PERSONS[4:5], "inn", 1)
        run.tick(1)
        assert time.monotonic() - began < 60
    assert "".join(town.statuses("inn")) == "sn"
    assert town.false_safe() == []
