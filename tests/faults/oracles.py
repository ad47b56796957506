"""What must hold after any fault: the recount of `monitor.audit`, which shares no code with the service, and more.

- one set of bytes per ce_id, also among records of aborted transactions, and what was seen stands committed at the end
- no false "safe", noisy counts certain, ε and pauses as they must be at every prefix, nobody pays more than stated
- every acknowledged visit has a fate: no location's facts are fewer than the recount, and dead letters are the bad ones
- planted person ids nowhere outside the input and the dead letters
"""

from __future__ import annotations

import csv
import json
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import redis

from monitor.audit import Report, audit, planted_in
from monitor.operate.preflight import look
from monitor.operate.topics import needs
from monitor.replay.output import write_output
from monitor.service import redis_windows
from monitor.times import format_instant
from monitor.windows.facts import Question
from tests.faults.processes import Instance
from tests.faults.town import Subscriber, Town
from tests.faults.traffic import Acknowledged

SETTLE_SECONDS: Final = 60.0


@dataclass
class Verdict:
    """What was found: `broken` is empty if every promise held. `report` is the audit's."""

    report: Report
    broken: list[str] = field(default_factory=list)

    def count(self, status: str) -> int:
        """How many answers had a status."""
        return sum(number for (_, said), number in self.report.answers.items() if said == status)


def settle(town: Town, subscriber: Subscriber, instance: Instance) -> Verdict:
    """End the traffic, let the service finish what it has, stop it, and judge everything.

    The facts are looked at while the service runs, then it is told to stop, and must do so with exit code 0.
    """
    town.traffic.stop()
    last = subscriber.wait_new()
    subscriber.wait_tick(last, SETTLE_SECONDS)
    broken: list[str] = []
    broken += fates(town)
    page = instance.page()
    code = instance.terminate()
    if code != 0:
        broken.append(f"the service ended with exit code {code}: {instance.text[-1_500:]}")
    subscriber.stop()
    verdict = judge(town)
    verdict.broken += [*broken, *seen_is_committed(town, subscriber), *leaks(town, page)]
    return verdict


def judge(town: Town) -> Verdict:
    """The recount of all that was published so far."""
    visits, alerts = town.folder / "visits.csv", town.folder / "alerts.jsonl"
    write_visits(town, town.traffic.known(), visits)
    write_output(town.settings.kafka, town.topics.alerts, town.shape.queues, alerts)
    report = audit(visits, town.config, alerts, every_tick=False)
    return Verdict(report, [text for found in report.violations.values() for text in found])


def write_visits(town: Town, acknowledged: list[Acknowledged], path: Path) -> None:
    """The acknowledged visits as a replay file.

    A visit is reported when the broker stamps it, which decides its fate; but "safe" speaks of what was acknowledged,
    so an acknowledgement that comes in a later slot is when it counts as reported, `left_at` cut as of its stamp.
    """
    slots, ahead = town.settings.scheme.slots, town.settings.scheme.ahead
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("person_id", "location_id", "arrived_at", "left_at", "reported_at"))
        for told in sorted(acknowledged, key=lambda one: one.stamped):
            current = slots.slot_of(told.stamped)
            left = min(told.visit.left, slots.start(current + ahead + 1))
            at = told.stamped if slots.slot_of(told.told) == current else told.told
            times = (format_instant(instant) for instant in (told.visit.arrived, left, at))
            rows.writerow((told.visit.person, told.visit.location, *times))


def fates(town: Town) -> list[str]:
    """Visits without a fate: facts that are fewer than the recount, and bad visits that are no dead letters."""
    scheme = town.settings.scheme
    wanted = needs(scheme, town.settings.config.kafka, simulated=False)
    found = look(town.settings.kafka, scheme, wanted, town.topics.alerts)
    acknowledged = town.traffic.known()
    with closing(redis_windows(town.settings, found)) as windows:
        tick = town.now()
        questions: dict[int, list[tuple[int, int]]] = {}
        for monitor in scheme.over_time:
            for row in monitor.rows:
                start = scheme.window_start(monitor.window, tick)
                questions.setdefault(int(scheme.registry.shard[row]), []).append((row, start))
        readings = windows.read({shard: Question(tuple(asked)) for shard, asked in questions.items()})
    counts = {place: count for reading in readings.values() for place, count in reading.counts.items()}
    broken = [
        f"{scheme.registry.ids[row]}: fewer facts than visits in the window from slot {start} on"
        for (row, start), count in counts.items()
        if count < _people(town, acknowledged, scheme.registry.ids[row], start)
    ]
    return broken + dead_letters(town)


def _people(town: Town, acknowledged: list[Acknowledged], location: str, start: int) -> int:
    slots, ahead = town.settings.scheme.slots, town.settings.scheme.ahead
    people = set()
    for told in acknowledged:
        arrived, left = slots.slot_of(told.visit.arrived), -(-(told.visit.left - slots.origin) // slots.length) - 1
        last = min(max(arrived, left), slots.slot_of(told.stamped) + ahead)
        if told.visit.location == location and last >= start:
            people.add(told.visit.person)
    return len(people)


def dead_letters(town: Town) -> list[str]:
    """Bad visits that are no dead letters, and dead letters that are good visits."""
    written = b"\n".join(value for _, value in read_topic(town, town.topics.dead_letters, "read_uncommitted"))
    broken = [f"{marker} is no dead letter" for marker in sorted(town.traffic.bad) if marker.encode() not in written]
    good = {told.visit.person for told in town.traffic.known()}
    lines = [line for line in written.split(b"\n") if line.startswith(b"{") and line.endswith(b"}")]
    wronged = sum(json.loads(line).get("person_id") in good for line in lines)
    return broken + ([f"{wronged} good visits are dead letters"] if wronged else [])


def read_topic(town: Town, topic: str, isolation: str) -> list[tuple[str, bytes]]:
    """Every record of a topic, up to its present end: (ce_id, if there is one; value)."""
    from kafka import TopicPartition  # noqa: PLC0415  # its import warns, and only conftest says that it may

    read = []
    with closing(town.settings.kafka.consumer(isolation_level=isolation)) as consumer:
        places = [TopicPartition(topic, partition) for partition in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        consumer.seek_to_beginning(*places)
        while any(consumer.position(place) < end for place, end in ends.items()):
            for records in consumer.poll(timeout_ms=100).values():
                for record in records:
                    headers = dict(record.headers)
                    read.append((headers.get("ce_id", b"").decode(), record.value))
    return read


def seen_is_committed(town: Town, subscriber: Subscriber) -> list[str]:
    """Differing bytes under one ce_id, and answers that were seen and do not stand committed at the end."""
    broken = [f"{ce_id} was seen with other bytes" for ce_id, said in subscriber.said.items() if len(said) > 1]
    committed = {ce_id for ce_id, _ in read_topic(town, town.topics.alerts, "read_committed")}
    ticks = {ce_id for ce_id, said in subscriber.said.items() if _is_answer(said)}
    return broken + [f"{ce_id} was seen, and is not committed" for ce_id in sorted(ticks - committed)]


def _is_answer(said: set[bytes]) -> bool:
    return any("over_time" in text or "at_times" in text for text in map(bytes.decode, said))


def leaks(town: Town, page: str) -> list[str]:
    """Planted ids in what was logged, measured, published or kept in Redis."""
    kept = [town.folder / "metrics.txt", town.folder / "redis.bin", town.folder / "published.bin"]
    kept[0].write_text(page)
    kept[1].write_bytes(
        b"\n".join(dumped(town.settings.config.redis.url.get_secret_value(), cluster=town.shape.cluster))
    )
    published = read_topic(town, town.topics.alerts, "read_uncommitted")
    kept[2].write_bytes(b"\n".join(value for _, value in published))
    return planted_in([*kept, *(instance.log for instance in town.instances)], [town.traffic.planted])


def dumped(url: str, *, cluster: bool) -> list[bytes]:
    """Every key of a Redis with what it holds, as bytes."""
    made: Any = redis.RedisCluster if cluster else redis.Redis
    readers = {b"hash": "hgetall", b"zset": "zrange", b"set": "smembers"}
    with closing(made.from_url(url)) as client:
        found = []
        for key in client.scan_iter(count=1_000):
            kind = client.type(key)
            held = (
                client.zrange(key, 0, -1, withscores=True) if kind == b"zset" else getattr(client, readers[kind])(key)
            )
            found.append(key + repr(held).encode())
        return found
