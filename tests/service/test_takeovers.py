"""Takeovers after a change: of the ledger itself, or of the answers published under another configuration."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from monitor.errors import LedgerChangedError, PeriodError, ReplayError, UnreachableError
from monitor.observe.health import Health
from monitor.observe.update_service_metrics import Metrics
from monitor.operate.replay.driver import Replay
from monitor.service.create_topics import Beginning, set_up
from monitor.service.keep_running import prepare
from monitor.service.wiring import Service, Settings, create_noise, create_store
from monitor.ticks.owner import LedgerTopic, OwnerRecords
from monitor.time.clock import SystemClock
from monitor.time.instants import HOUR, MINUTE
from tests.conftest import Eventually
from tests.service.running import to_replay, watch

PERSONS = [f"p-{n}" for n in range(5)]


@pytest.mark.promise(15)
def test_takeover_checks_earlier_answers(make_town: Callable[..., Any], make_settings: Callable[..., Settings]) -> None:
    """
    A takeover is refused if earlier answers and the new configuration together exceed the stated ε.

    A rolling change from two places at ε/2 to three at ε/3: 2 · ε/2 + ε/3 is 4/3 of the stated ε.

        new, ε/3    starts and waits: nothing was published     takes over: refused
        old, ε/2              inn n   bath n    ends
    """
    stated = str(make_settings(**watch(["inn", "bath"])).worst)
    town = make_town(**watch(["inn", "bath"], stated))
    config = town.settings.config
    preflight = town.prepare()
    kafka = {"bootstrap_servers": list(config.kafka.bootstrap_servers), "topics": town.topics.model_dump()}
    service = {"name": config.service.name, "shards": 4}
    new = to_replay(make_settings(**watch(["inn", "bath", "mill"], stated), service=service, kafka=kafka))
    started = prepare(new, town.clock)
    with Replay(town.settings, preflight, town.clock) as run:
        for location in ("inn", "bath"):
            town.visit(PERSONS, location, 0)
        run.run_tick(0)
    assert (town.statuses("inn"), town.statuses("bath")) == (["n"], ["n"])
    with pytest.raises(ReplayError, match="too much") as raised, Replay(new, started, town.clock, resumes=True):
        pytest.fail("it took over")
    assert isinstance(raised.value.__cause__, PeriodError)
    assert set(town.answers_by_tick()) == {"inn", "bath"}


@pytest.mark.promise(32)
def test_recreated_ledger_pauses_everything(make_town: Callable[..., Any], eventually: Eventually) -> None:
    """A recreated ledger ends a running service. The next one pauses everything until tick 2 + W + F."""
    #   tick   0 1 | 2 3 4 5 6 7       recreated in slot 2: the new ledger pauses all until tick 2 + W + F = 6
    #   inn    s s | p p p p s s
    town = make_town()
    with Replay(town.settings, town.prepare(), town.clock) as run:
        run.run_tick(0)
        run.run_tick(1)
        lose_the_ledger(town, eventually)
        with pytest.raises(ReplayError, match=r"kafka\.topics\.alerts.*deleted or re-created") as raised:
            run.run_tick(2)
        assert isinstance(raised.value.__cause__, LedgerChangedError)
    town.clock = type(town.clock)(town.parameters.grid.start(2))
    with Replay(town.settings, prepare(town.settings, town.clock), town.clock, resumes=True) as run:
        for tick in range(2, 8):
            run.run_tick(tick)
    assert "".join(town.statuses("inn")) == "..ppppss"


def lose_the_ledger(town: Any, eventually: Eventually) -> None:
    """Delete the ledger and begin a new one, as an operator does, while the service runs."""
    settings = town.settings
    with closing(settings.kafka.create_admin()) as admin:
        admin.delete_topics([town.topics.alerts])
        eventually(lambda: admin.describe_topics([town.topics.alerts])[0]["error_code"])
    wanted = settings.needs
    set_up(settings.kafka, town.parameters, wanted, Beginning.LEDGER_LOST, town.clock.now())


class SlowClock(SystemClock):
    """A clock that was set back by an hour after the check against the store's clock."""

    def now(self) -> int:
        return super().now() - HOUR


@pytest.mark.promise(34)
def test_input_check_uses_store_clock(
    make_town: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """
    The instant at which an owner checks the input topic is taken from the store's clock.

    With a clock that is behind, facts would count as complete from before their input topic existed.
    """
    ledgers: list[LedgerTopic] = []

    def record_ledger(_connections: Any, _partition: int, records: OwnerRecords, *_: Any) -> None:
        ledgers.append(records.ledger)
        raise UnreachableError("this test needs only the ledger")

    monkeypatch.setattr("monitor.service.wiring.take_over", record_ledger)
    town = make_town()
    preflight = town.prepare()
    with closing(create_store(town.settings, preflight)) as windows:
        before = SystemClock().now()
        service = Service(town.settings, preflight, windows, SlowClock(), create_noise(), Metrics(), Health())
        service.start()
        try:
            eventually(lambda: ledgers, 30)
        finally:
            service.stop()
    assert before - MINUTE < ledgers[0].input_seen_at < SystemClock().now() + MINUTE
    assert service.loop.store_clock.has_reached(before - MINUTE)
