"""What Redis holds, read by plain commands, and the dead letters, against the recount of the input topic.

Facts are compared one by one, person by person, not only counted. While visits flow there are two bounds: everything
below a shard's progress must be there, and nothing may be there that no record tells. Once all is read these are one.
What waits for its slot is there too; and in the windows nothing is that only a later record than what is shown tells.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import redis

from monitor.tools.audit.terms import AuditTerms, read_terms
from monitor.windows.fingerprint import fingerprint as stored_under
from tests.faults.reading import header, read_topic
from tests.faults.recount import Fates, LastSeen, Letter, Present, Recount
from tests.faults.town import KEY, Town
from tests.faults.traffic import fingerprint

ROW_BYTES: Final = 4
NEVER: Final = -(2**62)
PROGRESS: Final = "p"
WAITING: Final = struct.Struct(">qc")  # the stamp, and s (seen) or p (present); packed facts follow
PACKED: Final = {b"s": struct.Struct(">Ii16s"), b"p": struct.Struct(">qI16s")}


@dataclass
class Compared:
    """What was found to be `broken`, how many facts had to be there (`people`, `moments`), and what is `unread`."""

    broken: list[str] = field(default_factory=list)
    people: int = 0
    moments: int = 0
    unread: int = 0


@dataclass
class Shard:
    """What one shard holds: its hash of numbers, its facts with those that wait, and those of the windows alone."""

    meta: dict[str, int]
    seen: set[LastSeen] = field(default_factory=set)
    present: set[Present] = field(default_factory=set)
    shown: set[LastSeen | Present] = field(default_factory=set)

    @property
    def since(self) -> int:
        """The slot from which visits are whole."""
        return self.meta.get("since", NEVER)

    def progress(self, partition: int) -> int:
        """The next offset of an input partition; 0 before it was begun."""
        return self.reached.get(partition, 0)

    @property
    def reached(self) -> dict[int, int]:
        """The next offset of each input partition that was begun."""
        begun = ((name.removeprefix(PROGRESS), offset) for name, offset in self.meta.items())
        return {int(partition): offset for partition, offset in begun if partition.isdigit()}


def compare(town: Town) -> Compared:
    """Every visit of the input topic has exactly one fate: a dead letter, its facts, or none where nobody asks."""
    terms = read_terms(town.config)
    recount = Recount(terms, KEY.encode())
    name = f"{town.name}:{owners_fingerprint(town)}"
    shards, strays = stored(town, name, recount)
    written = read_topic(town.servers, town.topics.dead_letters, "read_committed")
    sent = town.traffic.sent
    records = read_topic(town.servers, town.topics.visits, "read_committed")
    judged = [(record, recount.fates(record)) for record in records]
    found = Compared([f"{key} is in Redis, and nothing is watched there" for key in strays])
    ends = town.ends(town.topics.visits)
    told = _together(judged, ends)
    for number, shard in enumerate(shards):
        found.unread += sum(max(0, end - shard.progress(partition)) for partition, end in ends.items())
        due = _together(judged, shard.reached)
        found.broken += wrong_windows(number, shard, (told, due), terms, found)
        found.broken += wrong_moments(number, shard, (told, due), terms, found)
        found.broken += shown_early(shard, _first_told(judged, terms), terms)
    reached = {partition: min(shard.progress(partition) for shard in shards) for partition in ends}
    found.broken += list(wrong_letters(town, written, judged, reached))
    found.broken += list(_sent(sent, judged))
    return found


def owners_fingerprint(town: Town) -> str:
    """What the facts lie under of the input that the latest owner tells; empty if there was none yet.

    What is published leaves the key of person ids out.
    """
    said = [
        (record.timestamp, record.partition, record.offset, json.loads(record.value)["input_topic_id"])
        for record in read_topic(town.servers, town.topics.alerts, "read_uncommitted")
        if header(record, "ce_type").endswith(".owner") and header(record, "ce_source") == town.name
    ]
    if not said:
        return ""
    return stored_under(town.settings.parameters, town.settings.hasher.key_digest, max(said)[3])


def stored(town: Town, name: str, recount: Recount) -> tuple[list[Shard], list[str]]:
    """Each shard as it is at one moment, in one transaction; and keys that nothing should be under."""
    times = sorted({time for instants, _ in recount.times for time in instants})
    rows = sorted(recount.window)
    with closing(client_of(town)) as client:
        known = set()
        shards = []
        for number in range(recount.terms.shards):
            tag = f"{{{name}:{number}}}"
            windows = {f"{tag}:w:{row}": row for row in rows if recount.terms.shard[row] == number}
            moments = {f"{tag}:t:{time}": time for time in times}
            known |= {f"{tag}:meta", f"{tag}:waiting", *windows, *moments}
            with client.pipeline(transaction=True) as pipeline:
                pipeline.hgetall(f"{tag}:meta")
                pipeline.zrange(f"{tag}:waiting", 0, -1)
                for key in windows:
                    pipeline.zrange(key, 0, -1, withscores=True)
                for key in moments:
                    pipeline.smembers(key)
                meta, waiting, *held = pipeline.execute()
            shard = Shard({field.decode(): int(number) for field, number in meta.items()})
            for row, members in zip(windows.values(), held, strict=False):
                shard.seen |= {LastSeen(row, person, int(slot)) for person, slot in members}
            for time, members in zip(moments.values(), held[len(windows) :], strict=True):
                rows_and_people = ((member[:ROW_BYTES], member[ROW_BYTES:]) for member in members)
                shard.present |= {Present(time, int.from_bytes(row), person) for row, person in rows_and_people}
            shard.shown = {*shard.seen, *shard.present}
            unpack(waiting, shard)
            shards.append(shard)
        found = {key.decode() for key in client.scan_iter(match=f"{{{name}:*", count=1_000)}
    return shards, sorted(found - known)


def unpack(waiting: list[bytes], shard: Shard) -> None:
    """Add the facts that wait for their slot (monitor/windows/packing.py says what the bytes are)."""
    for blob in waiting:
        stamp, kind = WAITING.unpack_from(blob)
        facts = PACKED[kind].iter_unpack(blob[WAITING.size :])
        if kind == b"s":
            shard.seen |= {LastSeen(row, person, stamp + max_lead) for row, max_lead, person in facts}
        else:
            shard.present |= {Present(time, row, person) for time, row, person in facts}


def _first_told(judged: list[tuple[Any, Fates]], terms: AuditTerms) -> dict[LastSeen | Present, int]:
    """The slot of the first stamp of a record that tells a fact."""
    first: dict[LastSeen | Present, int] = {}
    for record, fates in judged:
        stamp = terms.grid.slot_of(record.timestamp * 1_000)
        for fact in chain[LastSeen | Present](fates.seen, fates.present):
            first[fact] = min(first.get(fact, stamp), stamp)
    return first


def shown_early(shard: Shard, first: Mapping[LastSeen | Present, int], terms: AuditTerms) -> Iterator[str]:
    """What is in the windows, although it was told only in a later slot than the latest that is said to be shown."""
    for fact in shard.shown:
        if first.get(fact, NEVER) > shard.meta.get("shown", NEVER):
            yield f"{terms.locations[fact.row]}: a fact of slot {first[fact]} is in the windows, and is not said to be"


def client_of(town: Town) -> Any:
    """A client for the town's Redis."""
    made: Any = redis.RedisCluster if town.shape.cluster else redis.Redis
    return made.from_url(town.settings.config.redis.url.get_secret_value())


def _together(judged: list[tuple[Any, Fates]], ends: Mapping[int, int]) -> Fates:
    """What all records below these offsets amount to."""
    together = Fates()
    for record, fates in judged:
        if record.offset < ends.get(record.partition, 0):
            together.add(fates)
    return together


def wrong_windows(
    number: int, shard: Shard, bounds: tuple[Fates, Fates], terms: AuditTerms, found: Compared
) -> Iterator[str]:
    """The last slot of everyone in every watched location, from where the facts are said to be whole."""
    told, due = bounds
    for fact in shard.seen - told.seen:
        yield f"{terms.locations[fact.row]}: someone is said to have been there in slot {fact.slot}, and no visit tells"
    held: dict[tuple[int, bytes], int] = defaultdict(lambda: NEVER)
    for fact in shard.seen:
        held[fact.row, fact.person] = max(held[fact.row, fact.person], fact.slot)
    whole_from = max(shard.since, shard.meta.get("trimmed", NEVER))
    last: dict[tuple[int, bytes], int] = defaultdict(lambda: NEVER)
    for fact in due.seen:
        if terms.shard[fact.row] == number and fact.slot >= whole_from:
            last[fact.row, fact.person] = max(last[fact.row, fact.person], fact.slot)
    found.people += len(last)
    for (row, person), slot in last.items():
        if held[row, person] < slot:
            yield f"{terms.locations[row]}: someone was there in slot {slot}, and the facts do not say so"


def wrong_moments(
    number: int, shard: Shard, bounds: tuple[Fates, Fates], terms: AuditTerms, found: Compared
) -> Iterator[str]:
    """Everyone at every location at the designated times that were not dropped."""
    told, due = bounds
    for fact in shard.present - told.present:
        yield f"{terms.locations[fact.row]}: someone is said to have been there at {fact.time}, and no visit tells"
    dropped = shard.meta.get("dropped", NEVER)
    wanted = {
        fact
        for fact in due.present
        if terms.shard[fact.row] == number and fact.time > dropped and terms.grid.slot_of(fact.time) >= shard.since
    }
    found.moments += len(wanted)
    for fact in wanted - shard.present:
        yield f"{terms.locations[fact.row]}: someone was there at {fact.time}, and the facts do not say so"


def wrong_letters(
    town: Town, written: list[Any], judged: list[tuple[Any, Fates]], reached: dict[int, int]
) -> Iterator[str]:
    """Dead letters are those that must be, with their payloads; several may tell of one visit, as it is read again."""
    wanted = {letter: payload for _, fates in judged for letter, payload in fates.letters.items()}
    seen = set()
    for record in written:
        partition, offset = int(header(record, "partition")), int(header(record, "offset"))
        letter = Letter(partition, offset, header(record, "index"), header(record, "reason"))
        if letter in wanted and _is_payload(record, wanted[letter]):
            seen.add(letter)
        elif record.timestamp * 1_000 > town.traffic.renewed:
            yield f"{letter} is a dead letter, and should be none, or holds something else"
        if record.key is not None or header(record, "topic") != town.topics.visits:
            yield f"{letter} has a key, or names another topic"
    for letter in wanted.keys() - seen:
        if letter.offset < reached.get(letter.partition, 0):
            yield f"{letter} should be a dead letter, and is none"


def _is_payload(record: Any, wanted: Any) -> bool:
    if header(record, "truncated"):
        whole = wanted if isinstance(wanted, bytes) else json.dumps(wanted, separators=(",", ":")).encode()
        return whole.startswith(record.value)
    if isinstance(wanted, bytes):
        return bool(record.value == wanted)
    return bool(json.loads(record.value) == wanted)


def _sent(sent: Mapping[bytes, frozenset[tuple[str, str]]], judged: list[tuple[Any, Fates]]) -> Iterator[str]:
    """What Kafka acknowledged is in the topic, and the recount agrees with the traffic on what must be refused."""
    lying = {fingerprint(record.key, record.value): fates for record, fates in judged}
    for print_, letters in sent.items():
        if print_ not in lying:
            yield "a record that was acknowledged is not in the input topic"
            continue
        refused = {(letter.place, letter.reason) for letter in lying[print_].letters}
        if not letters <= refused or any(reason != "too_far_ahead" for _, reason in refused - letters):
            yield f"the recount refuses {sorted(refused)}, and the traffic meant {sorted(letters)}"
