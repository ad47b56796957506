"""Comparison of the facts in Redis, read by plain commands, and of the dead letters with the recount of the input.

Facts are compared one by one, for each person. While visits flow there are two bounds: a shard must contain all facts
of records below its progress, and only facts that some record reports. Once all is read, the bounds are equal.
Facts that wait for their slot are included. The windows must contain no fact that was first reported after `shown`.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import redis

from monitor.audit.configuration import AuditTerms, read_terms
from monitor.service.wiring import build_redis_address
from monitor.store.fingerprint import compute_fingerprint as stored_under
from monitor.store.redis_client import create_client
from tests.faults.recount import HASH_BYTES, DeadLetter, Fates, LastSeen, Present, Recount, is_stamped
from tests.faults.town import FaultTown
from tests.faults.traffic import compute_fingerprint
from tests.kit.topics import read_header, read_topic
from tests.kit.town import KEY

ROW_BYTES: Final = 4
CONSENT: Final = 1 << 31
NEVER: Final = -(2**62)
PROGRESS: Final = "p"
WAITING: Final = struct.Struct(">qc")  # the stamp, and the kind of facts, such as s (seen); packed facts follow
HEAD: Final = struct.Struct(">I")
PAIR: Final = struct.Struct(">II")
FACT: Final = struct.Struct(">i16s")
PACKED: Final = struct.Struct(">qI16s")


@dataclass
class Comparison:
    """The findings (`broken`), the numbers of expected facts by their kind, and of `unread` records."""

    broken: list[str] = field(default_factory=list)
    people: int = 0
    bucketed: int = 0
    moments: int = 0
    unread: int = 0


@dataclass
class Shard:
    """The content of one shard: its meta hash, all facts including waiting ones, and the facts in the windows.

    `reports`: the people of the reports, at rows that are also counted by what was reported since an answer.
    """

    meta: dict[str, int]
    seen: set[LastSeen] = field(default_factory=set)
    reports: set[LastSeen] = field(default_factory=set)
    bucketed: set[LastSeen] = field(default_factory=set)
    present: set[Present] = field(default_factory=set)
    shown: set[LastSeen | Present] = field(default_factory=set)

    @property
    def since(self) -> int:
        """The slot from which facts are complete."""
        return self.meta.get("complete_from", NEVER)

    def read_progress(self, partition: int) -> int:
        """Return the next offset of an input partition; 0 if reading has not begun."""
        return self.reached.get(partition, 0)

    @property
    def reached(self) -> dict[int, int]:
        """The next offset of each input partition whose reading has begun."""
        begun = ((name.removeprefix(PROGRESS), offset) for name, offset in self.meta.items())
        return {int(partition): offset for partition, offset in begun if partition.isdigit()}


def compare(town: FaultTown) -> Comparison:
    """Compare the facts and dead letters with those that the recount of the input topic expects."""
    terms = read_terms(town.config)
    recount = Recount(terms, KEY.encode())
    name = f"{town.name}:{read_fingerprint(town)}"
    shards, strays = read_shards(town, name, recount)
    written = read_topic(town.servers, town.topics.dead_letters, "read_committed")
    sent = town.traffic.sent
    records = read_topic(town.servers, town.topics.visits, "read_committed")
    record_fates = [(record, recount.fates(record)) for record in records]
    comparison = Comparison([f"{key} is in Redis, but nothing is watched there" for key in strays])
    ends = town.ends(town.topics.visits)
    reported = _merge(record_fates, ends)
    for number, shard in enumerate(shards):
        comparison.unread += sum(max(0, end - shard.read_progress(partition)) for partition, end in ends.items())
        due = _merge(record_fates, shard.reached)
        comparison.broken += check_windows(number, shard, (reported, due), recount, comparison)
        comparison.broken += check_buckets(number, shard, (reported, due), recount, comparison)
        comparison.broken += check_moments(number, shard, (reported, due), terms, comparison)
        comparison.broken += find_shown_early(shard, _find_first_stamps(record_fates, terms), terms)
    reached = {partition: min(shard.read_progress(partition) for shard in shards) for partition in ends}
    comparison.broken += list(check_dead_letters(town, written, record_fates, reached))
    comparison.broken += list(_check_sent(sent, record_fates))
    return comparison


def read_fingerprint(town: FaultTown) -> str:
    """Return the fingerprint of the facts, for the input topic of the latest owner; empty if there is no owner yet.

    The published fingerprint cannot be used, because it leaves out the person key.
    """
    owners = [
        (record.timestamp, record.partition, record.offset, json.loads(record.value)["input_topic_id"])
        for record in read_topic(town.servers, town.topics.alerts, "read_uncommitted")
        if read_header(record, "ce_type").endswith(".owner") and read_header(record, "ce_source") == town.name
    ]
    if not owners:
        return ""
    return stored_under(town.settings.parameters, town.settings.hasher.key_digest, max(owners)[3])


def read_shards(town: FaultTown, name: str, recount: Recount) -> tuple[list[Shard], list[str]]:
    """Read each shard in one transaction. Return the shards and all unexpected keys."""
    times = sorted({time for instants, _ in recount.times for time in instants})
    rows = sorted(recount.window)
    with closing(connect_redis(town)) as client:
        known = set()
        shards = []
        for number in range(recount.terms.shards):
            tag = f"{{{name}:{number}}}"
            windows = {f"{tag}:w:{row}": row for row in rows if recount.terms.shard[row] == number}
            reports = {f"{tag}:r:{row}": row for row in windows.values() if row in recount.rows_with_reports}
            buckets = {f"{tag}:b:{row}": row for row in recount.buckets if recount.terms.shard[row] == number}
            moments = {f"{tag}:t:{time}": time for time in times}
            known |= {f"{tag}:meta", f"{tag}:waiting", *windows, *reports, *buckets, *moments}
            with client.pipeline(transaction=True) as pipeline:
                pipeline.hgetall(f"{tag}:meta")
                pipeline.zrange(f"{tag}:waiting", 0, -1)
                for key in (*windows, *reports, *buckets):
                    pipeline.zrange(key, 0, -1, withscores=True)
                for key in moments:
                    pipeline.smembers(key)
                meta, waiting, *held = pipeline.execute()
            shard = Shard({field.decode(): int(number) for field, number in meta.items()})
            for row, members in zip(windows.values(), held, strict=False):
                shard.seen |= {LastSeen(row, person, int(slot)) for person, slot in members if person}  # "" is no fact
            for row, members in zip(reports.values(), held[len(windows) :], strict=False):
                facts = ((*FACT.unpack(member), int(stamp)) for member, stamp in members if member)
                shard.reports |= {LastSeen(row, person, stamp + ahead) for ahead, person, stamp in facts}
            held = held[len(windows) + len(reports) :]
            for row, members in zip(buckets.values(), held, strict=False):
                people = ((member[-HASH_BYTES:], int(last)) for member, last in members if member)
                shard.bucketed |= {LastSeen(row, person, last) for person, last in people}
            for time, members in zip(moments.values(), held[len(buckets) :], strict=True):
                rows_and_people = ((member[:ROW_BYTES], member[ROW_BYTES:]) for member in members)
                shard.present |= {unflag(time, int.from_bytes(row), person) for row, person in rows_and_people}
            shard.shown = {*shard.seen, *shard.reports, *shard.bucketed, *shard.present}
            unpack(waiting, shard)
            shards.append(shard)
        keys = {key.decode() for key in client.scan_iter(match=f"{{{name}:*", count=1_000)}
    return shards, sorted(keys - known)


def unpack(waiting: list[bytes], shard: Shard) -> None:
    """Add the facts that wait for their slot (monitor/store/packing.py defines the bytes)."""
    for blob in filter(None, waiting):  # an empty member is no fact
        stamp, kind = WAITING.unpack_from(blob)
        packed = blob[WAITING.size :]
        if kind == b"s":
            shard.seen |= {*unpack_block(stamp, packed)}
        elif kind == b"r":
            shard.reports |= {*unpack_block(stamp, packed)}
        elif kind == b"b":
            shard.bucketed |= {*unpack_block(stamp, packed)}
        else:
            shard.present |= {unflag(time, row, person) for time, row, person in PACKED.iter_unpack(packed)}


def unpack_block(stamp: int, block: bytes) -> Iterator[LastSeen]:
    """Yield the facts of a block, as monitor/store/packing.py describes it."""
    (groups,) = HEAD.unpack_from(block)
    counts = [PAIR.unpack_from(block, HEAD.size + PAIR.size * group) for group in range(groups)]
    rows = chain.from_iterable([row] * facts for row, facts in counts)
    facts = FACT.iter_unpack(block[HEAD.size + PAIR.size * groups :])
    for row, (ahead, person) in zip(rows, facts, strict=True):
        yield LastSeen(row, person, stamp + ahead)


def unflag(time: int, row: int, person: bytes) -> Present:
    """Return the fact of a stored row number, whose highest bit means that the person consented."""
    return Present(time, row % CONSENT, person, row >= CONSENT)


def _find_first_stamps(record_fates: list[tuple[Any, Fates]], terms: AuditTerms) -> dict[LastSeen | Present, int]:
    """Return, for each fact, the first slot in which a record with it was stamped."""
    first: dict[LastSeen | Present, int] = {}
    for record, fates in record_fates:
        stamp = terms.grid.find_slot(record.timestamp * 1_000)
        for fact in chain[LastSeen | Present](fates.seen, fates.bucketed, fates.present):
            first[fact] = min(first.get(fact, stamp), stamp)
    return first


def find_shown_early(shard: Shard, first: Mapping[LastSeen | Present, int], terms: AuditTerms) -> Iterator[str]:
    """Yield a finding per fact in the windows that was first reported in a slot after `shown`."""
    for fact in shard.shown:
        if first.get(fact, NEVER) > shard.meta.get("shown", NEVER):
            yield f"{terms.locations[fact.row]}: a fact of slot {first[fact]} is in the windows, after `shown`"


def connect_redis(town: FaultTown) -> Any:
    """Return a client for the town's Redis."""
    if town.shape.cluster:
        return redis.RedisCluster.from_url(town.settings.config.redis.url.get_secret_value())
    return create_client(build_redis_address(town.settings.config))


def _merge(record_fates: list[tuple[Any, Fates]], ends: Mapping[int, int]) -> Fates:
    """Merge the fates of all records below these offsets."""
    together = Fates()
    for record, fates in record_fates:
        if record.offset < ends.get(record.partition, 0):
            together.add(fates)
    return together


def _find_last(facts: Iterable[LastSeen]) -> dict[tuple[int, bytes], int]:
    """Return the last slot of each person by row and person."""
    last: dict[tuple[int, bytes], int] = defaultdict(lambda: NEVER)
    for fact in facts:
        last[fact.row, fact.person] = max(last[fact.row, fact.person], fact.slot)
    return last


def check_windows(
    number: int, shard: Shard, bounds: tuple[Fates, Fates], recount: Recount, comparison: Comparison
) -> Iterator[str]:
    """Compare each person's last slot per watched location, from the slot on from which the facts are complete."""
    (reported, due), terms = bounds, recount.terms
    for fact in (shard.seen | shard.reports) - reported.seen:
        yield f"{terms.locations[fact.row]}: a fact has someone there in slot {fact.slot}, but no visit reports it"
    held, in_reports = _find_last(shard.seen), _find_last(shard.reports)
    complete_from = max(shard.since, shard.meta.get("evicted_before", NEVER))
    last = _find_last(fact for fact in due.seen if terms.shard[fact.row] == number and fact.slot >= complete_from)
    comparison.people += len(last)
    for (row, person), slot in last.items():
        if held[row, person] < slot:
            yield f"{terms.locations[row]}: someone was there in slot {slot}, but there is no fact"
        # Of the reports of a person, the one about the latest slot is never replaced by one about an earlier slot.
        if row in recount.rows_with_reports and in_reports[row, person] < slot:
            yield f"{terms.locations[row]}: someone was there in slot {slot}, but there is no report"


def check_buckets(
    number: int, shard: Shard, bounds: tuple[Fates, Fates], recount: Recount, comparison: Comparison
) -> Iterator[str]:
    """Compare the people by the bucket in which they were reported, for the buckets whose window is complete."""
    (reported, due), terms = bounds, recount.terms
    for fact in shard.bucketed - reported.bucketed:
        yield f"{terms.locations[fact.row]}: a fact is in the bucket up to slot {fact.slot}, but no visit reports it"
    complete_from = max(shard.since, shard.meta.get("evicted_before", NEVER))
    wanted = {
        fact
        for fact in due.bucketed
        if terms.shard[fact.row] == number and fact.slot - recount.buckets[fact.row][1] + 1 >= complete_from
    }
    comparison.bucketed += len(wanted)
    for fact in wanted - shard.bucketed:
        yield f"{terms.locations[fact.row]}: someone was reported in the bucket up to {fact.slot}, but there is no fact"


def check_moments(
    number: int, shard: Shard, bounds: tuple[Fates, Fates], terms: AuditTerms, comparison: Comparison
) -> Iterator[str]:
    """Compare the people present at the designated times that were not evicted."""
    reported, due = bounds
    for fact in shard.present - reported.present:
        yield f"{terms.locations[fact.row]}: a fact has someone there at {fact.time}, but no visit reports it"
    evicted = shard.meta.get("times_evicted_until", NEVER)
    wanted = {
        fact
        for fact in due.present
        if terms.shard[fact.row] == number and fact.time > evicted and terms.grid.find_slot(fact.time) >= shard.since
    }
    comparison.moments += len(wanted)
    for fact in wanted - shard.present:
        yield f"{terms.locations[fact.row]}: someone was there at {fact.time}, but there is no fact"


def check_dead_letters(
    town: FaultTown, written: list[Any], record_fates: list[tuple[Any, Fates]], reached: dict[int, int]
) -> Iterator[str]:
    """Compare the dead letters and their payloads. A visit that is read again may have several."""
    wanted = {letter: payload for _, fates in record_fates for letter, payload in fates.letters.items()}
    seen = set()
    for record in written:
        partition, offset = int(read_header(record, "partition")), int(read_header(record, "offset"))
        letter = DeadLetter(partition, offset, read_header(record, "index"), read_header(record, "reason"))
        if letter in wanted and _is_payload(record, wanted[letter]):
            seen.add(letter)
        else:
            yield f"{letter} is an unexpected dead letter, or has another payload"
        if record.key is not None or read_header(record, "topic") != town.topics.visits:
            yield f"{letter} has a key, or names another topic"
    for letter in wanted.keys() - seen:
        if letter.offset < reached.get(letter.partition, 0):
            yield f"{letter} is missing among the dead letters"


def _is_payload(record: Any, wanted: Any) -> bool:
    if read_header(record, "truncated"):
        whole = wanted if isinstance(wanted, bytes) else json.dumps(wanted, separators=(",", ":")).encode()
        return whole.startswith(record.value)
    if isinstance(wanted, bytes):
        return bool(record.value == wanted)
    return bool(json.loads(record.value) == wanted)


def _check_sent(
    sent: Mapping[bytes, frozenset[tuple[str, str]]], record_fates: list[tuple[Any, Fates]]
) -> Iterator[str]:
    """Check that the topic contains all acknowledged records, and that the recount refuses what the traffic expects."""
    in_topic = {compute_fingerprint(record.key, record.value): (record, fates) for record, fates in record_fates}
    for print_, letters in sent.items():
        if print_ not in in_topic:
            yield "a record that was acknowledged is not in the input topic"
            continue
        record, fates = in_topic[print_]
        if not is_stamped(record):
            continue
        refused = {(letter.place, letter.reason) for letter in fates.letters}
        if not letters <= refused or any(reason != "too_far_ahead" for _, reason in refused - letters):
            yield f"the recount refuses {sorted(refused)}, but the traffic expects {sorted(letters)}"
