"""Topics that are deleted and recreated, and a ledger that two services use."""

from __future__ import annotations

import copy
import json
import re
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

import pytest

from monitor.contracts.instants import SECOND, parse_instant
from monitor.errors import EXIT_REFUSED, LedgerError
from monitor.service.create_topics import Beginning
from monitor.tools.audit import audit
from monitor.tools.audit.configuration import read_terms
from monitor.tools.servers import EmbeddedValkey
from tests.faults.conftest import MakeScene, Scene
from tests.faults.facts import Shard, read_fingerprint, read_shards
from tests.faults.oracles import write_alerts, write_visits
from tests.faults.recount import DeadLetter, Recount
from tests.faults.town import TIMES_EVERY, FaultTown, Shape, make_monitors
from tests.kit.processes import Instance
from tests.kit.topics import read_header, read_topic
from tests.kit.town import KEY
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

F: Final = 1
STARTING: Final = re.compile(
    r"^(?P<at>\S+Z) WARNING monitor\.service\.keep_running: starting again in (?P<seconds>\d+) s", re.MULTILINE
)

# The audit does not know of a lost ledger. These are its findings during the pause after the loss.
SILENT: Final = (
    "paused, and the next answer is affordable",
    "answers are not the noisy answers that run",
    "resumes_at is not the as_of of tick",
)
FOUND: Final = re.compile(r"(?P<subject>\S+), tick (?P<tick>\d+): (?P<finding>.+)")


@pytest.fixture
def scene(kafka: SharedKafka, store: EmbeddedValkey, make_scene: MakeScene) -> Scene:
    return make_scene(kafka.bootstrap_servers, store.url, Shape(inputs=2, ledger_partitions=1))


def delete(scene: Scene, topic: str) -> None:
    with scene.town.admin() as admin:
        admin.delete_topics([topic])
        until(lambda: admin.describe_topics([topic])[0]["error_code"], 30, f"{topic} is gone")


@pytest.mark.promise(7)
def test_recreated_input_topic_makes_answers_unknown(scene: Scene) -> None:
    """After the input topic is recreated, answers are unknown for every window that may contain lost visits.

    Lost visits may be up to F slots ahead of the slot in which the service detects the new topic.

    input    ├── visits ──┤ deleted  ├── visits in the new topic, offsets from 0 ──
    service                             ├ detects it in slot c
    answers  s s n p s s  .              c u u u u u u s n s
    tick                                               c + F + W
    """
    town = scene.town
    instance = scene.start()
    scene.subscriber.wait_complete()
    delete(scene, town.topics.visits)
    town.create()
    town.traffic.renew()
    scene.subscriber.wait_complete(90)
    taken = town.settings.parameters.grid.find_slot(find_last_check(instance))
    edges = next(monitor for monitor in town.settings.parameters.over_time if monitor.name == "edges")
    statuses = scene.subscriber.statuses("edges", taken)
    assert {status for (_, tick), status in statuses.items() if tick < taken + F + edges.window} <= {
        "unknown",
        "paused",
    }
    assert min(tick for (_, tick), status in statuses.items() if status == "safe") >= taken + F + edges.window
    assert scene.settle(instance).broken == []


def find_last_check(instance: Instance) -> int:
    """Return when an instance that restarted itself last checked the servers, or a moment earlier."""
    before, _, _ = instance.text.rpartition(" runs: ")
    last = list(STARTING.finditer(before))[-1]
    return parse_instant(last["at"]) + int(last["seconds"]) * SECOND


def make_long_horizons() -> Shape:
    """Return a shape with horizons of 30 seconds, so that some designated times end well after a loss.

    A busy machine can need more than ten seconds to restart an instance twice.
    """
    usual = make_monitors(time.time_ns() // 1_000 // TIMES_EVERY * TIMES_EVERY)
    longer = [tree | ({"reporting_horizon": "30s"} if tree["kind"] != "over_time" else {}) for tree in usual]
    return Shape(inputs=2, ledger_partitions=1, changes={"monitors": longer})


@pytest.mark.promise(32)
def test_lost_ledger_pauses_over_restarts(
    kafka: SharedKafka, store: EmbeddedValkey, make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost ledger is refused until it is confirmed; then all locations are paused until lost_at + W + F.

    The pause continues over two restarts.

    ledger     ├── answers ──┤ deleted  ├─ --ledger-lost ─┼─ restarted ─┼─ restarted ──
    edges      s n p s s s   .            p p p p           p p           p p s
    moments    c c c c c c   .            u u u u   for times before lost_at, until the end of their horizon
    """
    monkeypatch.setattr("monitor.tools.audit.findings.LISTED", 1_000_000)  # list all findings, also after excused ones
    scene = make_scene(kafka.bootstrap_servers, store.url, make_long_horizons())
    town = scene.town
    first = scene.start()
    scene.subscriber.wait_complete()
    until(lambda: "paused" in scene.subscriber.statuses("edges").values(), 40, "a mark runs")
    first.kill()
    before = read_topic(town.servers, town.topics.alerts, "read_uncommitted")
    delete(scene, town.topics.alerts)
    assert scene.start().wait(40) == EXIT_REFUSED
    with pytest.raises(LedgerError, match=r"--first-start .*--ledger-lost"):
        town.create()
    assert scene.start().wait(40) == EXIT_REFUSED
    loss = Loss(town, town.create(Beginning.LEDGER_LOST).lost_at or 0)
    for _ in range(2):
        restarted = scene.start()
        scene.subscriber.wait_new()
        restarted.kill()
    last = scene.start()
    until(lambda: "safe" in set(scene.subscriber.statuses("edges", loss.slot).values()), 60, "answers again")
    statuses = scene.subscriber.statuses("edges", loss.slot)
    assert {status for (_, tick), status in statuses.items() if tick < loss.answers_at} == {"paused"}
    verdict = scene.settle(last)
    assert loss.unexcused(verdict.broken, {read_header(record, "ce_id") for record in before}) == []
    after = read_topic(town.servers, town.topics.alerts, "read_uncommitted")
    assert loss.unexcused(audit_both(town, [*before, *after]), set()) == []
    assert is_lost_for_good(loss, after)


def audit_both(town: FaultTown, records: list[Any]) -> list[str]:
    """Audit both ledgers together and return the findings, in particular whether a person paid too much in total."""
    write_alerts(records, town.folder / "both.jsonl")
    write_visits(town, town.traffic.known(), town.folder / "both.csv")
    report = audit(town.folder / "both.csv", town.config, town.folder / "both.jsonl", every_tick=False)
    assert sum(report.totals.values()) == sum(map(len, report.violations.values()))
    assert report.noisy > 0
    return [text for texts in report.violations.values() for text in texts]


def is_lost_for_good(loss: Loss, after: list[Any]) -> bool:
    """Return whether every answer about a time before the loss, up to the final one, is unknown and names no place."""
    values = [json.loads(record.value) for record in after]
    timed = [value for value in values if value.get("kind") in ("at_times", "hot_spots")]
    lost = [value for value in timed if parse_instant(value["time"]) < loss.at]
    later = [value for value in timed if parse_instant(value["time"]) >= loss.at]
    assert {value["status"] for value in later} >= {"complete"}
    assert {value["kind"] for value in lost if value["final"]} == {"at_times", "hot_spots"}
    assert not any(value.get("noisy_counts") or value.get("hot_spots") for value in lost)
    return {value["status"] for value in lost} == {"unknown"}


@dataclass(frozen=True)
class Loss:
    """A ledger lost at an instant, and the findings of an audit that does not know of the loss."""

    town: FaultTown
    at: int

    @property
    def slot(self) -> int:
        """The slot of the loss."""
        return self.town.settings.parameters.grid.find_slot(self.at)

    @property
    def answers_at(self) -> int:
        """The first tick that may answer: W + F later."""
        return self.slot + max(
            rule.mark_lifetime for monitor in self.town.settings.parameters.over_time for rule in monitor.rules
        )

    def unexcused(self, broken: list[str], ids_of_before: set[str]) -> list[str]:
        """Return the findings that the loss does not explain."""
        return [text for text in broken if not self._is_pause(text) and not self._is_earlier(text, ids_of_before)]

    def _is_pause(self, text: str) -> bool:
        """Return whether a finding is about the pause after the loss, or a withdrawn noisy count of an earlier time."""
        match = FOUND.fullmatch(text)
        if match is None or int(match["tick"]) < self.slot:
            return False
        if match["finding"].startswith(SILENT):
            return int(match["tick"]) < self.answers_at
        gone = re.fullmatch(r"the noisy count of \S+ is gone", match["finding"]) is not None
        return gone and parse_instant(match["subject"].split("/")[1]) < self.at

    def _is_earlier(self, text: str, ids: set[str]) -> bool:
        ce_id, _, finding = text.partition(" was seen, but is not ")
        return finding in ("committed", "audited") and ce_id in ids


@pytest.mark.promise(35)
def test_second_service_on_ledger_is_refused(scene: Scene) -> None:
    """A second service on one ledger is refused with exit code 3, and the first one continues."""
    town = scene.town
    instance = scene.start()
    scene.subscriber.wait_complete()
    other: dict[str, Any] = copy.deepcopy(town.tree)
    other["service"]["name"] = "intruder"
    config = town.folder / "intruder.yaml"
    town.configure(other, config)
    intruder = town.start(config=config)
    assert intruder.wait(40) == EXIT_REFUSED
    assert "give each service its own kafka.topics.alerts" in intruder.text
    scene.subscriber.wait_complete()
    assert scene.settle(instance).broken == []


@pytest.mark.promise(26)
@pytest.mark.parametrize("made", ["after the producer gave up", pytest.param("soon", marks=pytest.mark.soak)])
def test_reading_waits_for_deleted_dead_letters(made: str, scene: Scene) -> None:
    """Without the topic of dead letters, reading waits at the next invalid visit, and answers are unknown.

    The instance is stopped while the topic is deleted, so that the dead letters written before are known.

    letters   ├─ l l l ─┤ deleted        ├─ recreated: l l l ──
    input     g b g g b g g b g g b g g b g g b
    progress  ──────────────┤ waits at b ├──────────
    answers   s n s s         u u u u u    s s n s
    """
    town = scene.town
    instance = scene.start()
    scene.subscriber.wait_complete()
    instance.pause()
    saved = read_topic(town.servers, town.topics.dead_letters, "read_uncommitted")
    delete(scene, town.topics.dead_letters)
    instance.resume()
    gone = town.now()
    until(
        lambda: is_all_unknown(scene, gone) and find_unwritten(town, saved),
        60,
        "unwritten dead letters, and unknown ticks",
    )
    if made != "soon":
        until(lambda: "reading" in json.loads(instance.page("/readyz")), 90, "not ready, since reading waits")
    unwritten = find_unwritten(town, saved)
    for shard in read_town_shards(town):
        assert all(shard.read_progress(letter.partition) <= letter.offset for letter in unwritten)
    assert instance.code is None
    town.create()
    scene.subscriber.wait_complete(90)
    verdict = scene.settle(instance)
    deleted = {f"{read_letter(record)} is missing among the dead letters" for record in saved}
    assert [text for text in verdict.broken if text not in deleted] == []
    assert set(verdict.broken) == deleted


def read_letter(record: Any) -> DeadLetter:
    """Return the dead letter that a record contains."""
    position = int(read_header(record, "partition")), int(read_header(record, "offset"))
    return DeadLetter(*position, read_header(record, "index"), read_header(record, "reason"))


def find_unwritten(town: FaultTown, saved: list[Any]) -> set[DeadLetter]:
    """Return the expected dead letters that were not written before the topic was deleted."""
    recount = Recount(read_terms(town.config), KEY.encode())
    records = read_topic(town.servers, town.topics.visits, "read_committed")
    return {letter for record in records for letter in recount.fates(record).letters} - set(map(read_letter, saved))


def is_all_unknown(scene: Scene, since: int) -> bool:
    """Return whether two consecutive ticks have only "unknown" and "paused"."""
    by_tick: dict[int, set[str]] = defaultdict(set)
    for (_, tick), status in scene.subscriber.statuses("edges", since).items():
        by_tick[tick].add(status)
    silent = {tick for tick, statuses in by_tick.items() if statuses in ({"unknown"}, {"unknown", "paused"})}
    return any(tick + 1 in silent for tick in silent)


def read_town_shards(town: FaultTown) -> list[Shard]:
    """Read the content of all shards."""
    recount = Recount(read_terms(town.config), KEY.encode())
    return read_shards(town, f"{town.name}:{read_fingerprint(town)}", recount)[0]
