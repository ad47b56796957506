"""Topics that are lost and made anew, and a ledger that two want."""

from __future__ import annotations

import copy
import json
import re
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

import pytest

from monitor.errors import EXIT_REFUSED, LedgerError
from monitor.operate.setup import Beginning
from monitor.public.instants import SECOND, parse_instant
from monitor.tools.audit import audit
from monitor.tools.audit.terms import read_terms
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey
from tests.faults.conftest import MakeScene, Scene
from tests.faults.facts import Shard, owners_fingerprint, stored
from tests.faults.oracles import write_alerts, write_visits
from tests.faults.processes import Instance, until
from tests.faults.reading import header, read_topic
from tests.faults.recount import Letter, Recount
from tests.faults.town import KEY, TIMES_EVERY, Shape, Town, monitors

F: Final = 1
STARTING: Final = re.compile(r"^(?P<at>\S+Z) WARNING monitor\.run: starting again in (?P<seconds>\d+) s", re.MULTILINE)

# What a recount that knows nothing of a lost ledger finds in the pause: silences without need, by answers unseen.
SILENT: Final = (
    "paused, and the next answer is affordable",
    "answers are not the noisy answers that run",
    "resumes_at is not the as_of of tick",
)
FOUND: Final = re.compile(r"(?P<subject>\S+), tick (?P<tick>\d+): (?P<finding>.+)")


@pytest.fixture
def scene(kafka: EmbeddedKafka, store: EmbeddedValkey, make_scene: MakeScene) -> Scene:
    return make_scene(kafka.bootstrap_servers, store.url, Shape(inputs=2, ledger_partitions=1))


def delete(scene: Scene, topic: str) -> None:
    with scene.town.admin() as admin:
        admin.delete_topics([topic])
        until(lambda: admin.describe_topics([topic])[0]["error_code"], 30, f"{topic} is gone")


def test_the_input_topic_is_made_anew_and_answers_are_unknown_until_a_window_is_whole(scene: Scene) -> None:
    """Visits that were acknowledged are gone for good: no "safe" may speak of a window that they belong to.

    Visits of before may lie up to F slots ahead of the slot in which the new topic is seen to be the input.

    input    ├── visits ──┤ deleted  ├── visits of another topic, its offsets beginning at 0 ──
    service                             ├ sees it in slot c
    answers  s s n p s s  .              c u u u u u u s n s
    tick                                               c + F + W
    """
    town = scene.town
    instance = scene.start()
    scene.subscriber.wait_whole()
    delete(scene, town.topics.visits)
    town.create()
    town.traffic.renew()
    scene.subscriber.wait_whole(90)
    taken = town.settings.parameters.grid.slot_of(looked_anew(instance))
    edges = next(monitor for monitor in town.settings.parameters.over_time if monitor.name == "edges")
    statuses = scene.subscriber.statuses("edges", taken)
    assert {status for (_, tick), status in statuses.items() if tick < taken + F + edges.window} <= {
        "unknown",
        "paused",
    }
    assert min(tick for (_, tick), status in statuses.items() if status == "safe") >= taken + F + edges.window
    assert scene.settle(instance).broken == []


def looked_anew(instance: Instance) -> int:
    """When an instance that started again by itself, and runs since, looked at the servers, or a moment before."""
    before, _, _ = instance.text.rpartition(" runs: ")
    last = list(STARTING.finditer(before))[-1]
    return parse_instant(last["at"]) + int(last["seconds"]) * SECOND


def long_asked() -> Shape:
    """Designated times are asked about for 14 seconds, so that a loss lies well before the last word on some."""
    watched = monitors(time.time_ns() // 1_000 // TIMES_EVERY * TIMES_EVERY)
    longer = [one | ({"reporting_horizon": "14s"} if one["kind"] != "over_time" else {}) for one in watched]
    return Shape(inputs=2, ledger_partitions=1, changes={"monitors": longer})


def test_a_lost_ledger_is_refused_until_someone_says_so_and_pauses_hold_over_two_restarts(
    kafka: EmbeddedKafka, store: EmbeddedValkey, make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything counts as spent: each over_time location is paused until lost_at + W + F, however often it restarts.

    ledger     ├── answers ──┤ deleted  ├─ --ledger-lost ─┼─ restarted ─┼─ restarted ──
    edges      s n p s s s   .            p p p p           p p           p p s
    moments    c c c c c c   .            u u u u   of times before lost_at, for good
    """
    monkeypatch.setattr("monitor.tools.audit.findings.LISTED", 1_000_000)  # none may hide behind those that are excused
    scene = make_scene(kafka.bootstrap_servers, store.url, long_asked())
    town = scene.town
    first = scene.start()
    scene.subscriber.wait_whole()
    until(lambda: "paused" in scene.subscriber.statuses("edges").values(), 40, "something is spent, and runs")
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
    said = scene.subscriber.statuses("edges", loss.slot)
    assert {status for (_, tick), status in said.items() if tick < loss.answers_at} == {"paused"}
    verdict = scene.settle(last)
    assert loss.unexcused(verdict.broken, {header(record, "ce_id") for record in before}) == []
    after = read_topic(town.servers, town.topics.alerts, "read_uncommitted")
    assert loss.unexcused(audited_together(town, [*before, *after]), set()) == []
    assert lost_for_good(loss, after)


def audited_together(town: Town, records: list[Any]) -> list[str]:
    """What a recount finds that knows both ledgers: above all whether a person paid too much to both together."""
    write_alerts(records, town.folder / "both.jsonl")
    write_visits(town, town.traffic.known(), town.folder / "both.csv")
    report = audit(town.folder / "both.csv", town.config, town.folder / "both.jsonl", every_tick=False)
    assert sum(report.totals.values()) == sum(map(len, report.violations.values()))
    assert report.noisy > 0
    return [text for found in report.violations.values() for text in found]


def lost_for_good(loss: Loss, after: list[Any]) -> bool:
    """Whether every answer about a time before the loss is unknown and names nobody's place, the last word included."""
    values = [json.loads(record.value) for record in after]
    timed = [value for value in values if value.get("kind") in ("at_times", "hot_spots")]
    lost = [value for value in timed if parse_instant(value["time"]) < loss.at]
    told = [value for value in timed if parse_instant(value["time"]) >= loss.at]
    assert {value["status"] for value in told} >= {"complete"}
    assert {value["kind"] for value in lost if value["final"]} == {"at_times", "hot_spots"}
    assert not any(value.get("noisy_counts") or value.get("hot_spots") for value in lost)
    return {value["status"] for value in lost} == {"unknown"}


@dataclass(frozen=True)
class Loss:
    """A ledger that was lost at an instant, and what a recount must find strange that does not know of the loss."""

    town: Town
    at: int

    @property
    def slot(self) -> int:
        """The slot of the loss."""
        return self.town.settings.parameters.grid.slot_of(self.at)

    @property
    def answers_at(self) -> int:
        """The first tick that may answer: W + F later."""
        return self.slot + max(
            rule.mark_lifetime for one in self.town.settings.parameters.over_time for rule in one.rules
        )

    def unexcused(self, broken: list[str], ids_of_before: set[str]) -> list[str]:
        """What is not so by the loss alone."""
        return [text for text in broken if not self._of_silence(text) and not self._of_before(text, ids_of_before)]

    def _of_silence(self, text: str) -> bool:
        """Silences are longer than what runs, in the pause alone; of times before the loss, noisy counts are gone."""
        found = FOUND.fullmatch(text)
        if found is None or int(found["tick"]) < self.slot:
            return False
        if found["finding"].startswith(SILENT):
            return int(found["tick"]) < self.answers_at
        gone = re.fullmatch(r"the noisy count of \S+ is gone", found["finding"]) is not None
        return gone and parse_instant(found["subject"].split("/")[1]) < self.at

    def _of_before(self, text: str, ids: set[str]) -> bool:
        ce_id, _, finding = text.partition(" was seen, and is not ")
        return finding in ("committed", "audited") and ce_id in ids


def test_another_service_on_the_same_ledger_is_refused_and_the_first_goes_on(scene: Scene) -> None:
    town = scene.town
    instance = scene.start()
    scene.subscriber.wait_whole()
    other: dict[str, Any] = copy.deepcopy(town.tree)
    other["service"]["name"] = "intruder"
    config = town.folder / "intruder.yaml"
    town.configured(other, config)
    intruder = town.start(config=config)
    assert intruder.wait(40) == EXIT_REFUSED
    assert "give each service its own kafka.topics.alerts" in intruder.text
    scene.subscriber.wait_whole()
    assert scene.settle(instance).broken == []


@pytest.mark.parametrize("made", ["after the producer gave up", pytest.param("soon", marks=pytest.mark.soak)])
def test_the_dead_letters_topic_is_deleted_and_made_again_and_reading_waits_for_it(made: str, scene: Scene) -> None:
    """No progress passes a bad visit whose letter nobody keeps, so answers are unknown until letters can be written.

    The instance is stopped while the topic goes, so that what it had written is known.

    letters   ├─ l l l ─┤ deleted        ├─ made again: l l l ──
    input     g b g g b g g b g g b g g b g g b
    progress  ──────────────┤ waits at b ├──────────
    answers   s n s s         u u u u u    s s n s
    """
    town = scene.town
    instance = scene.start()
    scene.subscriber.wait_whole()
    instance.pause()
    saved = read_topic(town.servers, town.topics.dead_letters, "read_uncommitted")
    delete(scene, town.topics.dead_letters)
    instance.resume()
    gone = town.now()
    until(lambda: unwritten(town, saved) and all_unknown(scene, gone), 60, "bad visits, and ticks without any answer")
    if made != "soon":
        until(lambda: "reading" in json.loads(instance.page("/readyz")), 90, "not ready, for want of reading")
    for shard in stored_shards(town):
        assert all(shard.progress(letter.partition) <= letter.offset for letter in unwritten(town, saved))
    assert instance.code is None
    town.create()
    scene.subscriber.wait_whole(90)
    verdict = scene.settle(instance)
    went = {f"{letter_of(record)} should be a dead letter, and is none" for record in saved}
    assert [text for text in verdict.broken if text not in went] == []
    assert set(verdict.broken) == went


def letter_of(record: Any) -> Letter:
    """What a dead letter tells of."""
    place = int(header(record, "partition")), int(header(record, "offset"))
    return Letter(*place, header(record, "index"), header(record, "reason"))


def unwritten(town: Town, saved: list[Any]) -> set[Letter]:
    """The dead letters that must be, and were not written before the topic went."""
    recount = Recount(read_terms(town.config), KEY.encode())
    records = read_topic(town.servers, town.topics.visits, "read_committed")
    return {letter for record in records for letter in recount.fates(record).letters} - set(map(letter_of, saved))


def all_unknown(scene: Scene, since: int) -> bool:
    """Whether two whole ticks in a row were answered by nothing but unknown and pauses."""
    said: dict[int, set[str]] = defaultdict(set)
    for (_, tick), status in scene.subscriber.statuses("edges", since).items():
        said[tick].add(status)
    silent = {tick for tick, statuses in said.items() if "unknown" in statuses and statuses <= {"unknown", "paused"}}
    return any(tick + 1 in silent for tick in silent)


def stored_shards(town: Town) -> list[Shard]:
    """What Redis holds, shard by shard."""
    recount = Recount(read_terms(town.config), KEY.encode())
    return stored(town, f"{town.name}:{owners_fingerprint(town)}", recount)[0]
