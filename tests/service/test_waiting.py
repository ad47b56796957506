"""While `run` waits for a deleted topic it is healthy, and it continues. A restart would end with exit code 3."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

from monitor.observe.health import STALL_SECONDS, Health
from monitor.observe.update_service_metrics import Metrics
from monitor.service.keep_running import run_with
from monitor.time.clock import SystemClock
from tests.service.running import find_last_tick, make_real_time, wait_next_tick


def test_waiting_for_deleted_topic_is_healthy(make_town: Callable[..., Any], eventually: Callable[..., Any]) -> None:
    """
    While the service waits for a topic, loops that have ended do not count as stalled, and `/readyz` names the topic.

    Once the topic is there again, the service answers without a restart of the process: "unknown", as visits are lost.

        input      ├── there ──┤ deleted                                             ├ created again
        loops      ├───────────┤                                                     ├─────
        run        ├───────────── tries again ─ tries again ─ …                      ├─ unknown
        /healthz                                  three minutes later: 200
    """
    now = [0.0]
    health = Health(lambda: now[0])
    town = make_town(**make_real_time(slot=2, release_delay=1))
    town.create()
    stop = threading.Event()
    thread = threading.Thread(target=run_with, args=(town.settings, SystemClock(), Metrics(), health, stop))
    thread.start()
    try:
        wait_next_tick(town, eventually)
        with closing(town.settings.kafka.create_admin()) as admin:
            admin.delete_topics([town.topics.visits])
        eventually(lambda: town.topics.visits in health.list_waiting().get("service", ""), 60)
        now[0] += STALL_SECONDS + 1
        eventually(lambda: not health.list_stalled(), 60)
        assert health.list_waiting().keys() == {"service"}
        town.create()
        wait_next_tick(town, eventually)
        assert town.answers_by_tick()["inn"][find_last_tick(town)]["status"] == "unknown"
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()
