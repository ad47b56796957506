"""What must hold after any fault: the audit of `monitor.tools.audit`, which shares no code with the service, and more.

- one set of bytes per ce_id, also among records of aborted transactions; all that was seen is audited, and stands
  committed at the end; answers lie in the partition of their shard, of the Q that the ledger's first record names
- every answer follows from the exact count of the records stamped before as_of; where draws are zero it is that count
- no false "safe", noisy counts certain, ε and pauses as they must be at every prefix, nobody pays more than stated
- every visit has exactly one fate: facts and dead letters are those of the recount of the input topic, one by one
- planted person ids nowhere outside the input and the values of dead letters
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from monitor.public.instants import format_instant
from monitor.tools.audit import AuditReport, audit
from monitor.tools.audit.terms import read_terms
from tests.faults.exact import Counts, inexact
from tests.faults.facts import Compared, compare
from tests.faults.leaks import leaks
from tests.faults.processes import Instance, until
from tests.faults.reading import header, read_topic
from tests.faults.recount import Recount
from tests.faults.town import KEY, Subscriber, Town
from tests.faults.traffic import Acknowledged

SETTLE_SECONDS: Final = 60.0
ANSWERS: Final = ("over_time", "at_times", "hot_spots")


@dataclass
class Verdict:
    """What was found: `broken` is empty if every promise held. `report` is the audit's."""

    report: AuditReport
    broken: list[str] = field(default_factory=list)

    def count(self, status: str) -> int:
        """How many answers had a status."""
        return sum(number for (_, said), number in self.report.answers.items() if said == status)


def settle(town: Town, subscriber: Subscriber, instance: Instance) -> Verdict:
    """End the traffic, let the service finish what it has, stop it, and judge everything.

    The facts are looked at while the service runs, then it is told to stop, and must do so with exit code 0.
    """
    if not subscriber.is_whole():
        subscriber.wait_whole(SETTLE_SECONDS)
    town.traffic.stop()
    broken = fates(town)
    subscriber.wait_tick(subscriber.wait_new(), SETTLE_SECONDS)
    code = instance.terminate()
    if code != 0:
        broken.append(f"the service ended with exit code {code}: {instance.text[-1_500:]}")
    subscriber.stop()
    verdict = judge(town)
    verdict.broken += [*broken, *seen_is_committed(town, subscriber), *leaks(town)]
    return verdict


def judge(town: Town) -> Verdict:
    """The recount of all that was published so far, and of all facts and dead letters so far."""
    visits, alerts = town.folder / "visits.csv", town.folder / "alerts.jsonl"
    seen = set(town.subscriber.said) if town.subscriber else set()
    records = read_topic(town.servers, town.topics.alerts, "read_uncommitted")
    write_visits(town, town.traffic.known(), visits)
    write_alerts(records, alerts)
    report = audit(visits, town.config, alerts, every_tick=False)
    verdict = Verdict(report, [text for found in report.violations.values() for text in found])
    audited = {header(record, "ce_id") for record in records}
    verdict.broken += [f"{ce_id} was seen, and is not audited" for ce_id in sorted(seen - audited)]
    verdict.broken += misplaced(town, records)
    verdict.broken += not_of_the_log(town, records)
    verdict.broken += compare(town).broken
    return verdict


def not_of_the_log(town: Town, records: list[Any]) -> list[str]:
    """Answers that do not follow from the input topic, which is read after them, and so holds all that they count."""
    recount = Recount(read_terms(town.config), KEY.encode())
    counts = Counts(recount, read_topic(town.servers, town.topics.visits, "read_committed"))
    answers = {header(record, "ce_id"): json.loads(record.value) for record in records}
    return list(inexact(counts, answers.values(), town.traffic.renewed))


def write_visits(town: Town, acknowledged: list[Acknowledged], path: Path) -> None:
    """The acknowledged visits as a replay file, which "safe" is judged by; not those that are too far ahead.

    A visit is reported when the broker stamps it: that decides its fate, and which ticks count it.
    """
    grid, max_lead = town.settings.parameters.grid, town.settings.parameters.max_lead
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("person_id", "location_id", "arrived_at", "left_at", "reported_at"))
        for told in sorted(acknowledged, key=lambda one: one.stamped):
            current = grid.slot_of(told.stamped)
            end = grid.start(current + max_lead + 1)
            if told.visit.arrived >= end:
                continue
            times = (format_instant(at) for at in (told.visit.arrived, min(told.visit.left, end), told.stamped))
            rows.writerow((told.visit.person, told.visit.location, *times))


def write_alerts(records: list[Any], path: Path) -> None:
    """The output topic as `replay` writes it (docs/interface.md, section 2): by tick, then partition and offset.

    Records without a tick come with the tick before them.
    """
    ticks: dict[int, int] = {}
    keyed = []
    for record in records:
        value = json.loads(record.value)
        ticks[record.partition] = value.get("tick", ticks.get(record.partition, -1))
        shown = {
            "key": record.key.decode(),
            "headers": {name: text.decode() for name, text in record.headers},
            "value": value,
            "partition": record.partition,
            "offset": record.offset,
        }
        keyed.append((ticks[record.partition], record.partition, record.offset, shown))
    with path.open("w", encoding="utf-8") as file:
        for *_, shown in sorted(keyed, key=lambda one: one[:3]):
            file.write(json.dumps(shown) + "\n")


def misplaced(town: Town, records: list[Any]) -> list[str]:
    """Answers outside the partition that their shard has, with the Q of the ledger's first record."""
    ledger_partitions, shards = town.shape.ledger_partitions, town.settings.parameters.registry.shards
    places: dict[str, Callable[[Any], int]] = {
        "over_time": lambda value: _hashed(value["location_id"], shards) % ledger_partitions,
        "at_times": lambda value: int(value["shard"]) % ledger_partitions,
        "hot_spots": lambda value: _hashed(value["monitor"], ledger_partitions),
    }
    broken = []
    for record in records:
        kind = header(record, "ce_type").rpartition(".")[2]
        right = record.partition < ledger_partitions
        if right and kind in places:
            right = record.partition == places[kind](json.loads(record.value))
        if not right:
            broken.append(
                f"{header(record, 'ce_id')} lies in partition {record.partition}, with Q = {ledger_partitions}"
            )
    return broken


def _hashed(text: str, modulus: int) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:16], 16) % modulus


def fates(town: Town) -> list[str]:
    """Visits that have not exactly one fate, once the service has read all; and whether there were any to look at."""

    def all_read() -> list[Compared]:
        compared = compare(town)
        return [] if compared.unread else [compared]

    (compared,) = until(all_read, SETTLE_SECONDS, "all is read")
    broken = list(compared.broken)
    if not compared.people:
        broken.append("nobody is in any window: the facts were not tried")
    if not compared.moments:
        broken.append("nobody is anywhere at a designated time: the facts were not tried")
    return broken


def seen_is_committed(town: Town, subscriber: Subscriber) -> list[str]:
    """Differing bytes under one ce_id, and answers that were seen and do not stand committed at the end."""
    broken = [f"{ce_id} was seen with other bytes" for ce_id, said in subscriber.said.items() if len(said) > 1]
    committed = {header(record, "ce_id") for record in read_topic(town.servers, town.topics.alerts, "read_committed")}
    answers = {ce_id for ce_id, said in subscriber.said.items() if _is_answer(ce_id, said)}
    return broken + [f"{ce_id} was seen, and is not committed" for ce_id in sorted(answers - committed)]


def _is_answer(ce_id: str, said: set[bytes]) -> bool:
    """Owner records tell the kinds of monitors too; nobody is answered by them."""
    return not ce_id.startswith(("owner/", "ledger/")) and any(
        kind in text for text in map(bytes.decode, said) for kind in ANSWERS
    )
