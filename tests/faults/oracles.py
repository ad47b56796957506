"""The checks after any fault: the audit of `monitor.audit`, which shares no code with the service, and more.

- A ce_id has one set of bytes, also among records of aborted transactions. Every answer seen is committed at the end.
  An answer is in the partition of its shard, by the number of ledger partitions Q of the first record.
- No "safe" is false, noisy counts are upper bounds, ε and pauses are right at every prefix, and nobody pays more than
  stated: the command `audit` finds nothing in the topics.
- No answer counts anybody who was not reported before its as_of. The audit does not know the draws, so it cannot find a
  noisy count that is too high. If an answer's ε is so large that a draw above zero has a probability below 10^-12, its
  noisy count must not exceed the exact count of the input topic.
- Every visit has exactly one fate: facts and dead letters equal those of the recount of the input topic.
- Planted person ids appear only in the input and in the values of dead letters.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from monitor.audit import AuditReport
from monitor.audit.configuration import AuditTerms, read_terms
from monitor.audit.live.start_audit import audit_topics
from monitor.audit.parse_values import parse_instant
from monitor.audit.recount_visits import Recount, create_recounts
from monitor.audit.visits import decode
from monitor.kinds.locations import find_shard
from tests.faults.facts import compare, connect_redis
from tests.faults.recount import BUCKET, TIME, WINDOW, is_stamped
from tests.faults.town import FaultTown
from tests.kit.processes import Instance
from tests.kit.stores import dump_redis
from tests.kit.topics import read_header, read_topic
from tests.kit.waiting import until

SETTLE_SECONDS: Final = 120.0
ANSWERS: Final = ("over_time", "upper_bound", "at_times", "hot_spots")
CERTAIN: Final = Fraction(30)
"""The ε from which on a noisy count is taken for the exact count."""


@dataclass
class Verdict:
    """The findings: `broken` is empty if every promise is kept. `report` is the audit's."""

    report: AuditReport
    broken: list[str] = field(default_factory=list)

    def count(self, status: str) -> int:
        """Return the number of answers with a status."""
        return sum(number for (_, other), number in self.report.answers.items() if other == status)


def settle(town: FaultTown, instance: Instance, *earlier: FaultTown) -> Verdict:
    """End the traffic, let the service read everything, stop it, and judge all.

    `earlier`: the town under other configurations that were in force, newest first.
    """
    broken = end_run(town, instance)
    verdict = judge(town, *(before.config for before in earlier))
    verdict.broken += [*broken, *check_committed(town), *find_leaks(town)]
    return verdict


def end_run(town: FaultTown, instance: Instance) -> list[str]:
    """End the traffic, let the service read everything, stop it, and return the findings.

    The facts are compared while the service runs. Then it must stop with exit code 0.
    """
    subscriber = town.subscriber
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
    """Audit all answers published so far.

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
    return verdict


def find_misplaced(town: FaultTown, records: list[Any]) -> list[str]:
    """Return a finding per answer outside the partition of its shard, by the Q of the ledger's first record."""
    ledger_partitions = town.shape.ledger_partitions
    broken = []
    for record in records:
        wanted = find_partition(json.loads(record.value), town.settings.parameters.registry.shards, ledger_partitions)
        if record.partition != (record.partition % ledger_partitions if wanted is None else wanted):
            broken.append(
                f"{read_header(record, 'ce_id')} is in partition {record.partition}, with Q = {ledger_partitions}"
            )
    return broken


def find_partition(value: dict[str, Any], shards: int, ledger_partitions: int) -> int | None:
    """Return the partition of an answer; None if the record is no answer."""
    match value.get("kind"):
        case "over_time" | "upper_bound":
            return find_shard(value["location_id"], shards) % ledger_partitions
        case "at_times":
            return int(value["shard"]) % ledger_partitions
        case "hot_spots":
            return find_shard(value["monitor"], ledger_partitions)
    return None


def recount(terms: AuditTerms, records: Iterable[Any]) -> Recount:
    """Return the audit's recount of the input topic's records (kafka-python's)."""
    (counts,) = create_recounts([terms])
    for record in filter(is_stamped, records):
        for line in decode(record.value, record.timestamp * 1_000, terms):
            counts.take(line)
    return counts


def find_early(counts: Recount, answers: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield a finding per answer that counts somebody too early."""
    for answer in answers:
        if Fraction(answer.get("epsilon", 0)) < CERTAIN:
            continue
        for place, drawn, exact in _compare(counts, answer):
            if drawn > exact:
                yield f"{answer['monitor']}: {place} at tick {answer['tick']} counts somebody not reported before as_of"


def _compare(counts: Recount, answer: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    """Yield place, noisy count and exact count of each draw of an answer."""
    tick, monitor, terms = answer["tick"], answer["monitor"], counts.terms
    if answer["kind"] == "over_time" and answer["status"] == "noisy_count":
        yield (
            answer["location_id"],
            answer["noisy_count"],
            counts.monitors[monitor].people[answer["location_id"]].at(tick),
        )
    elif answer["kind"] == "upper_bound":
        for number in answer["numbers"]:
            exact = counts.monitors[monitor].count(answer["location_id"], number["tick"])
            yield answer["location_id"], number["noisy_count"], exact
    elif answer["kind"] == "at_times":
        time, presence = parse_instant(answer["time"]), counts.monitors[monitor]
        for place, noisy in answer["noisy_counts"].items():
            if noisy["tick"] == tick:
                yield place, noisy["noisy_count"], presence.count(time, terms.rows[place], tick)


def check_fates(town: FaultTown) -> list[str]:
    """Wait until the service has read all, and return a finding per visit without exactly one fate.

    Windows, buckets and designated times without any facts are a finding too.
    """
    with closing(town.open_store()) as store:
        until(lambda: town.is_read(store), SETTLE_SECONDS, "all is read")
    comparison = compare(town)
    untested = {WINDOW, BUCKET, TIME} - comparison.expected.keys()
    return [*comparison.broken, *(f"no fact of kind {kind} was expected: they were not tested" for kind in untested)]


def check_committed(town: FaultTown) -> list[str]:
    """Return a finding per ce_id that was seen with different bytes, or whose answer was seen but is not committed."""
    broken = [
        f"{ce_id} was seen with other bytes" for ce_id, records in town.subscriber.seen.items() if len(records) > 1
    ]
    committed = {
        read_header(record, "ce_id") for record in read_topic(town.servers, town.topics.alerts, "read_committed")
    }
    answers = {ce_id for ce_id, records in town.subscriber.seen.items() if _is_answer(ce_id, records)}
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
    with closing(connect_redis(town)) as client:
        stored = dump_redis(client)
    dumps = [
        _write(town, "redis.txt", stored),
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
