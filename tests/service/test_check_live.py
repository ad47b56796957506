"""`check --live` on real servers: it decides as `run` does, only reads, and its predictions are right."""

from __future__ import annotations

import io
import json
import logging
import struct
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner
from kafka import OffsetSpec, TopicPartition
from rich.console import Console

from monitor.cli import main
from monitor.errors import PeriodError, RefusedError
from monitor.kafka.groups import list_groups
from monitor.operate.check.live import check_live
from monitor.operate.check.live_report import LiveReport, render_live
from monitor.operate.replay.driver import Replay
from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey, NodeSettings
from monitor.service.keep_running import prepare
from monitor.service.wiring import Settings, create_noise, make_ledger_topic
from monitor.ticks.check_payment_in_period import PeriodCheck, PeriodLimits
from monitor.ticks.owner import OwnerRecords
from monitor.ticks.takeover import take_over
from monitor.time.clock import Clock, SystemClock
from monitor.time.instants import HOUR
from tests.kit.network import Forwarder, find_free_ports
from tests.kit.town import HOURS, Town, build_tree, over_time
from tests.service.running import make_real_time, to_replay, watch

PERSONS = [f"p-{n}" for n in range(5)]
Make = Callable[..., Any]


@pytest.fixture
def change(make_settings: Callable[..., Settings]) -> Callable[..., Settings]:
    """`change(town, **changes)`: the settings of a new configuration on the servers and topics of a town."""

    def make(town: Any, **changes: Any) -> Settings:
        config = town.settings.config
        kafka = {"bootstrap_servers": list(config.kafka.bootstrap_servers), "topics": town.topics.model_dump()}
        given = {"service": {"name": config.service.name, "shards": 4}, "kafka": kafka, **changes}
        return to_replay(make_settings(**given))

    return make


@pytest.fixture
def answered(make_town: Make) -> Any:
    """A town whose inn and bath have a noisy count at tick 0. W + F = 4."""
    town = make_town(**watch(["inn", "bath"]))
    with Replay(town.settings, town.prepare(), town.clock) as run:
        for location in ("inn", "bath"):
            town.visit(PERSONS, location, 0)
        run.run_tick(0)
    assert (town.statuses("inn"), town.statuses("bath")) == (["n"], ["n"])
    return town


def look(settings: Settings, clock: Clock) -> LiveReport:
    """Check a configuration live, where the clock of the town is also that of the store."""
    return check_live(settings, clock, store_clock=clock.now)


def read_words_of_run(settings: Settings, clock: Clock) -> tuple[str, str] | None:
    """Return the kind and the message with which `run` refuses; None if it starts."""
    try:
        prepare(settings, clock)
    except RefusedError as error:
        return type(error).__name__, str(error)
    return None


def read_words_of_check(report: LiveReport) -> tuple[str, str] | None:
    """Return the first refusal of a report."""
    return (report.refusals[0].kind, report.refusals[0].message) if report.refusals else None


_CHANGES: Mapping[str, tuple[dict[str, Any], str]] = {
    "the same": (watch(["inn", "bath"]), ""),
    "one more place": (watch(["inn", "bath", "mill"], "180"), "PeriodError"),
    "another name": (watch(["inn", "bath"], "200", name="houses"), "PeriodError"),
    "room for both": (watch(["inn", "bath"], "400", name="houses"), ""),
    "another service": ({"service": {"name": "osaka", "shards": 4}}, "LedgerError"),
    "another slot": (
        {
            **watch(["inn", "bath"]),
            "clock": {
                "slot": "30m",
                "origin": "2026-11-20T00:00:00+00:00",
                "release_delay": "30s",
                "tolerance": "1s",
            },
            "visits": {"default_stay": "15m", "accept_ahead": "30m"},
        },
        "LedgerError",
    ),
}


@pytest.mark.promise(15, 33)
def test_check_refuses_what_run_refuses(answered: Any, change: Make) -> None:
    """For each change of a configuration over one ledger, `check --live` refuses exactly what `run` does, and alike."""
    for name, (changes, refusal) in _CHANGES.items():
        new = change(answered, **changes)
        said, found = read_words_of_run(new, answered.clock), look(new, answered.clock)
        assert read_words_of_check(found) == said, name
        assert (said[0] if said else "") == refusal, (name, said)
        assert found.obstacles == (), name


def hide_producers(answer: bytes) -> bytes:
    """Replace the number of DescribeProducers where a broker lists the requests that it knows, with their versions."""
    listed, unknown = (struct.pack(">hhhb", number, 0, 0, 0) for number in (61, 9_999))
    return answer.replace(listed, unknown)


def test_other_broker_is_noticed(store: EmbeddedValkey, tmp_path: Path, topic: Callable[[str], str]) -> None:
    """If the broker does not list producers, as every tick needs, `check --live` says so before `run` starts."""
    (port,) = find_free_ports(1)
    with closing(Forwarder(("127.0.0.1", port), edit=hide_producers)) as forwarder:
        address = f"127.0.0.1:{forwarder.port}"
        monitors = [over_time("places", ["inn"], 5, "3h")]
        town = Town(tmp_path, build_tree(topic("other"), address, store.url, monitors, **HOURS), ["inn"])
        with EmbeddedKafka(NodeSettings({"advertised.listeners": f"PLAINTEXT://{address}"}, port)):
            town.apply()
            town.create()
            (obstacle,) = check_live(town.settings, SystemClock()).obstacles
    assert "does not know a request that the service needs: expected Apache Kafka 3 or later" in obstacle


def test_missing_topics_are_refused_alike(make_town: Make) -> None:
    """Without the topics, `check --live` has the error and the words of `run`."""
    town = make_town()
    said = read_words_of_run(town.settings, town.clock)
    assert said is not None
    assert said[0] == "TopicError"
    assert read_words_of_check(look(town.settings, town.clock)) == said


@pytest.mark.promise(15)
def test_cost_names_the_monitor(answered: Any, change: Make) -> None:
    """
    The sum, the monitor whose answers add to it, and the time from which it fits are reported; then `run` accepts it.

    "places" was renamed to "houses". Of a period of 3 hours the visits are in N = 4 + 3 = 7 ticks, 2 answers per place.
    """
    new = change(answered, **watch(["inn", "bath"], "160", name="houses"))
    cost = look(new, answered.clock).cost
    assert cost is not None
    assert (cost.worst, cost.fits) == (Fraction(160), False)
    assert cost.total == cost.worst + cost.added["places"]
    assert set(cost.added) == {"places"}
    assert cost.fits_from is not None
    with pytest.raises(PeriodError, match=r"under an earlier one \(of places\)"):
        prepare(new, answered.clock)
    answered.clock.move_to(cost.fits_from + HOUR)
    prepare(new, answered.clock)
    later = look(new, answered.clock)
    assert later.refusals == ()
    assert later.cost is not None
    assert later.cost.fits


def test_predicted_pause_is_kept(answered: Any, change: Make) -> None:
    """
    The predicted end of a pause is the tick at which the new configuration answers again.

    Under W = 3 the marks of tick 0 run until tick 3, under W = 4 until tick 4.

        tick          0 1 2 3 4 5
        inn, W = 3    n p
        inn, W = 4          p p s      taken over in slot 4, in which tick 3 may still be decided
    """
    new = change(answered, **watch(["inn", "bath"], window="4h"))
    answered.clock.move_to(answered.parameters.grid.start(1))
    (silence,) = look(new, answered.clock).silences
    assert (silence.places, silence.paused, silence.longer) == (2, 2, 0)
    answered.clock.move_to(answered.parameters.grid.start(4))
    (silence,) = look(new, answered.clock).silences
    assert (silence.paused, silence.longer) == (2, 2)
    assert silence.first_resumes == silence.last_resumes == answered.parameters.grid.as_of(5)
    with Replay(new, prepare(new, answered.clock), answered.clock, resumes=True) as run:
        for tick in (3, 4, 5):
            run.run_tick(tick)
    assert "".join(answered.statuses("inn")) == "n..pps"


def test_rereading_is_predicted(answered: Any, change: Make) -> None:
    """For other facts the whole window is predicted to be read again, and it is; for the same facts, nothing."""
    same = look(answered.settings, answered.clock).facts
    assert same is not None
    assert [partition.cause for partition in same.partitions] == [""]
    assert (same.exist, same.records) == (True, 0)
    new = change(answered, **watch(["inn", "mill"], "4000"))
    facts = look(new, answered.clock).facts
    assert facts is not None
    assert (facts.exist, facts.records) == (False, 2)
    assert [(each.start, each.end, each.cause) for each in facts.partitions] == [(0, 2, "no_progress")]
    with Replay(new, prepare(new, answered.clock), answered.clock, resumes=True) as run:
        run.run_tick(1)
    assert facts.fingerprint != same.fingerprint
    after = look(new, answered.clock).facts
    assert after is not None
    assert (after.exist, after.records) == (True, 0)


@pytest.mark.parametrize(("stated", "fences"), [("4000", False), ("200", True)])
def test_predicted_fence_happens(
    make_town: Make, change: Make, caplog: pytest.LogCaptureFixture, stated: str, fences: bool
) -> None:
    """The predicted fence of the owner of the other partition happens at a takeover, and no other one does."""
    town = make_town(ledger_partitions=2, **watch(["inn", "bath"], stated))
    with Replay(town.settings, town.prepare(), town.clock) as run:
        run.run_tick(0)
    new = change(town, **watch(["inn", "bath", "mill", "farm"], stated, name="houses"))
    cost = look(new, town.clock).cost
    assert cost is not None
    assert cost.fences_others is fences
    found = prepare(new, town.clock)
    place = make_ledger_topic(new, found, town.clock.now())
    limits = PeriodLimits(new.config.privacy.epsilon, new.worst)
    records = OwnerRecords(place, new.parameters, town.clock.now)
    check = PeriodCheck(new.kafka, records, limits, found.ledger_reader, 2)
    with caplog.at_level(logging.WARNING):
        take_over(new.kafka, 0, records, create_noise(), town.clock, check.end_takeover).close()
    assert any("fencing its owner" in message for message in caplog.messages) is fences


def test_nothing_is_written(answered: Any, change: Make, store: EmbeddedValkey) -> None:
    """`check --live` changes no key of Redis, no offset and no group."""
    new = change(answered, **watch(["inn", "mill"]))
    before = _state(answered, store)
    look(new, answered.clock)
    assert _state(answered, store) == before


def _state(town: Any, store: EmbeddedValkey) -> tuple[Any, ...]:
    with closing(redis.Redis.from_url(store.url)) as client:
        keys = {key: client.dump(key) for key in client.scan_iter()}
    with closing(town.settings.kafka.create_admin()) as admin:
        places = {TopicPartition(topic, 0): OffsetSpec.LATEST for _, topic in town.topics}
        ends = {place.topic: found.offset for place, found in admin.list_partition_offsets(places).items()}
    return keys, ends, list_groups(town.settings.kafka, town.parameters.name)


def test_unreachable_redis_is_an_obstacle(answered: Any) -> None:
    """Without Redis, pauses are still known, and the obstacle is the one that `run` waits for."""
    address = replace(answered.settings.redis, url="redis://127.0.0.1:9/0")
    report = look(replace(answered.settings, redis=address), answered.clock)
    assert report.refusals == ()
    assert any("Redis at 127.0.0.1:9 cannot be reached" in obstacle for obstacle in report.obstacles)
    assert report.silences[0].paused == 2


def test_text_has_every_part(answered: Any, change: Make) -> None:
    """The text has the decision, the cost, the rereading and the silence, with their numbers."""
    new = change(answered, **watch(["inn", "bath"], "160", name="houses"))
    output = io.StringIO()
    render_live(look(new, answered.clock), Console(file=output, width=1_000))
    text = output.getvalue()
    for part in (
        "`run` would refuse to start (exit code 3), as of 2026-11-20T",
        "Without the published answers of places the total would be",
        "The total would fit from 2026-11-20T",
        "kafka.topics.alerts: ",
        "0 in the release group, 0 of them with another configuration or person key.",
    ):
        assert part in text


def test_command_exits_as_run(make_town: Make, tmp_path: Path, eventually: Callable[..., Any]) -> None:
    """
    The command exits with 3 and the words of `run` before the topics exist, and with 0 after; JSON has all parts.

    It warns, as `topics` does, of a number of output partitions that is not that of the ledger.
    """
    town = make_town(**make_real_time(60, 5))
    words = ["check", "--live", "--config", str(tmp_path / "town.yaml")]
    refused = CliRunner().invoke(main, words)
    assert refused.exit_code == 3, refused.output
    assert "there is no such topic" in refused.output
    town.create()
    eventually(lambda: CliRunner().invoke(main, words).exit_code == 0)  # a new broker may have no coordinator yet
    accepted = CliRunner().invoke(main, words)
    assert accepted.exit_code == 0, accepted.output
    assert "kafka.partitions.alerts is" not in accepted.output
    environ = {"LOCATION_MONITOR__KAFKA__PARTITIONS__ALERTS": "4", "COLUMNS": "1000"}
    for changed in (words, ["topics", *words[2:]], ["topics", "--create", *words[2:]]):
        result = CliRunner().invoke(main, changed, env=environ)
        assert (result.exit_code, "kafka.partitions.alerts is 4" in result.output) == (0, True), result.output
    assert "`run` would start" in accepted.output
    assert "the person key could not be read" in accepted.output
    live = json.loads(CliRunner().invoke(main, [*words, "--json"]).output)["live"]
    assert (live["refusals"], live["cost"]["fits"], live["ledger_partitions"]) == ([], True, 1)
