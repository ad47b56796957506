"""The recount of a run whose configuration changed: each answer is judged under the configuration that gave it.

Who gave it is told by the ledger and the logs together: an owner says how many records it had read when it had taken a
partition over with the next one. What one configuration alone can't tell is worked out here for all of them
together, from the ledger's records and the acknowledged visits: silences, what runs, and what a person paid.
"""

from __future__ import annotations

import copy
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NamedTuple

from monitor.config import load_registry
from monitor.tools.audit import audit
from monitor.tools.audit.findings import BUDGET
from monitor.tools.audit.terms import AuditTerms, read_terms
from monitor.tools.audit.text import parse_instant
from monitor.tools.check.report import check
from monitor.windows.fingerprint import published_fingerprint
from tests.faults.conftest import Scene
from tests.faults.leaks import leaks
from tests.faults.oracles import SETTLE_SECONDS, fates, misplaced, seen_is_committed, write_visits
from tests.faults.processes import Instance
from tests.faults.reading import read_topic
from tests.faults.recount import Recount
from tests.faults.town import KEY, Town
from tests.faults.traffic import Acknowledged

TAKEN: Final = re.compile(r"owns ledger partition (\d+): (\d+) records read")


@dataclass(frozen=True)
class Version:
    """One configuration: the town as it would have it, and the instances that run it."""

    town: Town
    instances: list[Instance] = field(default_factory=list)

    def start(self) -> Instance:
        """Start another instance."""
        self.instances.append(self.town.start())
        return self.instances[-1]

    @property
    def terms(self) -> AuditTerms:
        """What it promises, in the audit's reading."""
        return read_terms(self.town.config)


def changed(town: Town, name: str, tree: dict[str, Any]) -> Version:
    """The same town under another configuration, which states exactly what one person may pay at most by it."""
    view = copy.copy(town)
    view.config, view.tree = town.folder / f"{name}.yaml", tree
    tree["privacy"]["epsilon"] = "100000"
    config = town.configured(tree, view.config).config
    tree["privacy"]["epsilon"] = str(check(config, load_registry(config.locations.file)).total)
    view.settings = town.configured(tree, view.config)
    return Version(view)


class Told(NamedTuple):
    """An answer as it came first; `version` counts the configurations."""

    version: int
    tick: int
    value: Any
    line: str


@dataclass
class Ledger:
    """Every answer, in the order of its partition, and what is wrong with the records themselves."""

    told: list[Told] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def ticks(self, version: int) -> set[int]:
        """The ticks that a version answered, each at least in part."""
        return {told.tick for told in self.told if told.version == version}


def settle(scene: Scene, versions: Sequence[Version]) -> tuple[Ledger, list[str]]:
    """End everything in order, and judge it: what was told, and all that is wrong.

    The last version's last instance must still run, and alone.
    """
    town, instance = versions[-1].town, versions[-1].instances[-1]
    scene.subscriber.wait_whole(SETTLE_SECONDS)
    town.traffic.stop()
    broken = [text for text in fates(town) if text not in letters_of_before(versions)]
    scene.subscriber.wait_tick(scene.subscriber.wait_new(), SETTLE_SECONDS)
    if (code := instance.terminate()) != 0:
        broken.append(f"the service ended with exit code {code}: {instance.text[-1_500:]}")
    scene.subscriber.stop()
    ledger = read_ledger(versions)
    broken += [*ledger.broken, *recount(versions, ledger.told)]
    return ledger, [*broken, *seen_is_committed(town, scene.subscriber), *leaks(town)]


def letters_of_before(versions: Sequence[Version]) -> set[str]:
    """What is found of dead letters that only some of the versions would write: who read a visit first has judged it.

    The last version's facts are read from the same records, but not its dead letters.
    """
    town = versions[-1].town
    records = read_topic(town.servers, town.topics.visits, "read_committed")
    recounts = [Recount(version.terms, KEY.encode()) for version in versions]
    wanted = [{letter for record in records for letter in one.fates(record).letters} for one in recounts]
    more = {
        f"{letter} is a dead letter, and should be none, or holds something else"
        for letter in set().union(*wanted) - wanted[-1]
    }
    fewer = wanted[-1] - wanted[-1].intersection(*wanted)
    return more | {f"{letter} should be a dead letter, and is none" for letter in fewer}


def read_ledger(versions: Sequence[Version]) -> Ledger:
    """Read the output topic, and tell each answer's version."""
    town = versions[-1].town
    records = read_topic(town.servers, town.topics.alerts, "read_uncommitted")
    ledger = Ledger(broken=misplaced(town, records))
    for partition in range(town.shape.ledger_partitions):
        read = [record for record in records if record.partition == partition]
        _told(read, _tenures(versions, partition), versions, ledger)
    return ledger


def _tenures(versions: Sequence[Version], partition: int) -> dict[int, int]:
    """By the number of an owner's own record in the partition: the owner's version."""
    return {
        int(number) + 1: version
        for version, one in enumerate(versions)
        for instance in one.instances
        for taken, number in TAKEN.findall(instance.text)
        if int(taken) == partition
    }


def _told(read: Sequence[Any], tenures: Mapping[int, int], versions: Sequence[Version], ledger: Ledger) -> None:
    known: dict[str, str] = {}
    version = None
    for number, record in enumerate(read, start=1):
        headers = {name: value.decode() for name, value in record.headers}
        value = json.loads(record.value)
        line = json.dumps({"key": record.key.decode(), "headers": headers, "value": value})
        if number in tenures:
            version = tenures[number]
            if value.get("fingerprint") != _fingerprint(versions[version].town, value["input_topic_id"]):
                ledger.broken.append(f"record {number} is not that of an owner under configuration {version + 1}")
        if known.setdefault(headers["ce_id"], line) != line:
            ledger.broken.append(f"{headers['ce_id']} has two sets of bytes")
        elif "tick" in value and known[headers["ce_id"]] is line:
            if version is None:
                ledger.broken.append(f"{headers['ce_id']} was told before anyone took over")
            else:
                ledger.told.append(Told(version, value["tick"], value, line))


def _fingerprint(town: Town, topic_id: str) -> str:
    return published_fingerprint(town.settings.parameters, topic_id)


def recount(versions: Sequence[Version], told: Sequence[Told]) -> list[str]:
    """All that is wrong with what was told: each version's part by the audit, the rest by what lies over all parts.

    The audit of a part knows nothing of what ran when the part began, so of silences it may not speak.
    """
    broken = []
    acknowledged, inherited = versions[-1].town.traffic.known(), set(counts_of_before(told))
    for number, version in enumerate(versions):
        if all(one.version != number for one in told):
            continue  # it left before anyone heard of it
        town = version.town
        visits, alerts = (town.folder / f"{town.config.stem}.{kind}" for kind in ("visits.csv", "alerts.jsonl"))
        write_visits(town, acknowledged, visits)
        alerts.write_text("".join(f"{one.line}\n" for one in told if one.version == number))
        report = audit(visits, town.config, alerts, every_tick=False)
        found = [text for oracle, texts in report.violations.items() if oracle != BUDGET for text in texts]
        broken += [f"{town.config.stem}: {text}" for text in found if text not in inherited]
        unlisted = sum(report.totals.values()) - report.totals.get(BUDGET, 0) - len(found)
        broken += [f"{town.config.stem}: {unlisted} more"] if unlisted else []
    terms = [version.terms for version in versions]
    return [*broken, *silences(terms, told), *redrawn(told), *overpaid(terms, told, acknowledged)]


def counts_of_before(told: Iterable[Told]) -> Iterator[str]:
    """What a part's audit finds of noisy counts that were drawn before, when fewer visits were accepted (another F)."""
    for one in told:
        for location, count in one.value.get("noisy_counts", {}).items():
            if count["tick"] != one.tick:
                where = f"{one.value['monitor']}/{one.value['time']}/{one.value['shard']}, tick {one.tick}, {location}"
                yield f"{where}: there were more people than the noisy count"


@dataclass(frozen=True)
class _Mark:
    epsilon: Fraction
    until: int


def silences(terms: Sequence[AuditTerms], told: Iterable[Told]) -> Iterator[str]:
    """Answers that were not affordable, silences without need, and marks that are not those that run.

    A mark lasts as long as the longest of the configurations that met it says (docs/rules.md, section 3).
    """
    places: dict[tuple[str, str], dict[int, _Mark]] = defaultdict(dict)
    for one in told:
        if one.value["kind"] != "over_time":
            continue
        monitor, location, status = (one.value[name] for name in ("monitor", "location_id", "status"))
        rule = next(rule for rule in terms[one.version].over_time if rule.name == monitor)
        share, cost = rule.shares[location], rule.shares[location] / rule.answers
        marks = places[monitor, location]
        for tick, mark in marks.items():
            marks[tick] = _Mark(mark.epsilon, max(mark.until, tick + rule.mark_lifetime - 1))
        spent = sum((mark.epsilon for mark in marks.values() if mark.until >= one.tick), Fraction(0))
        where = f"{monitor}/{location}, tick {one.tick}, configuration {one.version + 1}"
        if (status == "paused") != (spent + cost > share):
            yield f"{where}: {status}, where {spent} of {share} runs and an answer costs {cost}"
        if status == "noisy_count":
            marks[one.tick] = _Mark(cost, one.tick + rule.mark_lifetime - 1)
        said = {mark["tick"]: _Mark(Fraction(mark["epsilon"]), mark["until"]) for mark in one.value["answers"]}
        if said != {tick: mark for tick, mark in marks.items() if mark.until >= one.tick}:
            yield f"{where}: the answers that run are not as told"


def redrawn(told: Iterable[Told]) -> Iterator[str]:
    """What was drawn twice about a designated time, went away, or came with an incomplete snapshot."""
    drawn: dict[tuple[str, str, int], dict[str, Any]] = defaultdict(dict)
    answered: set[tuple[str, str]] = set()
    for one in told:
        value = one.value
        if value["kind"] == "hot_spots" and value["status"] == "complete":
            if (value["monitor"], value["time"]) in answered:
                yield f"{value['monitor']}/{value['time']}, tick {one.tick}: the hot spots are drawn again"
            answered.add((value["monitor"], value["time"]))
        if value["kind"] != "at_times":
            continue
        known, said = drawn[value["monitor"], value["time"], value["shard"]], value["noisy_counts"]
        where = f"{value['monitor']}/{value['time']}/{value['shard']}, tick {one.tick}"
        if any(said.get(location) != count for location, count in known.items()):
            yield f"{where}: a noisy count is gone, or another one"
        new = {location: count for location, count in said.items() if location not in known}
        if any(count["tick"] != one.tick for count in new.values()) or (new and value["status"] != "complete"):
            yield f"{where}: a noisy count that was not drawn at this tick"
        known.update(new)


class _Charge(NamedTuple):
    """What one delivered visit pays to one answer; `first` and `last`: the instants that it lies in."""

    epsilon: Fraction
    monitor: str
    visit: Acknowledged
    answer: tuple[str, str, int]
    first: int
    last: int


def overpaid(terms: Sequence[AuditTerms], told: Sequence[Told], acknowledged: Sequence[Acknowledged]) -> Iterator[str]:
    """A visit that pays a monitor over time more than its place's ε; a person who pays more than any version states."""
    by_visit: dict[tuple[str, Acknowledged], Fraction] = defaultdict(Fraction)
    by_person: dict[str, dict[tuple[str, str, int], _Charge]] = defaultdict(dict)
    shares: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for one in terms:
        for rule in one.over_time:
            for location, share in rule.shares.items():
                shares[rule.name, location] = max(shares[rule.name, location], share)
    for charge in _charges(terms, told, acknowledged):
        by_visit[charge.monitor, charge.visit] += charge.epsilon
        by_person[charge.visit.visit.person][charge.answer] = charge
    for (monitor, visit), paid in by_visit.items():
        if (most := shares.get((monitor, visit.visit.location), paid)) < paid:
            yield f"one visit to {visit.visit.location} paid {paid} of {most} to {monitor}"
    stated, period = max(one.may_pay for one in terms), terms[-1].period
    paid = max((_most(list(charges.values()), period) for charges in by_person.values()), default=Fraction(0))
    if paid > stated:
        yield f"one person paid {paid} within a period, and {stated} is stated"


def _charges(
    terms: Sequence[AuditTerms], told: Iterable[Told], acknowledged: Sequence[Acknowledged]
) -> Iterator[_Charge]:
    """Whom each noisy answer charges: the visits that were stamped before its as_of."""
    for one in told:
        said = terms[one.version]
        reported = [visit for visit in acknowledged if said.grid.slot_of(visit.stamped) <= one.tick]
        if one.value["kind"] == "over_time" and one.value["status"] == "noisy_count":
            yield from _over_time(said, one, reported)
        elif one.value["kind"] == "at_times":
            new = {location for location, count in one.value["noisy_counts"].items() if count["tick"] == one.tick}
            yield from _at_time(said, one, [visit for visit in reported if visit.visit.location in new])
        elif one.value["kind"] == "hot_spots" and one.value["status"] == "complete":
            yield from _at_time(said, one, reported)


def _over_time(terms: AuditTerms, one: Told, reported: Iterable[Acknowledged]) -> Iterator[_Charge]:
    monitor, location, cost = one.value["monitor"], one.value["location_id"], Fraction(one.value["epsilon"])
    window = next(rule.window for rule in terms.over_time if rule.name == monitor)
    grid = terms.grid
    for visit in reported:
        current, arrived = grid.slot_of(visit.stamped), grid.slot_of(visit.visit.arrived)
        stays = max(arrived, -((grid.origin - visit.visit.left) // grid.slot) - 1)
        last = min(stays, current + terms.max_lead)
        if visit.visit.location == location and arrived <= current + terms.max_lead and last > one.tick - window:
            ends = grid.start(last), grid.start(last + 1) - 1
            yield _Charge(cost, monitor, visit, (monitor, location, one.tick), *ends)


def _at_time(terms: AuditTerms, one: Told, reported: Iterable[Acknowledged]) -> Iterator[_Charge]:
    """Hot spots charge everyone who was anywhere: their ε pays for the counts of all places."""
    time, cost = parse_instant(one.value["time"]), Fraction(one.value["epsilon"])
    for visit in reported:
        end = terms.grid.start(terms.grid.slot_of(visit.stamped) + terms.max_lead + 1)
        if visit.visit.arrived <= time < min(visit.visit.left, end):
            answer = (f"{one.value['monitor']}/{one.value['time']}", visit.visit.location, one.tick)
            yield _Charge(cost, one.value["monitor"], visit, answer, time, time)


def _most(charges: Sequence[_Charge], period: int) -> Fraction:
    """The most that lies in any one period: one that begins where a charge's first instant is its last, will do."""
    return max(
        sum((one.epsilon for one in charges if one.last > end - period and one.first <= end), Fraction(0))
        for end in {one.first for one in charges}
    )
