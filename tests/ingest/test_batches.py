"""Record batches that no usual producer sends: what Java reads is read, and nothing costs more than the bounds."""

from __future__ import annotations

import gzip
import os
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Protocol

import lz4.frame
import pytest
import snappy
import zstandard
from kafka import TopicPartition
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords
from kafka.record.memory_records import MemoryRecordsBuilder

from monitor.brokers.connections import KafkaConnections
from monitor.errors import UnreachableError
from monitor.ingest.batches import LOG_END, Bounds, FetchedRecord, Unreadable, read_batch
from monitor.ingest.decompress import NAMES
from monitor.ingest.fetching import POLL_BYTES, TRIES, FetchState, _Records
from monitor.ingest.source import Fetched, InputLog
from monitor.tools.embedded import EmbeddedKafka
from tests.ingest import crafted
from tests.ingest.crafted import GZIP, LZ4, NONE, SNAPPY, ZSTD

VALUES = [b"alpha", b"beta", None, b"gamma"]
RECORDS = crafted.records(VALUES)
HALF = len(RECORDS) // 2


class Eventually(Protocol):
    """The type of the fixture `eventually`."""

    def __call__(self, condition: Callable[[], Any], deadline_seconds: float = 10.0) -> Any:
        """The condition's first true value."""


def flipped(data: bytes, place: int) -> bytes:
    """The same with one byte changed."""
    changed = bytearray(data)
    changed[place] ^= 0xFF
    return bytes(changed)


def gzipped(flags: int, extra: bytes = b"") -> bytes:
    """The records as gzip, with flags in the header and what they announce."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(RECORDS) + deflate.flush()
    trailer = struct.pack("<II", zlib.crc32(RECORDS), len(RECORDS))
    return b"\x1f\x8b\x08" + bytes([flags]) + b"\0\0\0\0\0\xff" + extra + body + trailer


def xerial(*chunks: bytes, order: str = ">") -> bytes:
    """The stream of snappy-java; some others write its numbers the other way round."""
    sized = b"".join(struct.pack(">i", len(chunk)) + chunk for chunk in chunks)
    return b"\x82SNAPPY\x00" + struct.pack(order + "ii", 1, 1) + sized


def frame(data: bytes) -> bytes:
    """lz4 as Kafka takes it."""
    return bytes(lz4.frame.compress(data, block_linked=False))


def chunks(data: bytes) -> bytes:
    """The stream of snappy-java in chunks of a megabyte."""
    return xerial(*[snappy.compress(data[at : at + 1_000_000]) for at in range(0, len(data), 1_000_000)])


def wide_zstd() -> bytes:
    """A zstd frame that asks for the largest window that Java takes: 128 MiB."""
    settings = zstandard.ZstdCompressionParameters(window_log=27)
    compress = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    return compress.compress(RECORDS) + compress.flush()


PACKS: dict[int, Callable[[bytes], bytes]] = {
    GZIP: gzip.compress,
    SNAPPY: chunks,
    LZ4: frame,
    ZSTD: zstandard.compress,
}

ZIPPED = gzip.compress(RECORDS, mtime=0)
FRAMED = lz4.frame.compress(RECORDS, content_checksum=True, block_linked=False)
SKIPPED = struct.pack("<II", 0x184D2A50, 5) + b"hello"

# Each of them is accepted by Apache Kafka 4.3 and read by its console consumer (found by running both).
TAKEN: dict[str, tuple[int, bytes]] = {
    "none": (NONE, RECORDS),
    "gzip": (GZIP, ZIPPED),
    "gzip, then bytes": (GZIP, ZIPPED + b"garbage"),
    "gzip, then zeros": (GZIP, ZIPPED + bytes(40)),
    "gzip, two members": (GZIP, gzip.compress(RECORDS[:HALF]) + gzip.compress(RECORDS[HALF:])),
    "gzip, two members, then bytes": (GZIP, gzip.compress(RECORDS[:HALF]) + gzip.compress(RECORDS[HALF:]) + b"xyz"),
    "gzip, reserved flags": (GZIP, gzipped(0xE0)),
    "gzip, a name": (GZIP, gzipped(8, b"name\0")),
    "gzip, more in the header": (GZIP, gzipped(4, b"\x03\x00abc")),
    "lz4": (LZ4, FRAMED),
    "lz4, wrong content checksum": (LZ4, flipped(FRAMED, -1)),
    "lz4, then bytes": (LZ4, FRAMED + b"garbage"),
    "lz4, size": (LZ4, lz4.frame.compress(RECORDS, store_size=True, block_linked=False)),
    "lz4, block checksums": (LZ4, lz4.frame.compress(RECORDS, block_checksum=True, block_linked=False)),
    "snappy, bare": (SNAPPY, snappy.compress(RECORDS)),
    "snappy, stream": (SNAPPY, xerial(snappy.compress(RECORDS))),
    "snappy, chunks": (SNAPPY, xerial(snappy.compress(RECORDS[:HALF]), snappy.compress(RECORDS[HALF:]))),
    "snappy, two streams": (SNAPPY, xerial(snappy.compress(RECORDS[:HALF])) + xerial(snappy.compress(RECORDS[HALF:]))),
    "snappy, empty chunk": (SNAPPY, xerial(snappy.compress(b""), snappy.compress(RECORDS))),
    "snappy, then bytes": (SNAPPY, xerial(snappy.compress(RECORDS)) + b"abc"),
    "snappy, numbers the other way round": (SNAPPY, xerial(snappy.compress(RECORDS), order="<")),
    "zstd": (ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(RECORDS)),
    "zstd, no size": (ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(RECORDS)),
    "zstd, two frames": (ZSTD, zstandard.compress(RECORDS[:HALF]) + zstandard.compress(RECORDS[HALF:])),
    "zstd, frames to skip": (ZSTD, SKIPPED + zstandard.compress(RECORDS) + SKIPPED),
    "zstd, wide window": (ZSTD, wide_zstd()),
}


def read(made: bytes, bounds: Bounds | None = None, begin: int = 0) -> list[FetchedRecord]:
    """Read one batch that was not sent."""
    return list(read_batch(MemoryRecords(made).next_batch(), begin, bounds or Bounds()))


def unread(records: list[FetchedRecord]) -> Unreadable:
    """What the last record says of what could not be read."""
    value = records[-1].value
    assert isinstance(value, Unreadable)
    return value


@pytest.fixture
def connections(kafka: EmbeddedKafka) -> KafkaConnections:
    return KafkaConnections((kafka.bootstrap_servers,), session_timeout_ms=2_000)


@pytest.fixture
def name(connections: KafkaConnections, topic: Callable[[str], str]) -> str:
    """A topic of one partition, whose records may be stamped as they like."""
    made = topic("batches")
    configs = {"message.timestamp.before.max.ms": str(2**63 - 1), "retention.ms": "-1"}
    with closing(connections.admin()) as admin:
        admin.create_topics({made: {"num_partitions": 1, "replication_factor": 1, "configs": configs}})
    return made


@pytest.fixture
def source(connections: KafkaConnections, name: str, eventually: Eventually) -> Iterator[InputLog]:
    """A member that reads the partition from its beginning."""
    made = InputLog(connections, name, name)
    eventually(lambda: (made.poll(250), made.waiting == {0})[1], 20)
    made.resume(0, 0)
    yield made
    made.close({})


def fetch(source: InputLog, end: int, eventually: Eventually, deadline_seconds: float = 20.0) -> list[Fetched]:
    """All that is read up to an offset; failures on the way are passed over, as the reader does."""
    found: list[Fetched] = []

    def there() -> bool:
        try:
            found.extend(source.poll(100))
        except UnreachableError:
            source.park()
        for partition in set(source.waiting):
            source.resume(partition, found[-1].end if found else 0)
        return bool(found) and found[-1].end >= end

    eventually(there, deadline_seconds)
    return found


def test_batches_are_read_in_every_form_that_the_broker_and_java_take(
    connections: KafkaConnections, name: str, source: InputLog, eventually: Eventually
) -> None:
    """kafka-python stops for ever at gzip with bytes behind it, and fails at lz4 with a wrong checksum."""
    offsets = [
        crafted.produce(connections, name, crafted.batch(data, len(VALUES), codec)) for codec, data in TAKEN.values()
    ]
    found = fetch(source, len(VALUES) * len(TAKEN), eventually)
    values = {offset: value for some in found for offset, value in zip(some.offsets, some.values, strict=True)}
    told = dict.fromkeys(TAKEN, VALUES)
    assert dict(zip(TAKEN, [[values[at + n] for n in range(len(VALUES))] for at in offsets], strict=True)) == told


def test_offsets_that_a_producer_made_up_pass_no_other_record(
    connections: KafkaConnections, name: str, source: InputLog, eventually: Eventually
) -> None:
    """The broker takes a batch of two records numbered 0 and 7, as offsets 0 and 1: six others must not be skipped."""
    crafted.produce(connections, name, crafted.batch(crafted.record(b"a", 0) + crafted.record(b"b", 7), 2))
    others = [b"%d" % n for n in range(8)]
    crafted.produce(connections, name, crafted.batch(crafted.records(others), len(others)))
    found = fetch(source, 10, eventually)
    assert [value for some in found for value in some.values] == [b"a", b"b", *others]
    assert [offset for some in found for offset in some.offsets] == list(range(10))


@pytest.mark.parametrize("codec", PACKS)
def test_a_record_of_another_length_than_it_says_is_passed_with_all_behind_it(
    codec: int, connections: KafkaConnections, name: str, source: InputLog, eventually: Eventually
) -> None:
    """The broker doesn't look at the length within compressed batches; Java's consumer reads up to there and stops."""
    pack = PACKS[codec]
    for off in (1, -1, 5):
        wrong = crafted.record(b"a") + crafted.record(b"wrong", 1, off=off) + crafted.record(b"c", 2)
        crafted.produce(connections, name, crafted.batch(pack(wrong), 3, codec))
    found = fetch(source, 9, eventually)
    values = [value for some in found for value in some.values]
    assert [value for value in values if isinstance(value, bytes)] == [b"a"] * 3
    told = [(value.first, value.end, value.records, value.lost) for value in values if isinstance(value, Unreadable)]
    assert told == [(1, 3, 2, False), (4, 6, 2, False), (7, 9, 2, False)]


def test_a_large_batch_comes_a_few_megabytes_at_a_time(
    connections: KafkaConnections, name: str, source: InputLog, eventually: Eventually
) -> None:
    """Of 40 MB that were sent in a few kilobytes no poll gives more than 4 MiB and a record."""
    values = [b"x" * 1_000_000] * 40
    crafted.produce(connections, name, crafted.batch(zstandard.compress(crafted.records(values)), len(values), ZSTD))
    found = fetch(source, len(values), eventually)
    sizes = [sum(len(value) for value in some.values if isinstance(value, bytes)) for some in found]
    assert sum(sizes) == 40_000_000
    assert max(sizes) <= POLL_BYTES + 1_000_000


@pytest.mark.parametrize("codec", PACKS)
def test_what_holds_more_than_the_bounds_is_lost_from_there_on(codec: int) -> None:
    """Whatever the codec, it ends as soon as the bound is passed, and what came before is given."""
    bounds = Bounds()
    value = bytes(1_000_000)
    body = crafted.records([value] * 80)
    found = read(crafted.batch(PACKS[codec](body), 80, codec))
    given = [record.value for record in found[:-1]]
    assert given == [value] * len(given)
    assert bounds.batch_bytes - 5_000_000 < len(given) * len(value) <= bounds.batch_bytes
    told = unread(found)
    assert (told.first, told.end, told.records, told.lost) == (len(given), 80, 80 - len(given), True)
    assert told.why == f"{NAMES[codec]} decompresses it to more than {bounds.batch_bytes} bytes"


def test_one_record_is_bounded_too_and_so_is_how_many_there_are() -> None:
    """A record is opened as a whole, and each costs something however small it is."""
    bounds = Bounds()
    body = crafted.record(b"small") + crafted.record(bytes(bounds.record_bytes), 1)
    found = read(crafted.batch(zstandard.compress(body), 2, ZSTD))
    assert [record.value for record in found[:-1]] == [b"small"]
    assert unread(found).why == f"one of its records says that it has more than {bounds.record_bytes} bytes"
    found = read(crafted.batch(b"", bounds.records + 1, ZSTD))
    assert unread(found).why == f"it has more than {bounds.records} records"
    assert unread(found).records == bounds.records + 1
    plain = read(crafted.batch(body, 2))
    assert [len(record.value or b"") for record in plain if isinstance(record.value, bytes)] == [5, bounds.record_bytes]


def test_the_bounds_grow_with_what_the_topic_allows() -> None:
    """Where batches of 10 MB may be sent, a record of 80 MB may be in one."""
    assert Bounds(10_000_000).record_bytes == 80_000_000
    assert Bounds(10_000_000).batch_bytes == 640_000_000
    assert Bounds(1_000).batch_bytes == Bounds().batch_bytes == 64 * 1_048_588


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (5, RECORDS),
        (GZIP, ZIPPED[:-12]),
        (GZIP, b"no gzip"),
        (GZIP, flipped(ZIPPED, 12)),
        (LZ4, FRAMED[:20]),
        (LZ4, b"none"),
        (LZ4, flipped(FRAMED, 4)),
        (SNAPPY, snappy.compress(RECORDS)[:-2]),
        (SNAPPY, xerial(snappy.compress(RECORDS))[:-2]),
        (SNAPPY, b"\xff\xff\xff\x7f\x00" + bytes(40)),
        (SNAPPY, b""),
        (ZSTD, zstandard.compress(RECORDS)[:-6]),
        (ZSTD, b"no zstd"),
        (ZSTD, b""),
    ],
)
def test_what_this_client_cannot_decompress_is_lost_and_never_passed_silently(codec: int, data: bytes) -> None:
    """A broker decompresses a batch before it takes it: so it is this client that can't, and visits may be in it."""
    told = unread(read(crafted.batch(data, len(VALUES), codec)))
    assert told.lost
    assert told.end == len(VALUES)
    assert told.first + told.records == told.end
    assert told.stamp_ms == 1_000
    assert told.known == crafted.batch(data, len(VALUES), codec)


def test_bytes_drawn_at_random_end_no_reading() -> None:
    """Good batches with bytes changed anywhere behind the header: records, or one that tells of what is not read."""
    draw = random.Random(9)
    for codec, data in list(TAKEN.values()) * 60:
        changed = bytearray(data)
        for _ in range(draw.choice([1, 1, 2, 8])):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        found = read(crafted.batch(bytes(changed), len(VALUES), codec))
        offsets = [record.offset for record in found]
        told = found[-1].value
        if isinstance(told, Unreadable):
            assert (told.first, told.end) == (len(found) - 1, len(VALUES))
        else:
            assert len(found) == len(VALUES)
        assert offsets == list(range(len(found)))


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_batches_of_earlier_formats_are_read_and_bounded_as_well(codec: int) -> None:
    """Kafka 3 still keeps what was written long ago; all of a compressed batch lies in one record."""
    assert [(record.offset, record.timestamp) for record in earlier(codec, 3, 10)] == [(0, 5), (1, 5), (2, 5)]
    bombed = earlier(GZIP, 80, 1_000_000)
    assert len(bombed) == 1
    assert (unread(bombed).first, unread(bombed).end, unread(bombed).lost) == (0, 80, True)


def earlier(codec: int, count: int, size: int) -> list[FetchedRecord]:
    """Read so many records of the format before the present one, as a broker keeps them."""
    builder = MemoryRecordsBuilder(magic=1, compression_type=codec, batch_size=2**40)
    for _ in range(count):
        builder.append(5, None, bytes(size))
    builder.close()
    made = bytes(builder.buffer())
    if codec:
        made = struct.pack(">q", count - 1) + made[8:]  # a broker numbers the whole by its last record
    batches = MemoryRecords(made)
    found: list[FetchedRecord] = []
    while (batch := batches.next_batch()) is not None:
        found += read_batch(batch, len(found), Bounds())
    return found


def test_what_has_not_even_the_form_of_batches_is_fetched_again_and_then_lost_to_the_logs_end() -> None:
    """A length that cannot be leaves no way to tell one batch from the next."""
    made = crafted.batch(RECORDS, len(VALUES))
    wrong = made[:8] + struct.pack(">i", 4) + made[12:]
    reading, place = FetchState(tries=2, left=POLL_BYTES), TopicPartition("t", 0)
    fetched = [_Records(reading, 0, place, MemoryRecords(made + wrong)) for _ in range(2)]
    assert [record.value for record in fetched[0].take(10)] == VALUES
    with pytest.raises(CorruptRecordError, match="offset 4 is damaged"):
        fetched[0].take(10)
    assert fetched[0].record_iterator is None
    told = unread(fetched[1].take(10))
    assert (told.first, told.end, told.stamp_ms, told.lost) == (4, LOG_END, None, True)
    assert "all from offset 4 on" in told.fault.error


class Damage:
    """One byte of a record's value, changed on the broker's disk."""

    def __init__(self, kafka: EmbeddedKafka, name: str, value: bytes) -> None:
        self._path = kafka.folder / "data" / f"{name}-0" / f"{0:020d}.log"
        self._place = self._path.read_bytes().index(value)

    def flip(self) -> None:
        """Change it, or change it back."""
        with self._path.open("r+b") as file:
            byte = os.pread(file.fileno(), 1, self._place)
            os.pwrite(file.fileno(), bytes([byte[0] ^ 0xFF]), self._place)


def test_damage_that_passes_is_read_again(
    connections: KafkaConnections, kafka: EmbeddedKafka, name: str, source: InputLog, eventually: Eventually
) -> None:
    """A wrong checksum makes kafka-python loop without end, also when the bytes are right again."""
    crafted.produce(connections, name, crafted.batch(crafted.records([b"harmed", b"next"]), 2))
    damage = Damage(kafka, name, b"harmed")
    damage.flip()

    def refused() -> bool:
        try:
            source.poll(100)
        except UnreachableError as error:
            return "checksum" in str(error)
        return False

    eventually(refused)
    damage.flip()
    source.park()
    source.resume(0, 0)
    found = fetch(source, 2, eventually)
    assert [value for some in found for value in some.values] == [b"harmed", b"next"]


def test_damage_that_stays_is_lost_unread_after_some_tries(
    connections: KafkaConnections, kafka: EmbeddedKafka, name: str, source: InputLog, eventually: Eventually
) -> None:
    """What was acknowledged and is gone may have held visits; what lies behind it is read once it is passed."""
    crafted.produce(connections, name, crafted.batch(crafted.records([b"harmed", b"next"]), 2))
    crafted.produce(connections, name, crafted.batch(crafted.records([b"good"]), 1))
    Damage(kafka, name, b"harmed").flip()
    failures = []

    def lost() -> Unreadable | None:
        try:
            source.poll(100)
        except UnreachableError as error:
            failures.append(str(error))
            source.park()
        if not source.unread and source.waiting:
            source.resume(0, 0)
        return source.unread.get(0)

    told = eventually(lost)
    assert len(failures) == TRIES - 1
    assert (told.first, told.end, told.records, told.stamp_ms, told.lost) == (0, 2, 2, None, True)
    assert told.why == "its checksum is wrong"
    assert source.waiting == {0}
    source.resume(0, told.end)
    source.unread.clear()
    assert fetch(source, 3, eventually)[-1].values == [b"good"]


@pytest.mark.parametrize(
    "error", [RuntimeError("loop"), AssertionError(), MemoryError(), KeyError(TopicPartition("t", 0))]
)
def test_whatever_polling_raises_a_new_consumer_goes_on(
    error: Exception, connections: KafkaConnections, name: str, source: InputLog, eventually: Eventually
) -> None:
    """An error that nobody foresaw would end the reading thread."""
    old = source._consumer

    def fail(**_settings: Any) -> None:
        raise error

    old.poll = fail
    with pytest.raises(UnreachableError, match=type(error).__name__):
        source.poll(100)
    crafted.produce(connections, name, crafted.batch(crafted.records([b"good"]), 1))
    assert fetch(source, 1, eventually)[-1].values == [b"good"]
    assert source._consumer is not old


def test_a_consumer_that_keeps_failing_is_replaced(
    connections: KafkaConnections, name: str, source: InputLog, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is away for one poll is no reason to leave the group; one that never comes back may be."""
    old = source._consumer
    crafted.produce(connections, name, crafted.batch(crafted.records([b"good"]), 1))

    def fail(**_settings: Any) -> None:
        raise OSError("broken")

    old.poll = fail
    for _ in range(2):
        with pytest.raises(UnreachableError):
            source.poll(100)
        assert source._consumer is old
    assert fetch(source, 1, eventually)[-1].values == [b"good"]
    assert source._consumer is not old
