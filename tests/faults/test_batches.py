"""Batches that the broker takes and that would stop a reader, as one process that runs the service meets them."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import lz4.frame
import pytest
import zstandard

from monitor.public.clock import SystemClock
from monitor.public.instants import SECOND, format_instant
from monitor.run import prepare
from monitor.service import redis_windows
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey
from monitor.windows.facts import Question, Windows
from tests.faults.processes import Instance, until
from tests.faults.town import Shape, Subscriber, Town
from tests.ingest import crafted
from tests.ingest.crafted import GZIP, LZ4, NONE, ZSTD

MOST_MEGABYTES: Final = 600
WITHIN_SECONDS: Final = 60.0


def watched(name: str, location: str, window: str) -> dict[str, Any]:
    """A monitor of one place, with so much ε that no draw is above zero."""
    return {
        "name": name,
        "kind": "over_time",
        "locations": [location],
        "epsilon": "40",
        "threshold": 4,
        "window": window,
    }


@pytest.fixture
def town(kafka: EmbeddedKafka, store: EmbeddedValkey, topic: Callable[[str], str], tmp_path: Path) -> Iterator[Town]:
    """A town of one input partition without traffic: everybody is at edge-0, whose window is long, nobody at edge-1."""
    monitors = [watched("long", "edge-0", "30m"), watched("short", "edge-1", "8s")]
    shape = Shape(inputs=1, ledger_partitions=1, changes={"monitors": monitors})
    made = Town(tmp_path, topic("batches"), (kafka.bootstrap_servers, store.url), shape, 0)
    made.create()
    yield made
    made.end()


class Sender:
    """Sends batches of a town's visits as they are; `people` are those whose visits must count."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self._ids = count()
        self.people = 0

    def visit(self, **changes: str) -> bytes:
        """A visit of somebody else, now."""
        now = time.time_ns() // 1_000
        times = {"arrived_at": format_instant(now - SECOND), "left_at": format_instant(now)}
        visit = {"person_id": f"person-{next(self._ids)}", "location_id": "edge-0", **times, **changes}
        return json.dumps(visit).encode()

    def good(self) -> bytes:
        """A visit that must count."""
        self.people += 1
        return self.visit()

    def junk(self, visit: bytes, item: bytes, size: int) -> bytes:
        """A record of so many bytes: a visit, and an item again and again."""
        return b'{"visits":[' + visit + (b"," + item) * (size // (len(item) + 1)) + b"]}"

    def send(self, values: list[bytes], codec: int, compress: Callable[[bytes], bytes]) -> None:
        """Send a batch of these records."""
        self.send_body(compress(crafted.records(values)), len(values), codec)

    def send_body(self, body: bytes, count: int, codec: int) -> None:
        """Send a batch of so many records, compressed already."""
        settings = self._town.settings
        crafted.produce(settings.kafka, settings.config.kafka.topics.visits, crafted.batch(body, count, codec))


def zipped(sender: Sender) -> None:
    """Bytes behind gzip's stream, which Java ignores."""
    sender.send([sender.good()], GZIP, lambda data: gzip.compress(data) + b"garbage")


def framed(sender: Sender) -> None:
    """A wrong checksum of lz4's content, at which Java doesn't look."""
    packed = lz4.frame.compress(crafted.records([sender.good()]), content_checksum=True, block_linked=False)
    sender.send_body(packed[:-4] + b"sum!", 1, LZ4)


def broken(sender: Sender) -> None:
    """A record of another length than it says, which nobody can read."""
    sender.send_body(zstandard.compress(crafted.record(b"{}", off=1)), 1, ZSTD)


def junk(sender: Sender) -> None:
    """Half a kilobyte that is two million junk visits, and others of the kind."""
    for item in (b"{}", b"1", b'{"person_id":1,"location_id":1,"arrived_at":1}', sender.visit(location_id="nowhere")):
        sender.send([sender.junk(sender.good(), item, 6_000_000)], ZSTD, zstandard.compress)


def bomb(sender: Sender) -> None:
    """Hundreds of megabytes of junk, with visits among them: which of those are read is not said."""
    values = [sender.junk(sender.visit(), b"{}", 8_000_000) for _ in range(45)]
    sender.send([sender.good(), *values], ZSTD, zstandard.compress)


def tails(sender: Sender) -> None:
    """Four hundred times with time zones of 96 kB each, a different one each time."""
    for first in range(0, 400, 8):
        texts = [f"2026-01-01T00:00:00.{number:096000d}Z" for number in range(first, first + 8)]
        sender.send([sender.visit(left_at=text) for text in texts], NONE, bytes)


def tiny(sender: Sender) -> None:
    """Fifty thousand records of a byte in a batch of a few hundred."""
    sender.send([b"1"] * 50_000, ZSTD, zstandard.compress)


BATCHES: Final = [zipped, framed, broken, junk, tails, tiny, bomb]


def metric(instance: Instance, name: str) -> float:
    """The value of a metric; -1 while it has none."""
    found = re.search(rf"^location_monitor_{re.escape(name)} (.*)$", instance.page(), re.MULTILINE)
    return float(found[1]) if found else -1.0


def peak_megabytes(instance: Instance) -> float:
    """The most memory that the process has had."""
    status = Path(f"/proc/{instance._process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


class Site:
    """A town with one instance that runs, and its windows as the test reads them."""

    def __init__(self, town: Town) -> None:
        self.town, self.sender = town, Sender(town)
        self.subscriber = Subscriber(town)
        self.instance = town.start()
        self.windows: Windows = redis_windows(town.settings, prepare(town.settings, SystemClock()), SystemClock())
        until(lambda: '"ok": true' in self.instance.page("/readyz"), 60, "ready")

    def is_read(self) -> bool:
        """Whether all shards have passed the end of the input."""
        end = self.town.ends(self.town.topics.visits)[0]
        return all(shard.get(0, -1) >= end for shard in self.windows.progress())

    def people(self) -> int:
        """How many people the windows hold at the place that all of them visit."""
        row = self.town.settings.parameters.registry.rows["edge-0"]
        shard = int(self.town.settings.parameters.registry.shard[row])
        return int(self.windows.read({shard: Question(((row, 0),))})[shard].counts[row, 0])

    def status(self, tick: int) -> str:
        """What was said at a tick of the place where nobody is."""
        told = [value for value in list(self.subscriber.values) if value["location_id"] == "edge-1"]
        return next((value["status"] for value in told if value["tick"] == tick), "skipped")

    def said(self, after: int) -> list[str]:
        """What was said of it at the ticks after one."""
        return [self.status(tick) for tick in range(after + 1, self.subscriber.last_tick + 1)]

    def end(self) -> None:
        """Leave no thread behind."""
        self.subscriber.stop()
        self.windows.close()


@pytest.fixture
def site(town: Town) -> Iterator[Site]:
    made = Site(town)
    yield made
    made.end()


def test_no_batch_stops_the_service_and_good_visits_behind_each_count_within_a_minute(site: Site) -> None:
    """One process meets them all, below 600 MB and without starting again; what is lost makes answers unknown."""
    seconds = {}
    for send in BATCHES:
        before = site.town.now()
        send(site.sender)
        after, began = site.town.now(), time.monotonic()
        site.sender.send([site.sender.good()], NONE, bytes)
        until(site.is_read, WITHIN_SECONDS, send.__name__)
        seconds[send.__name__] = round(time.monotonic() - began, 1)
    until(lambda: site.said(after)[-1:] == ["safe"], 60, "safe again, once the short window is whole")
    print(f"seconds: {seconds}; {peak_megabytes(site.instance):.0f} MB; from tick {before} on: {site.said(before - 1)}")
    parameters = site.town.settings.parameters
    of_the_loss = range(
        after, before + parameters.max_lead + parameters.row_window[parameters.registry.rows["edge-1"]] + 1
    )
    assert {site.status(tick) for tick in of_the_loss} <= {"unknown", "skipped"}
    assert site.sender.people <= site.people() < site.sender.people + 45
    assert peak_megabytes(site.instance) < MOST_MEGABYTES
    assert metric(site.instance, 'recoveries_total{cause="log_lost_records"}') == 1
    assert metric(site.instance, 'dead_letters_total{reason="unreadable_batch"}') > 1
    assert site.instance.code is None
    assert "starting again" not in site.instance.text
    assert site.instance.text.count("the reading thread") == 0
    assert site.instance.terminate() == 0
