"""A topic whose settings change while the service runs: nothing false is said, and it goes on once they are mended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

import monitor.run
from monitor.cli import load_settings
from monitor.public.clock import SystemClock
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey
from tests.service.test_run import Site

TYPE = "message.timestamp.type"
WINDOW = 4  # slots of two seconds; F = 1


class Eventually(Protocol):
    """The type of the fixture `eventually`."""

    def __call__(self, condition: Callable[[], Any], deadline_seconds: float = 10.0) -> Any:
        """The condition's first true value."""


class Running:
    """`run` on a thread of its own, of a site of two places with T = 3."""

    def __init__(self, site: Site) -> None:
        self.site = site
        site.tree["monitors"][0]["window"] = f"{2 * WINDOW}s"
        assert site.command("topics", "--create").returncode == 0
        self._stop = threading.Event()
        arguments = (load_settings(site.config), SystemClock(), self._stop)
        self._thread = threading.Thread(target=monitor.run.run, args=arguments, daemon=True)
        self._thread.start()

    def stamp(self, kind: str) -> None:
        """Turn the input topic to a timestamp type."""
        name = self.site.tree["kafka"]["topics"]["visits"]
        with closing(self.site.connections.admin()) as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, configs={TYPE: kind})])

    def said(self) -> list[tuple[int, str]]:
        """Ticks and statuses of the inn."""
        return [(value["tick"], value["status"]) for value in self.site.answers("inn")]

    def safe_after(self, tick: int) -> list[tuple[int, str]]:
        """What was said after a tick, once that is "safe" again."""
        said = [one for one in self.said() if one[0] > tick]
        return said if said and said[-1][1] == "safe" else []

    def close(self) -> None:
        self._stop.set()
        self._thread.join(60)


@pytest.fixture
def running(
    kafka: EmbeddedKafka,
    store: EmbeddedValkey,
    tmp_path: Path,
    topic: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
) -> Iterator[Running]:
    """A service that says "safe", and looks at its topics' settings every so many seconds."""
    monkeypatch.setattr(monitor.run, "TOPICS_SECONDS", request.param)
    caplog.set_level(logging.INFO)
    with closing(Running(Site(tmp_path, topic("stamped"), kafka.bootstrap_servers, store.url))) as made:
        eventually(lambda: made.said()[-1:] and made.said()[-1][1] == "safe", 60)
        yield made


def last_unknown(said: list[tuple[int, str]]) -> int:
    """For how many ticks it was unknown before the "safe" that was said last."""
    others = [tick for tick, status in said if status != "safe"]
    safe = [tick for tick, status in said if status == "safe" and tick < others[-1]]
    assert {status for tick, status in said if tick > safe[-1] and tick <= others[-1]} == {"unknown"}, said
    return others[-1] - safe[-1]


@pytest.mark.parametrize("running", [3_600.0], indirect=True)
def test_visits_that_producers_stamped_are_unknown_for_a_window_at_once(
    running: Running, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """Three people at the inn, whose slot nobody can tell; the settings are not looked at meanwhile."""
    running.stamp("CreateTime")
    eventually(lambda: _put(running, caplog), 20)
    running.site.put(["a", "b", "c"], "inn")
    running.stamp("LogAppendTime")
    tick = running.said()[-1][0]
    eventually(lambda: running.safe_after(tick + 1), 60)
    assert last_unknown(running.said()) >= WINDOW + 1


def _put(running: Running, caplog: pytest.LogCaptureFixture) -> bool:
    """Produce a visit until one is seen to carry the producer's time: the topic takes a moment to change."""
    running.site.put(["a"], "inn")
    return "have their producers' timestamps" in caplog.text


@pytest.mark.parametrize("running", [0.5], indirect=True)
def test_a_setting_that_would_break_a_promise_stops_all_answering_until_it_is_mended(
    running: Running, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits, alive, says which setting and what mends it, and then goes on."""
    running.stamp("CreateTime")
    eventually(lambda: f"whose {TYPE} is CreateTime: expected LogAppendTime" in caplog.text, 20)
    eventually(lambda: "starting again in" in caplog.text)
    running.stamp("LogAppendTime")
    tick = running.said()[-1][0]
    assert eventually(lambda: running.safe_after(tick), 90)
