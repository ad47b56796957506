"""The checks after any fault: the audit of `monitor.audit`, which shares no code with the service, and more.

- A ce_id has one set of bytes, also among records of aborted transactions. Every answer seen is committed at the end.
  An answer is in the partition of its shard, by the number of ledger partitions Q of the first record.
- No "safe" is false, noisy counts are upper bounds, ε and pauses are right at every prefix, and nobody pays more than
  stated: the command `audit` finds nothing in the topics. Where draws are zero, a noisy count is the exact count.
- Every visit has exactly one fate: facts and dead letters equal those of the recount of the input topic.
- Planted person ids appear only in the input and in the values of dead letters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from monitor.audit import AuditReport
from monitor.audit.configuration import read_terms
from monitor.audit.live.start_audit import audit_topics
from tests.faults.exact import find_early, recount
from tests.faults.facts import Comparison, compare, connect_redis
from tests.faults.recount import BUCKET, TIME, WINDOW
from tests.faults.subscriber import Subscriber
from tests.faults.town import FaultTown
from tests.kit.processes import Instance
from tests.kit.stores import dump_redis
from tests.kit.topics import read_header, read_topic
from tests.kit.waiting import until

SETTLE_SECONDS: Final = 120.0
ANSWERS: Final = ("over_time", "upper_bound", "at_times", "hot_spots")


@dataclass
class Verdict:
    """The findings: `broken` is empty if every promise is kept. `report` is the audit's."""

    report: AuditReport
    broken: list[str] = field(default_factory=list)

    def count(self, status: str) -> int:
        """Return the number of answers with a status."""
        return sum(number for (_, other), number in self.report.answers.items() if other == status)


def settle(town: FaultTown, subscriber: Subscriber, instance: Instance, *earlier: Path) -> Verdict:
    """End the traffic, let the service read everything, stop it, and judge all. `earlier`: as of `judge`."""
    broken = end_run(town, subscriber, instance)
    verdict = judge(town, *earlier)
    verdict.broken += [*broken, *check_committed(town, subscriber), *find_leaks(town)]
    return verdict


def end_run(town: FaultTown, subscriber: Subscriber, instance: Instance) -> list[str]:
    """End the traffic, let the service read everything, stop it, and return the findings.

    The facts are compared while the service runs. Then it must stop with exit code 0.
    """
    if not subscriber.is_complete():
        subscriber.wait_complete(SETTLE_SECONDS)
    town.traffic.stop()
    broken = check_fates(town)
    subscriber.wait_tick(subscriber.wait_new(), SETTLE_SECONDS)
    if (code := instance.terminate()) != 0:
        broken.append(f"the service ended with exit code {code}: {instance.text[-1_500:]}")
    subscriber.stop()
    if "noisy_count" not in subscriber.statuses("late").values():
        broken.append("no late report was counted: whether it counts at the next tick was not tested")
    if "complete" not in subscriber.statuses("curve").values():
        broken.append("no upper bound was complete: whether it is certain was not tested")
    return broken


def judge(town: FaultTown, *earlier: Path) -> Verdict:
    """Audit all answers published so far, and compare all facts and dead letters so far.

    `earlier`: other configurations that were in force, newest first.
    """
    report = audit_topics([town.config, *earlier], {})
    verdict = Verdict(report, [text for texts in report.violations.values() for text in texts])
    if report.unjudged:
        verdict.broken.append(f"{report.unjudged} records are of no configuration")
    records = read_topic(town.servers, town.topics.alerts, "read_uncommitted")
    visits = read_topic(town.servers, town.topics.visits, "read_committed")
    verdict.broken += find_misplaced(town, records)
    if not earlier:
        values = [json.loads(record.value) for record in records]
        verdict.broken += find_early(recount(read_terms(town.config), visits), values)
    verdict.broken += compare(town).broken
    return verdict


def find_misplaced(town: FaultTown, records: list[Any]) -> list[str]:
    """Return a finding per answer outside the partition of its shard, by the Q of the ledger's first record."""
    ledger_partitions, shards = town.shape.ledger_partitions, town.settings.parameters.registry.shards
    places: dict[str, Callable[[Any], int]] = {
        "over_time": lambda value: _hash(value["location_id"], shards) % ledger_partitions,
        "upper_bound": lambda value: _hash(value["location_id"], shards) % ledger_partitions,
        "at_times": lambda value: int(value["shard"]) % ledger_partitions,
        "hot_spots": lambda value: _hash(value["monitor"], ledger_partitions),
    }
    broken = []
    for record in records:
        kind = read_header(record, "ce_type").rpartition(".")[2]
        is_right = record.partition < ledger_partitions
        if is_right and kind in places:
            is_right = record.partition == places[kind](json.loads(record.value))
        if not is_right:
            broken.append(
                f"{read_header(record, 'ce_id')} is in partition {record.partition}, with Q = {ledger_partitions}"
            )
    return broken


def _hash(text: str, modulus: int) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:16], 16) % modulus


def check_fates(town: FaultTown) -> list[str]:
    """Wait until the service has read all, and return a finding per visit without exactly one fate.

    Windows, buckets and designated times without any facts are a finding too.
    """

    def compare_if_read() -> list[Comparison]:
        comparison = compare(town)
        return [] if comparison.unread else [comparison]

    (comparison,) = until(compare_if_read, SETTLE_SECONDS, "all is read")
    untested = {WINDOW, BUCKET, TIME} - comparison.expected.keys()
    return [*comparison.broken, *(f"no fact of kind {kind} was expected: they were not tested" for kind in untested)]


def check_committed(town: FaultTown, subscriber: Subscriber) -> list[str]:
    """Return a finding per ce_id that was seen with different bytes, or whose answer was seen but is not committed."""
    broken = [f"{ce_id} was seen with other bytes" for ce_id, records in subscriber.seen.items() if len(records) > 1]
    committed = {
        read_header(record, "ce_id") for record in read_topic(town.servers, town.topics.alerts, "read_committed")
    }
    answers = {ce_id for ce_id, records in subscriber.seen.items() if _is_answer(ce_id, records)}
    return broken + [f"{ce_id} was seen, but is not committed" for ce_id in sorted(answers - committed)]


def _is_answer(ce_id: str, records: set[bytes]) -> bool:
    """Return whether the records are answers. Owner records name the kinds of monitors too, but are no answers."""
    return not ce_id.startswith(("owner/", "ledger/")) and any(
        kind in text for text in map(bytes.decode, records) for kind in ANSWERS
    )


def find_leaks(town: FaultTown) -> list[str]:
    """Return the places with a planted id: logs, metrics, health pages, published records, keys of Redis.

    Only the input and the values of dead letters may contain one (docs/rules.md, rule 10).
    """
    published = read_topic(town.servers, town.topics.alerts, "read_uncommitted")
    letters = read_topic(town.servers, town.topics.dead_letters, "read_uncommitted")
    dumps = [
        _write(town, "redis.txt", _dump(town)),
        _write(town, "published.txt", (repr((record.key, record.headers, record.value)) for record in published)),
        _write(town, "letters.txt", (repr((record.key, record.headers)) for record in letters)),
    ]
    outputs = [path for instance in town.instances for path in (instance.log, instance.pages) if path.exists()]
    planted = town.traffic.planted.encode()
    return [f"{path}: a planted id" for path in (*dumps, *outputs) if planted in path.read_bytes()]


def _write(town: FaultTown, name: str, lines: Iterable[str]) -> Path:
    path = town.folder / name
    path.write_text("\n".join(lines))
    return path


def _dump(town: FaultTown) -> list[str]:
    with closing(connect_redis(town)) as client:
        return dump_redis(client)
