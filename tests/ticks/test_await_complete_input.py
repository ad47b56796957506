"""The evidence of a tick on real servers: it waits for the end offsets until the release."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from monitor.kafka.connections import KafkaConnections
from monitor.kinds.facts_and_questions import OffsetRange, Question, Reading
from monitor.kinds.parameters import Parameters
from monitor.operate.servers import EmbeddedValkey
from monitor.records.unknown_causes import INPUT_BEHIND, LATE
from monitor.store.keys import PROGRESS, Keys
from monitor.store.redis_client import RedisAddress, create_client
from monitor.store.redis_store import RedisStore
from monitor.time.clock import SteppedClock, SystemClock
from monitor.time.instants import SECOND
from tests.conftest import Eventually
from tests.store.packed import pack_shard_facts
from tests.ticks.deciding import ledger, list_kinds
from tests.ticks.worlds import make_short_slots, reading_instant

Make = Callable[..., Parameters]
MakeSite = Callable[..., Any]
ANN, BOB = b"a" * 16, b"b" * 16
MERGED = 50_000  # waiting facts that one script merges


class SpiedWindows:
    """Windows that record the questions of all reads."""

    def __init__(self, windows: RedisStore) -> None:
        self._windows = windows
        self.asked: list[Mapping[int, Question]] = []

    def read(self, questions: Mapping[int, Question]) -> dict[int, Reading]:
        self.asked.append(questions)
        return self._windows.read(questions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._windows, name)


def spy_on(site: Any) -> SpiedWindows:
    """Replace the site's windows by windows that record their questions."""
    watched = SpiedWindows(site.windows)
    site.release._context = replace(site.context, store=watched)  # noqa: SLF001  # the store of a release that runs
    return watched


def list_counted(watched: SpiedWindows) -> list[list[int]]:
    """Return the counted shards of each read."""
    return [sorted(asked) for asked in watched.asked if any(question.tick is not None for question in asked.values())]


class TestEndOffsets:
    @pytest.mark.promise(5)
    def test_tick_waits_for_end_offsets(
        self,
        make_site: MakeSite,
        make_parameters: Make,
        clock: SteppedClock,
        put: Callable[..., None],
        in_thread: Callable[..., Any],
        eventually: Eventually,
    ) -> None:
        """
        A tick is decided when the facts reach the end offsets. Two people of the five records are at place-1.

            offset      0  1  2  3  4
            progress    ^                 waits, reading again
                        .  .  .  ^        waits
                        .  .  .  .  .  ^  decides
        """
        parameters = make_parameters()
        site = make_site(parameters, clock)
        assert site.release.take_over()
        put(site.input_topic, 1, 5)
        site.windows.write([OffsetRange(1, 0, 0)], {})
        watched = spy_on(site)
        clock.move_to(reading_instant(parameters, 0))
        thread = in_thread(lambda: site.tick(0))
        eventually(lambda: len(watched.asked) > 2)
        site.windows.write([OffsetRange(1, 0, 3)], {0: pack_shard_facts(0, {1: [(ANN, 0)]})})
        read = len(watched.asked)
        eventually(lambda: len(watched.asked) > read + 2)
        assert site.context.decided.number == 0
        site.windows.write([OffsetRange(1, 3, 5)], {0: pack_shard_facts(0, {1: [(BOB, 0)]})})
        site.context.progressed.notify()
        thread.join(20)
        before = np.array([parameters.grid.as_of(0) - 1] * 2)
        assert site.context.tick_ends.count_late(1, np.array([4, 5]), before) == 1
        assert site.context.tick_ends.count_late(1, np.array([4, 5]), before + 1) == 0
        assert site.statuses() == ["safe", "noisy_count", "safe"]
        assert site.observer.ticks == [
            (0, {"stations": "decided"}, {("stations", "safe"): 2, ("stations", "noisy_count"): 1})
        ]

    def test_tick_waits_for_pending_facts(
        self, make_site: MakeSite, make_parameters: Make, clock: SteppedClock
    ) -> None:
        """
        A tick is read again while facts of its slot are still pending; before, "safe" would be false.

            waiting   100,001   50,001   1      0
            poll               no       no     yes: counted
        """
        people = [number.to_bytes(16, "big") for number in range(2 * MERGED + 1)]
        parameters = make_parameters(threshold=2 * MERGED + 1)
        site = make_site(parameters, clock)
        site.release.take_over()
        site.windows.write([OffsetRange(0, 0, 1)], {0: pack_shard_facts(0, {1: [(who, 0) for who in people]})})
        watched = spy_on(site)
        clock.move_to(reading_instant(parameters, 0))
        assert site.tick(0)
        assert len(list_counted(watched)) > 1
        assert site.statuses() == ["safe", "noisy_count", "safe"]

    @pytest.mark.promise(5)
    def test_known_progress_is_only_a_hint(
        self,
        make_site: MakeSite,
        make_parameters: Make,
        clock: SteppedClock,
        put: Callable[..., None],
        in_thread: Callable[..., Any],
        eventually: Eventually,
    ) -> None:
        """
        Progress of an earlier tick saves a read, and never decides: here the facts were lost after it was read.

            progress of tick 0    .  .  ^   counted at once at tick 1
            progress at tick 1    ^         refused, so tick 1 waits
        """
        parameters = make_parameters()
        site = make_site(parameters, clock)
        assert site.release.take_over()
        put(site.input_topic, 1, 2)
        site.windows.write([OffsetRange(1, 0, 2)], {0: pack_shard_facts(0, {1: [(ANN, 5), (BOB, 5)]})})
        clock.move_to(reading_instant(parameters, 0))
        assert site.tick(0)
        site.windows.restart(1, 0, 0)
        watched = spy_on(site)
        clock.move_to(reading_instant(parameters, 1))
        thread = in_thread(lambda: site.tick(1))
        eventually(lambda: len(watched.asked) > 2)
        assert list_counted(watched)[:1] == [sorted(watched.asked[0])]
        assert site.context.decided.number == 1
        site.windows.write([OffsetRange(1, 0, 2)], {0: pack_shard_facts(0, {1: [(ANN, 5), (BOB, 5)]})})
        site.context.progressed.notify()
        thread.join(20)
        assert site.context.decided.number == 2

    @pytest.mark.promise(5)
    def test_one_short_partition_is_unknown(
        self,
        make_closed_site: MakeSite,
        put: Callable[..., None],
        connections: KafkaConnections,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """If one partition is one record short at the release, the tick is unknown and is never revised.

        The log names the partition, and the metrics count the shard and the missing record.
        """
        site = make_closed_site()
        put(site.input_topic, 0, 1)
        put(site.input_topic, 1, 2)
        site.windows.write([OffsetRange(0, 0, 1), OffsetRange(1, 0, 1)], {})
        with caplog.at_level(logging.WARNING, "monitor.ticks.tick_reports"):
            assert site.tick_at_release()
        (line,) = [text for text in caplog.messages if "is unknown" in text]
        assert line.endswith("is unknown: the windows contain input partition 1 up to offset 1 of 2")
        assert site.observer.causes == [{INPUT_BEHIND: 1}]
        assert site.observer.missing_records == {0: 0, 1: 1}
        assert site.statuses() == ["unknown"] * 3
        assert site.observer.ticks == [(0, {"stations": "unknown"}, {("stations", "unknown"): 3})]
        assert not site.tick(0)
        assert list_kinds(ledger(connections, site.place)) == ["ledger", "owner", *"000"]

    def test_late_shard_leaves_others_complete(
        self, make_site: MakeSite, make_parameters: Make, put: Callable[..., None], valkey: EmbeddedValkey
    ) -> None:
        """A shard that lags until the end of reading is unknown; the complete shard is counted once, in time."""
        clock = SystemClock()
        parameters = make_short_slots(make_parameters, places=12, shards=2)
        site = make_site(parameters, clock)
        site.release.take_over()
        put(site.input_topic, 0, 1)
        site.windows.write([OffsetRange(0, 0, 1)], {})
        with closing(create_client(RedisAddress(valkey.url))) as raw:
            raw.hset(Keys(parameters.name, site.fingerprint).meta(1), f"{PROGRESS}0", "0")
        assert [read_progress[0] for read_progress in site.windows.read_progress()] == [1, 0]
        watched = spy_on(site)
        site.tick(site.release.find_next_tick())
        shards = [int(shard) for shard in parameters.registry.shard]
        assert site.statuses() == [("safe", "unknown")[shard] for shard in shards]
        assert list_counted(watched) == [[0]]
        assert len(watched.asked) > 3, "shard 1 was read again until the end of reading"


class TestRedisClock:
    @pytest.mark.promise(5)
    @pytest.mark.parametrize(("seconds_ago", "status"), [(90, "unknown"), (10, "safe")])
    def test_reading_after_release_is_unknown(self, seconds_ago: int, status: str, make_closed_site: MakeSite) -> None:
        """A reading that is complete only after the release, by Redis's clock, is unknown, and lacks no record.

        Counting it would reveal the load.
        """
        site = make_closed_site(seconds_ago)
        site.windows.write([OffsetRange(0, 0, 3)], {})  # records after the end offsets belong to a later tick
        site.tick_at_release()
        assert site.statuses() == [status] * 3
        assert site.observer.causes == ([] if status == "safe" else [{LATE: 1}])
        assert site.observer.missing_records == {0: 0, 1: 0}

    @pytest.mark.promise(34)
    def test_open_tick_is_not_decided(self, make_closed_site: MakeSite, connections: KafkaConnections) -> None:
        """If this machine's clock is a minute ahead of Redis, the tick is not decided and the reason is reported."""
        site = make_closed_site(-60)
        assert not site.tick_at_release()
        assert list_kinds(ledger(connections, site.place)) == ["ledger", "owner"]
        assert "the store's clock is not known to have reached" in site.release.trouble

    @pytest.mark.promise(5)
    def test_end_offsets_wait_for_the_tolerance(self, make_closed_site: MakeSite) -> None:
        """
        End offsets are read once Redis's clock is past as_of by the tolerance.

        Here the broker's clock is 0.9 s behind Redis.

            broker    …  as_of - 0.4 s                     a visit is stamped here, after end offsets read now
            Redis        as_of + 0.5 s    as_of + 1 s
            offsets      not read         read
        """
        site = make_closed_site(0.5)
        asked: list[int] = []

        class Asked:
            def read_end_offsets_at(self, _tick: int) -> dict[int, int]:
                asked.append(SystemClock().now())
                return {0: 0, 1: 0}

            def __getattr__(self, name: str) -> Any:
                return getattr(site.context.input_topic, name)

        site.release._context = replace(site.context, input_topic=cast("Any", Asked()))  # noqa: SLF001  # the input of a release that runs
        parameters = site.context.parameters
        site.context.clock.instant = parameters.grid.as_of(0) + 10 * SECOND
        site.release._wait_for_release = lambda *_: ""  # noqa: SLF001  # to decide at once
        assert site.tick(0)
        assert site.statuses() == ["safe"] * 3
        assert asked[0] >= parameters.grid.as_of(0) + parameters.tolerance
