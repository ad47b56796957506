"""The recount of a run whose configuration changed: each answer is judged under the configuration of its owner.

The logs identify the owner: an owner logs the number of records that it read before its own owner record. Pauses,
marks and the ε paid by a person are recounted here over all configurations together, from the ledger's records and the
acknowledged visits.
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

from monitor.store.fingerprint import compute_published_fingerprint
from monitor.tools.audit import audit
from monitor.tools.audit.configuration import AuditTerms, read_terms
from monitor.tools.audit.findings import BUDGET
from monitor.tools.audit.parsing import parse_instant
from tests.faults.conftest import Scene
from tests.faults.oracles import check_committed, end_run, find_leaks, find_misplaced, write_visits
from tests.faults.recount import Recount, make_rules
from tests.faults.town import FaultTown
from tests.faults.traffic import Acknowledged
from tests.kit.processes import Instance
from tests.kit.topics import read_topic
from tests.kit.town import KEY

TAKEN: Final = re.compile(r"owns ledger partition (\d+): (\d+) records read")


@dataclass(frozen=True)
class Version:
    """One configuration of a town, and the instances that run it."""

    town: FaultTown
    instances: list[Instance] = field(default_factory=list)

    def start(self) -> Instance:
        """Start another instance."""
        self.instances.append(self.town.start())
        return self.instances[-1]

    @property
    def terms(self) -> AuditTerms:
        """The terms of the configuration, as the audit reads it."""
        return read_terms(self.town.config)


def change_configuration(town: FaultTown, name: str, tree: dict[str, Any]) -> Version:
    """Return the town under another configuration, which states exactly the most that one person may pay."""
    view = copy.copy(town)
    view.config, view.tree = town.folder / f"{name}.yaml", tree
    tree["privacy"]["epsilon"] = "100000"
    tree["privacy"]["epsilon"] = str(town.configure(tree, view.config).worst)
    view.settings = town.configure(tree, view.config)
    return Version(view)


class Answer(NamedTuple):
    """An answer, as first published. `version` is the index of its configuration."""

    version: int
    tick: int
    value: Any
    line: str


@dataclass
class Ledger:
    """Every answer, in the order of its partition, and the findings about single records."""

    answers: list[Answer] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def ticks(self, version: int) -> set[int]:
        """Return the ticks that a version answered at least in part."""
        return {answer.tick for answer in self.answers if answer.version == version}


def settle(scene: Scene, versions: Sequence[Version]) -> tuple[Ledger, list[str]]:
    """End everything in order, and return all answers and all findings.

    Only the last instance of the last version may still run.
    """
    town, instance = versions[-1].town, versions[-1].instances[-1]
    findings = end_run(town, scene.subscriber, instance)
    expected = find_expected_letters(versions)
    broken = [text for text in findings if text not in expected]
    ledger = read_ledger(versions)
    broken += [*ledger.broken, *recount_all(versions, ledger.answers)]
    return ledger, [*broken, *check_committed(town, scene.subscriber), *find_leaks(town)]


def find_expected_letters(versions: Sequence[Version]) -> set[str]:
    """Return the findings about dead letters that only some of the versions would write.

    The version that reads a visit first decides whether it becomes a dead letter. A later version reads the same
    records for its facts, but writes no dead letters of them.
    """
    town = versions[-1].town
    records = read_topic(town.servers, town.topics.visits, "read_committed")
    recounts = [Recount(version.terms, KEY.encode()) for version in versions]
    wanted = [{letter for record in records for letter in recount.fates(record).letters} for recount in recounts]
    more = {
        f"{letter} is an unexpected dead letter, or has another payload" for letter in set().union(*wanted) - wanted[-1]
    }
    fewer = wanted[-1] - wanted[-1].intersection(*wanted)
    return more | {f"{letter} is missing among the dead letters" for letter in fewer}


def read_ledger(versions: Sequence[Version]) -> Ledger:
    """Read the output topic and return all answers with their versions."""
    town = versions[-1].town
    records = read_topic(town.servers, town.topics.alerts, "read_uncommitted")
    ledger = Ledger(broken=find_misplaced(town, records))
    for partition in range(town.shape.ledger_partitions):
        read = [record for record in records if record.partition == partition]
        _add_answers(read, _read_tenures(versions, partition), versions, ledger)
    return ledger


def _read_tenures(versions: Sequence[Version], partition: int) -> dict[int, int]:
    """Return the version of each owner, by the number of its owner record in the partition."""
    return {
        int(number) + 1: index
        for index, version in enumerate(versions)
        for instance in version.instances
        for owned, number in TAKEN.findall(instance.text)
        if int(owned) == partition
    }


def _add_answers(read: Sequence[Any], tenures: Mapping[int, int], versions: Sequence[Version], ledger: Ledger) -> None:
    known: dict[str, str] = {}
    version = None
    for number, record in enumerate(read, start=1):
        headers = {name: value.decode() for name, value in record.headers}
        value = json.loads(record.value)
        line = json.dumps({"key": record.key.decode(), "headers": headers, "value": value})
        if number in tenures:
            version = tenures[number]
            if value.get("fingerprint") != _read_fingerprint(versions[version].town, value["input_topic_id"]):
                ledger.broken.append(f"record {number} is not an owner record of configuration {version + 1}")
        if known.setdefault(headers["ce_id"], line) != line:
            ledger.broken.append(f"{headers['ce_id']} has two sets of bytes")
        elif "tick" in value and known[headers["ce_id"]] is line:
            if version is None:
                ledger.broken.append(f"{headers['ce_id']} was published before any takeover")
            else:
                ledger.answers.append(Answer(version, value["tick"], value, line))


def _read_fingerprint(town: FaultTown, topic_id: str) -> str:
    return compute_published_fingerprint(town.settings.parameters, topic_id)


def recount_all(versions: Sequence[Version], answers: Sequence[Answer]) -> list[str]:
    """Return all findings: the audit of each version's answers, and the checks over all versions.

    The audit of a version does not know the marks that ran when the version began, so its findings about pauses are
    ignored.
    """
    broken = []
    acknowledged, inherited = versions[-1].town.traffic.known(), set(find_inherited_counts(answers))
    for number, version in enumerate(versions):
        if all(answer.version != number for answer in answers):
            continue  # it ended before it answered
        town = version.town
        visits, alerts = (town.folder / f"{town.config.stem}.{kind}" for kind in ("visits.csv", "alerts.jsonl"))
        write_visits(town, acknowledged, visits)
        alerts.write_text("".join(f"{answer.line}\n" for answer in answers if answer.version == number))
        report = audit(visits, town.config, alerts, every_tick=False)
        findings = [text for oracle, texts in report.violations.items() if oracle != BUDGET for text in texts]
        broken += [f"{town.config.stem}: {text}" for text in findings if text not in inherited]
        unlisted = sum(report.totals.values()) - report.totals.get(BUDGET, 0) - len(findings)
        broken += [f"{town.config.stem}: {unlisted} more"] if unlisted else []
    terms = [version.terms for version in versions]
    return [
        *broken,
        *check_silences(terms, answers),
        *find_redrawn(answers),
        *find_overpaid(terms, answers, acknowledged),
    ]


def find_inherited_counts(answers: Iterable[Answer]) -> Iterator[str]:
    """Yield the audit's findings about noisy counts of an earlier version, which accepted fewer visits (another F)."""
    for answer in answers:
        value = answer.value
        for location, count in value.get("noisy_counts", {}).items():
            if count["tick"] != answer.tick:
                where = f"{value['monitor']}/{value['time']}/{value['shard']}, tick {answer.tick}, {location}"
                yield f"{where}: there were more people than the noisy count"


@dataclass(frozen=True)
class _Mark:
    epsilon: Fraction
    until: int


def check_silences(terms: Sequence[AuditTerms], answers: Iterable[Answer]) -> Iterator[str]:
    """Yield a finding per unaffordable answer, per pause without need, and per answer with wrong marks.

    A mark lasts as long as the longest lifetime among the configurations that met it (docs/rules.md, section 3).
    """
    places: dict[tuple[str, str], dict[int, _Mark]] = defaultdict(dict)
    for answer in answers:
        if answer.value["kind"] != "over_time":
            continue
        monitor, location, status = (answer.value[name] for name in ("monitor", "location_id", "status"))
        rule = next(rule for rule in terms[answer.version].over_time if rule.name == monitor)
        share, cost = rule.shares[location], rule.shares[location] / rule.answers
        marks = places[monitor, location]
        for tick, mark in marks.items():
            marks[tick] = _Mark(mark.epsilon, max(mark.until, tick + rule.mark_lifetime - 1))
        spent = sum((mark.epsilon for mark in marks.values() if mark.until >= answer.tick), Fraction(0))
        where = f"{monitor}/{location}, tick {answer.tick}, configuration {answer.version + 1}"
        if (status == "paused") != (spent + cost > share):
            yield f"{where}: {status}, where {spent} of {share} is spent and an answer costs {cost}"
        if status == "noisy_count":
            marks[answer.tick] = _Mark(cost, answer.tick + rule.mark_lifetime - 1)
        published = {mark["tick"]: _Mark(Fraction(mark["epsilon"]), mark["until"]) for mark in answer.value["answers"]}
        if published != {tick: mark for tick, mark in marks.items() if mark.until >= answer.tick}:
            yield f"{where}: the published marks differ from those that run"


def find_redrawn(answers: Iterable[Answer]) -> Iterator[str]:
    """Yield a finding per draw for a designated time that is repeated, withdrawn, or from an incomplete snapshot."""
    drawn: dict[tuple[str, str, int], dict[str, Any]] = defaultdict(dict)
    answered: set[tuple[str, str]] = set()
    for answer in answers:
        value = answer.value
        if value["kind"] == "hot_spots" and value["status"] == "complete":
            if (value["monitor"], value["time"]) in answered:
                yield f"{value['monitor']}/{value['time']}, tick {answer.tick}: the hot spots are drawn again"
            answered.add((value["monitor"], value["time"]))
        if value["kind"] != "at_times":
            continue
        known, counts = drawn[value["monitor"], value["time"], value["shard"]], value["noisy_counts"]
        where = f"{value['monitor']}/{value['time']}/{value['shard']}, tick {answer.tick}"
        if any(counts.get(location) != count for location, count in known.items()):
            yield f"{where}: a noisy count is gone or has changed"
        new = {location: count for location, count in counts.items() if location not in known}
        if any(count["tick"] != answer.tick for count in new.values()) or (new and value["status"] != "complete"):
            yield f"{where}: a noisy count that was not drawn at this tick"
        known.update(new)


class _Charge(NamedTuple):
    """The ε that one delivered visit pays to one answer. The charge is at the instants from `first` to `last`."""

    epsilon: Fraction
    monitor: str
    visit: Acknowledged
    answer: tuple[str, str, int]
    first: int
    last: int


def find_overpaid(
    terms: Sequence[AuditTerms], answers: Sequence[Answer], acknowledged: Sequence[Acknowledged]
) -> Iterator[str]:
    """Yield a finding per visit that pays more than the ε of its place, and if a person pays more than is stated."""
    by_visit: dict[tuple[str, Acknowledged], Fraction] = defaultdict(Fraction)
    by_person: dict[str, dict[tuple[str, str, int], _Charge]] = defaultdict(dict)
    shares: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for version in terms:
        for rule in version.over_time:
            for location, share in rule.shares.items():
                shares[rule.name, location] = max(shares[rule.name, location], share)
    for charge in _find_charges(terms, answers, acknowledged):
        by_visit[charge.monitor, charge.visit] += charge.epsilon
        by_person[charge.visit.visit.person][charge.answer] = charge
    for (monitor, visit), paid in by_visit.items():
        if (most := shares.get((monitor, visit.visit.location), paid)) < paid:
            yield f"one visit to {visit.visit.location} paid {paid} of {most} to {monitor}"
    stated, period = max(version.may_pay for version in terms), terms[-1].period
    paid = max((_find_most(list(charges.values()), period) for charges in by_person.values()), default=Fraction(0))
    if paid > stated:
        yield f"one person paid {paid} within a period, but {stated} is stated"


def _find_charges(
    terms: Sequence[AuditTerms], answers: Iterable[Answer], acknowledged: Sequence[Acknowledged]
) -> Iterator[_Charge]:
    """Yield the charges of each noisy answer to the visits that were stamped before its as_of."""
    for answer in answers:
        version, value = terms[answer.version], answer.value
        reported = [visit for visit in acknowledged if version.grid.find_slot(visit.stamped) <= answer.tick]
        if value["kind"] == "over_time" and value["status"] == "noisy_count":
            yield from _over_time(version, answer, reported)
        elif value["kind"] == "at_times":
            new = {location for location, count in value["noisy_counts"].items() if count["tick"] == answer.tick}
            yield from _at_time(version, answer, [visit for visit in reported if visit.visit.location in new])
        elif value["kind"] == "hot_spots" and value["status"] == "complete":
            yield from _at_time(version, answer, reported)


def _over_time(terms: AuditTerms, answer: Answer, reported: Iterable[Acknowledged]) -> Iterator[_Charge]:
    monitor, location, cost = answer.value["monitor"], answer.value["location_id"], Fraction(answer.value["epsilon"])
    window = next(rule.window for rule in terms.over_time if rule.name == monitor)
    rules = make_rules(terms)
    for visit in reported:
        counted = rules.accept(visit.visit.arrived, visit.visit.left, visit.stamped)
        if visit.visit.location == location and counted is not None and counted.in_window(answer.tick, window):
            ends = terms.grid.start(counted.last), terms.grid.start(counted.last + 1) - 1
            yield _Charge(cost, monitor, visit, (monitor, location, answer.tick), *ends)


def _at_time(terms: AuditTerms, answer: Answer, reported: Iterable[Acknowledged]) -> Iterator[_Charge]:
    """Yield the charges of an answer about a time. Hot spots charge people at all places."""
    value, time, rules = answer.value, parse_instant(answer.value["time"]), make_rules(terms)
    for visit in reported:
        counted = rules.accept(visit.visit.arrived, visit.visit.left, visit.stamped)
        if counted is not None and counted.arrived <= time < counted.left:
            key = (f"{value['monitor']}/{value['time']}", visit.visit.location, answer.tick)
            yield _Charge(Fraction(value["epsilon"]), value["monitor"], visit, key, time, time)


def _find_most(charges: Sequence[_Charge], period: int) -> Fraction:
    """Return the largest sum within any period. Periods that end at the first instant of a charge suffice."""
    return max(
        sum((charge.epsilon for charge in charges if charge.last > end - period and charge.first <= end), Fraction(0))
        for end in {charge.first for charge in charges}
    )
