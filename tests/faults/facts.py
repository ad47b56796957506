"""Comparison of the facts in Redis, read by plain commands, and of the dead letters with the recount of the input.

Facts are compared one by one, for each person. While visits flow there are two bounds: a shard must contain all facts
of records below its progress, and only facts that some record reports. Once all is read, the bounds are equal.
Facts that wait for their slot are included. The windows must contain no fact that was first reported after `shown`.
"""

from __future__ import annotations

import json
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import redis

from monitor.store.keys import Keys, parse_progress
from monitor.store.redis_client import create_client
from tests.faults.bad_records import Letters
from tests.faults.recount import (
    BUCKET,
    HASH_BYTES,
    REPORTS,
    TIME,
    WINDOW,
    DeadLetter,
    Fact,
    Fates,
    Recount,
    is_stamped,
)
from tests.faults.town import FaultTown
from tests.faults.traffic import compute_fingerprint
from tests.kit.topics import read_header, read_topic
from tests.store.packed import unpack_block

ROW_BYTES: Final = 4
CONSENT: Final = 1 << 31
NEVER: Final = -(2**62)
WAITING: Final = struct.Struct(">qc")  # the stamp, and the kind of facts, such as s (seen); packed facts follow
BLOCKS: Final = {b"s": WINDOW, b"r": REPORTS, b"b": BUCKET}
REPORT: Final = struct.Struct(">i16s")
PACKED: Final = struct.Struct(">qI16s")

RecordFates = list[tuple[Any, Fates]]


@dataclass
class Comparison:
    """The findings (`broken`), and the number of expected facts by kind."""

    broken: list[str] = field(default_factory=list)
    expected: Counter[str] = field(default_factory=Counter)


@dataclass
class Shard:
    """The content of one shard: its meta hash, progress, the facts in the windows (`shown`), and those that wait."""

    meta: dict[str, int]
    progress: dict[int, int]
    shown: set[Fact]
    waiting: set[Fact]

    @property
    def facts(self) -> set[Fact]:
        """All facts."""
        return self.shown | self.waiting

    @property
    def since(self) -> int:
        """The slot from which facts are complete."""
        return self.meta.get("complete_from", NEVER)

    def read_progress(self, partition: int) -> int:
        """Return the next offset of an input partition; 0 if reading has not begun."""
        return self.progress.get(partition, 0)

    def must_have(self, fact: Fact, recount: Recount) -> bool:
        """Return whether a fact of a record below the progress must be there: it is neither too early nor evicted."""
        if fact.kind == TIME:
            evicted = self.meta.get("times_evicted_until", NEVER)
            return fact.at > evicted and recount.terms.grid.find_slot(fact.at) >= self.since
        first = fact.at - recount.buckets[fact.row][1] + 1 if fact.kind == BUCKET else fact.at
        return first >= max(self.since, self.meta.get("evicted_before", NEVER))


def compare(town: FaultTown) -> Comparison:
    """Compare the facts and dead letters with those that the recount of the input topic expects."""
    recount = town.recount()
    shards, strays = read_shards(town, recount)
    written = read_topic(town.servers, town.topics.dead_letters, "read_committed")
    sent = town.traffic.acknowledged
    records = read_topic(town.servers, town.topics.visits, "read_committed")
    record_fates = [(record, recount.fates(record)) for record in records]
    comparison = Comparison([f"{key} is in Redis, but nothing is watched there" for key in strays])
    reported = _unite(fates for _, fates in record_fates)
    for number, shard in enumerate(shards):
        read = _unite(fates for record, fates in record_fates if record.offset < shard.read_progress(record.partition))
        due = {fact for fact in read if recount.terms.shard[fact.row] == number}
        wanted = {fact for fact in due if shard.must_have(fact, recount)}
        comparison.expected.update(fact.kind for fact in wanted)
        comparison.broken += _check_facts(shard, reported, wanted, recount)
        comparison.broken += _find_shown_early(shard, reported, record_fates, recount)
    partitions = {record.partition for record in records}
    reached = {partition: min(shard.read_progress(partition) for shard in shards) for partition in partitions}
    comparison.broken += list(check_dead_letters(town, written, record_fates, reached))
    comparison.broken += list(_check_sent(sent, record_fates))
    return comparison


def read_shards(town: FaultTown, recount: Recount) -> tuple[list[Shard], list[str]]:
    """Read each shard in one transaction. Return the shards and all unexpected keys."""
    keys = Keys(town.name, town.read_fingerprint())
    with closing(connect_redis(town)) as client:
        known, shards = set(), []
        for number in range(recount.terms.shards):
            tag = keys.tag(number)
            places = {f"{tag}:{kind}:{at}": (kind, at) for kind, at in _list_places(recount, number)}
            known |= {keys.meta(number), keys.waiting(number), *places}
            with client.pipeline(transaction=True) as pipeline:
                pipeline.hgetall(keys.meta(number))
                pipeline.zrange(keys.waiting(number), 0, -1)
                for key, (kind, _) in places.items():
                    pipeline.smembers(key) if kind == TIME else pipeline.zrange(key, 0, -1, withscores=True)
                meta, waiting, *held = pipeline.execute()
            facts = (_read_facts(*place, members) for place, members in zip(places.values(), held, strict=True))
            fields = {field.decode(): text.decode() for field, text in meta.items()}
            numbers = {field: int(text) for field, text in fields.items()}
            shown = set(chain.from_iterable(facts))
            shards.append(Shard(numbers, parse_progress(fields), shown, set(_unpack(waiting))))
        found = {key.decode() for key in client.scan_iter(match=f"{{{keys.name}:{keys.fingerprint}:*", count=1_000)}
    return shards, sorted(found - known)


def connect_redis(town: FaultTown) -> Any:
    """Return a client for the town's Redis. On a cluster, redis-py parses no replies in a pipeline of the service's."""
    if town.shape.cluster:
        return redis.RedisCluster.from_url(town.settings.config.redis.url.get_secret_value())
    return create_client(town.settings.redis)


def _list_places(recount: Recount, number: int) -> Iterator[tuple[str, int]]:
    """Yield the kind, and the row or instant, of each key with facts that a shard may have."""
    for kind, rows in ((WINDOW, recount.window), (REPORTS, recount.rows_with_reports), (BUCKET, recount.buckets)):
        yield from ((kind, row) for row in rows if recount.terms.shard[row] == number)
    yield from ((TIME, time) for time in {time for instants, _ in recount.times for time in instants})


def _read_facts(kind: str, at: int, members: Iterable[Any]) -> Iterator[Fact]:
    """Yield the facts of a key, from its members, with scores except for designated times."""
    if kind == TIME:
        yield from (_unflag(at, int.from_bytes(member[:ROW_BYTES]), member[ROW_BYTES:]) for member in members)
        return
    for member, score in members:
        if member and kind == REPORTS:
            ahead, person = REPORT.unpack(member)
            yield Fact(kind, int(score) + ahead, at, person)
        elif member:  # an empty one is no fact
            yield Fact(kind, int(score), at, member[-HASH_BYTES:])


def _unpack(waiting: Iterable[bytes]) -> Iterator[Fact]:
    """Yield the facts that wait for their slot (monitor/store/packing.py defines the bytes)."""
    for blob in filter(None, waiting):  # an empty member is no fact
        stamp, kind = WAITING.unpack_from(blob)
        packed = blob[WAITING.size :]
        if kind in BLOCKS:
            yield from (Fact(BLOCKS[kind], seen.last, seen.row, seen.person) for seen in unpack_block(stamp, packed))
        else:
            yield from (_unflag(*fact) for fact in PACKED.iter_unpack(packed))


def _unflag(time: int, row: int, person: bytes) -> Fact:
    """Return the fact of a stored row number, whose highest bit means that the person consented."""
    return Fact(TIME, time, row % CONSENT, person, row >= CONSENT)


def _unite(all_fates: Iterable[Fates]) -> set[Fact]:
    return set().union(*(fates.facts for fates in all_fates))


def _check_facts(shard: Shard, reported: set[Fact], wanted: set[Fact], recount: Recount) -> Iterator[str]:
    """Yield a finding per fact that no visit reports, and per wanted fact that is missing.

    Of the facts of a person in a window, and of the reports, one about an earlier slot may be replaced by a later one.
    """
    latest: dict[tuple[str, int, bytes], int] = defaultdict(lambda: NEVER)
    for fact in shard.facts:
        latest[fact.kind, fact.row, fact.person] = max(latest[fact.kind, fact.row, fact.person], fact.at)
    places = recount.terms.locations
    for fact in shard.facts - reported:
        yield f"{places[fact.row]}: a fact ({fact.kind}) has someone there at {fact.at}, but no visit reports it"
    for fact in wanted - shard.facts:
        if fact.kind not in (WINDOW, REPORTS) or latest[fact.kind, fact.row, fact.person] < fact.at:
            yield f"{places[fact.row]}: someone was there at {fact.at}, but there is no fact ({fact.kind})"


def _find_shown_early(shard: Shard, reported: set[Fact], record_fates: RecordFates, recount: Recount) -> Iterator[str]:
    """Yield a finding per fact in the windows that was first reported in a slot after `shown`."""
    shown = shard.meta.get("shown", NEVER)
    find_slot = recount.terms.grid.find_slot
    early = _unite(fates for record, fates in record_fates if find_slot(record.timestamp * 1_000) <= shown)
    for fact in shard.shown & (reported - early):
        yield f"{recount.terms.locations[fact.row]}: a fact of {fact.at} is in the windows, after `shown`"


def check_dead_letters(
    town: FaultTown, written: list[Any], record_fates: RecordFates, reached: dict[int, int]
) -> Iterator[str]:
    """Compare the dead letters and their payloads. A visit that is read again may have several."""
    wanted = {letter: payload for _, fates in record_fates for letter, payload in fates.letters.items()}
    seen = set()
    for record in written:
        letter = read_letter(record)
        if letter in wanted and _is_payload(record, wanted[letter]):
            seen.add(letter)
        else:
            yield f"{letter} is an unexpected dead letter, or has another payload"
        if record.key is not None or read_header(record, "topic") != town.topics.visits:
            yield f"{letter} has a key, or names another topic"
    for letter in wanted.keys() - seen:
        if letter.offset < reached.get(letter.partition, 0):
            yield f"{letter} is missing among the dead letters"


def read_letter(record: Any) -> DeadLetter:
    """Return the dead letter that a record contains."""
    position = int(read_header(record, "partition")), int(read_header(record, "offset"))
    return DeadLetter(*position, read_header(record, "index"), read_header(record, "reason"))


def _is_payload(record: Any, wanted: Any) -> bool:
    if read_header(record, "truncated"):
        whole = wanted if isinstance(wanted, bytes) else json.dumps(wanted, separators=(",", ":")).encode()
        return whole.startswith(record.value)
    if isinstance(wanted, bytes):
        return bool(record.value == wanted)
    return bool(json.loads(record.value) == wanted)


def _check_sent(sent: Mapping[bytes, Letters], record_fates: RecordFates) -> Iterator[str]:
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
