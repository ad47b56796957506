"""Batches that the broker accepts and that could stop a reader, sent to one running instance."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import lz4.frame
import pytest
import zstandard

from monitor.kinds.facts_and_questions import Question
from monitor.operate.servers import EmbeddedValkey
from monitor.time.instants import SECOND
from tests.builders import build_visit
from tests.faults.town import FaultTown, Shape
from tests.ingest import crafted
from tests.ingest.crafted import GZIP, LZ4, NONE, ZSTD
from tests.kit.processes import Instance
from tests.kit.town import over_time
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

MOST_MEGABYTES: Final = 600
WITHIN_SECONDS: Final = 60.0


@pytest.fixture(params=[1])
def town(
    request: pytest.FixtureRequest,
    kafka: SharedKafka,
    store: EmbeddedValkey,
    topic: Callable[[str], str],
    tmp_path: Path,
) -> Iterator[FaultTown]:
    """A town without traffic, by default with one input partition.

    Everybody is at edge-0, with a long window; nobody is at edge-1.
    """
    monitors = [over_time("long", ["edge-0"], 4, "30m"), over_time("short", ["edge-1"], 4, "8s")]
    shape = Shape(inputs=request.param, ledger_partitions=1, changes={"monitors": monitors})
    town = FaultTown(tmp_path, topic("batches"), (kafka.bootstrap_servers, store.url), shape, 0)
    town.create()
    yield town
    town.end()


class Sender:
    """A sender of raw batches to a town's input. `people` is the number of people whose visits must count."""

    def __init__(self, town: FaultTown) -> None:
        self._town = town
        self._ids = count()
        self.people = 0

    def visit(self, **changes: str) -> bytes:
        """Return a visit of a new person, now."""
        now = time.time_ns() // 1_000
        visit = build_visit(f"person-{next(self._ids)}", "edge-0", now - SECOND, now) | changes
        return json.dumps(visit).encode()

    def good(self) -> bytes:
        """Return a visit that must count."""
        self.people += 1
        return self.visit()

    def junk(self, visit: bytes, item: bytes, size: int) -> bytes:
        """Return a record of about `size` bytes: a visit, and an item many times."""
        return b'{"visits":[' + visit + (b"," + item) * (size // (len(item) + 1)) + b"]}"

    def send(self, values: list[bytes], codec: int, compress: Callable[[bytes], bytes], partition: int = 0) -> None:
        """Send a batch of these records."""
        self.send_body(compress(crafted.records(values)), len(values), codec, partition)

    def send_body(self, body: bytes, count: int, codec: int, partition: int = 0) -> None:
        """Send a batch of `count` records in a compressed body."""
        settings, encoded = self._town.settings, crafted.batch(body, count, codec)
        crafted.produce(settings.kafka, settings.config.kafka.topics.visits, encoded, partition)


def send_trailing_bytes(sender: Sender) -> None:
    """Send bytes after gzip's stream, which Java ignores."""
    sender.send([sender.good()], GZIP, lambda data: gzip.compress(data) + b"garbage")


def send_wrong_checksum(sender: Sender) -> None:
    """Send a wrong content checksum of lz4, which Java does not check."""
    packed = lz4.frame.compress(crafted.records([sender.good()]), content_checksum=True, block_linked=False)
    sender.send_body(packed[:-4] + b"sum!", 1, LZ4)


def send_wrong_length(sender: Sender) -> None:
    """Send a record with a wrong length, which nobody can read."""
    sender.send_body(zstandard.compress(crafted.record(b"{}", off=1)), 1, ZSTD)


def send_junk(sender: Sender) -> None:
    """Send two million invalid visits in half a kilobyte, and similar batches."""
    for item in (b"{}", b"1", b'{"person_id":1,"location_id":1,"arrived_at":1}', sender.visit(location_id="nowhere")):
        sender.send([sender.junk(sender.good(), item, 6_000_000)], ZSTD, zstandard.compress)


def send_bomb(sender: Sender) -> None:
    """Send hundreds of megabytes of invalid visits, with valid ones among them that may or may not be read."""
    values = [sender.junk(sender.visit(), b"{}", 8_000_000) for _ in range(45)]
    sender.send([sender.good(), *values], ZSTD, zstandard.compress)


def send_long_times(sender: Sender) -> None:
    """Send four hundred different times with fractions of 96 kB each."""
    for first in range(0, 400, 8):
        texts = [f"2026-01-01T00:00:00.{number:096000d}Z" for number in range(first, first + 8)]
        sender.send([sender.visit(left_at=text) for text in texts], NONE, bytes)


def send_tiny_records(sender: Sender) -> None:
    """Send fifty thousand records of one byte in a batch of a few hundred bytes."""
    sender.send([b"1"] * 50_000, ZSTD, zstandard.compress)


BATCHES: Final = [
    send_trailing_bytes,
    send_wrong_checksum,
    send_wrong_length,
    send_junk,
    send_long_times,
    send_tiny_records,
    send_bomb,
]


def read_metric(instance: Instance, name: str) -> float:
    """Return the value of a metric; -1 if it has none."""
    match = re.search(rf"^location_monitor_{re.escape(name)} (.*)$", instance.page(), re.MULTILINE)
    return float(match[1]) if match else -1.0


def read_peak_megabytes(instance: Instance) -> float:
    """Return the peak memory of the process."""
    status = Path(f"/proc/{instance.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


class Site:
    """A town with one running instance, and a reader of its windows."""

    def __init__(self, town: FaultTown) -> None:
        self.town, self.sender = town, Sender(town)
        self.subscriber = town.subscriber
        self.subscriber.start()
        self.instance = town.start()
        self.windows = town.open_store()
        until(lambda: '"ok": true' in self.instance.page("/readyz"), 60, "ready")

    def is_read(self) -> bool:
        """Return whether the progress of all shards has reached the end of the input."""
        return self.town.is_read(self.windows)

    def people(self) -> int:
        """Return the number of people in the windows at the place that all of them visit."""
        row = self.town.settings.parameters.registry.rows["edge-0"]
        shard = int(self.town.settings.parameters.registry.shard[row])
        return int(self.windows.read({shard: Question(((0, [row]),))})[shard].counts[0][0])

    def status(self, tick: int) -> str:
        """Return the status of the empty place at a tick."""
        answers = [value for value in list(self.subscriber.values) if value["location_id"] == "edge-1"]
        return next((value["status"] for value in answers if value["tick"] == tick), "skipped")

    def statuses(self, after: int) -> list[str]:
        """Return the statuses of the empty place at the ticks after a given one."""
        return [self.status(tick) for tick in range(after + 1, self.subscriber.last_tick + 1)]

    def end(self) -> None:
        """End the threads."""
        self.subscriber.stop()
        self.windows.close()


@pytest.fixture
def site(town: FaultTown) -> Iterator[Site]:
    site = Site(town)
    yield site
    site.end()


@pytest.mark.promise(25)
def test_no_batch_stops_the_service(site: Site) -> None:
    """One process reads all batches without a restart, in less than 600 MB. Lost visits make answers unknown."""
    seconds = {}
    for send in BATCHES:
        before = site.town.now()
        send(site.sender)
        after, started = site.town.now(), time.monotonic()
        site.sender.send([site.sender.good()], NONE, bytes)
        until(site.is_read, WITHIN_SECONDS, send.__name__)
        seconds[send.__name__] = round(time.monotonic() - started, 1)
    until(lambda: site.statuses(after)[-1:] == ["safe"], 60, "safe again, once the short window is complete")
    print(f"seconds: {seconds}; {read_peak_megabytes(site.instance):.0f} MB")
    print(f"from tick {before} on: {site.statuses(before - 1)}")
    parameters = site.town.settings.parameters
    window = parameters.row_window[parameters.registry.rows["edge-1"]]
    lossy_ticks = range(after, before + parameters.max_lead + window)
    assert {site.status(tick) for tick in lossy_ticks} <= {"unknown", "skipped"}
    assert site.sender.people <= site.people() < site.sender.people + 45
    assert read_peak_megabytes(site.instance) < MOST_MEGABYTES
    assert read_metric(site.instance, 'recoveries_total{cause="log_lost_records"}') == 1
    assert read_metric(site.instance, 'dead_letters_total{reason="unreadable_batch"}') > 1
    assert site.instance.code is None
    assert "starting again" not in site.instance.text
    assert site.instance.text.count("the reading thread") == 0
    assert site.instance.terminate() == 0


@pytest.mark.promise(25)
@pytest.mark.parametrize("town", [2], indirect=True)
def test_no_batch_stops_a_start(town: FaultTown) -> None:
    """
    A first start beside a batch that no broker can decompress into its memory reads all partitions within a minute.

    Kafka would have to decompress it to answer which offset the service has to start from, by time.

        partition 0   good good good
        partition 1   (good, 700 MB of zeros) good
    """
    sender = Sender(town)
    huge = crafted.compress_zeros(sender.good(), [700_000_000], ZSTD)
    assert len(huge) < 100_000
    sender.send_body(huge, 2, ZSTD, partition=1)
    sender.send([sender.good()], NONE, bytes, partition=1)
    sender.send([sender.good() for _ in range(3)], NONE, bytes)
    started = time.monotonic()
    site = Site(town)
    until(site.is_read, WITHIN_SECONDS, "the records after the batch")
    print(f"seconds from the start of the process: {time.monotonic() - started:.1f}")
    until(lambda: site.people() == sender.people, 10, "everybody counts, once the slot of the visits is opened")
    assert site.instance.terminate() == 0
    site.end()
