"""Topic settings that change while the service runs: no answer is false, and it resumes once they are corrected."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

import monitor.service.keep_running
from monitor.operate.servers import EmbeddedValkey
from monitor.service.load_settings import load_settings
from monitor.time.clock import SystemClock
from tests.conftest import Eventually
from tests.service.test_run import RunTown
from tests.shared_kafka import SharedKafka

TYPE = "message.timestamp.type"
WINDOW = 4  # slots of two seconds; F = 1


class RunThread:
    """`run` on a thread, for a town of two places with T = 3."""

    def __init__(self, town: RunTown) -> None:
        self.town = town
        town.tree["monitors"][0]["window"] = f"{2 * WINDOW}s"
        assert town.command("topics", "--create").returncode == 0
        self._stop = threading.Event()
        arguments = (load_settings(town.write()), SystemClock(), self._stop)
        self._thread = threading.Thread(target=monitor.service.keep_running.run, args=arguments, daemon=True)
        self._thread.start()

    def stamp(self, kind: str) -> None:
        """Set the timestamp type of the input topic."""
        name = self.town.topic("visits")
        with closing(self.town.connections.create_admin()) as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, configs={TYPE: kind})])

    def statuses(self) -> list[tuple[int, str]]:
        """Return the ticks and statuses of the inn."""
        return [(value["tick"], value["status"]) for value in self.town.answers("inn")]

    def safe_after(self, tick: int) -> list[tuple[int, str]]:
        """Return the statuses after a tick, once the last one is "safe"; until then an empty list."""
        later = [status for status in self.statuses() if status[0] > tick]
        return later if later and later[-1][1] == "safe" else []

    def close(self) -> None:
        self._stop.set()
        self._thread.join(60)


@pytest.fixture
def running(
    kafka: SharedKafka,
    store: EmbeddedValkey,
    tmp_path: Path,
    topic: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
) -> Iterator[RunThread]:
    """A service that has published "safe", with the test's interval between checks of the topic settings."""
    monkeypatch.setattr(monitor.service.keep_running, "TOPICS_SECONDS", request.param)
    caplog.set_level(logging.INFO)
    with closing(RunThread(RunTown(tmp_path, topic("stamped"), kafka.bootstrap_servers, store.url))) as thread:
        eventually(lambda: thread.statuses()[-1:] and thread.statuses()[-1][1] == "safe", 60)
        yield thread


def count_unknown(statuses: list[tuple[int, str]]) -> int:
    """Return the number of "unknown" ticks between the last two runs of "safe"."""
    not_safe = [tick for tick, status in statuses if status != "safe"]
    safe = [tick for tick, status in statuses if status == "safe" and tick < not_safe[-1]]
    assert {status for tick, status in statuses if safe[-1] < tick <= not_safe[-1]} == {"unknown"}, statuses
    return not_safe[-1] - safe[-1]


@pytest.mark.promise(36)
@pytest.mark.parametrize("running", [3_600.0], indirect=True)
def test_producer_timestamps_mean_unknown(
    running: RunThread, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Visits stamped by their producer make answers unknown for a window.

    Three people are at the inn, in a slot that is not known. The settings are not checked during the test.
    """
    running.stamp("CreateTime")
    eventually(lambda: _put(running, caplog), 20)
    running.town.put(["a", "b", "c"], "inn")
    running.stamp("LogAppendTime")
    tick = running.statuses()[-1][0]
    eventually(lambda: running.safe_after(tick + 1), 60)
    assert count_unknown(running.statuses()) >= WINDOW + 1


def _put(running: RunThread, caplog: pytest.LogCaptureFixture) -> bool:
    """Produce a visit and return whether the service has seen a producer's time. The change takes a while."""
    running.town.put(["a"], "inn")
    return "have their producers' timestamps" in caplog.text


@pytest.mark.promise(36)
@pytest.mark.parametrize("running", [0.5], indirect=True)
def test_wrong_topic_setting_stops_answers(
    running: RunThread, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """With a wrong setting the service logs the setting and the remedy, answers nothing, and resumes once corrected."""
    running.stamp("CreateTime")
    eventually(lambda: f"whose {TYPE} is CreateTime: expected LogAppendTime" in caplog.text, 20)
    eventually(lambda: "starting again in" in caplog.text)
    running.stamp("LogAppendTime")
    tick = running.statuses()[-1][0]
    assert eventually(lambda: running.safe_after(tick), 90)
