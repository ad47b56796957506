"""An instance whose clock is wrong answers nothing. The walk sets clocks back and ahead (test_walk.py)."""

from __future__ import annotations

import re
from http import HTTPStatus

import pytest

from monitor.operate.servers import EmbeddedValkey
from monitor.time.instants import HOUR, SECOND, parse_instant
from tests.faults.conftest import MakeTown
from tests.faults.oracles import settle
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

# The message of an instance with a wrong clock (the town's tolerance is 100 ms), with the instants of both clocks.
REFUSED = re.compile(
    r"this machine's clock shows (?P<mine>\S+Z), Redis's clock shows (?P<redis>\S+Z): expected a difference of at "
    r"most clock\.tolerance \(100ms\)\. Synchronize both clocks \(NTP\)"
)


@pytest.mark.promise(34)
def test_wrong_clock_at_start(kafka: SharedKafka, store: EmbeddedValkey, make_town: MakeTown) -> None:
    """An instance that starts with a wrong clock waits, alive and not ready, and logs both clocks; another one answers.

    wrong   ├─ refused, tries again ─ refused ─ … ─┤
    right      ├───────────────────────────────────────
    """
    town = make_town(kafka.bootstrap_servers, store.url)
    started = {}
    for offset in (-HOUR, 6 * SECOND):
        clock = town.folder / f"clock-{offset}"
        clock.write_text(str(offset))
        started[offset] = town.start("--clock", str(clock))
    right = town.start()
    town.subscriber.wait_complete()
    for offset, wrong in started.items():
        until(lambda wrong=wrong: len(REFUSED.findall(wrong.text)) > 1, 40, "refused again")  # type: ignore[misc]
        match = next(REFUSED.finditer(wrong.text))
        error = parse_instant(match["mine"]) - parse_instant(match["redis"])
        assert abs(error - offset) < 2 * SECOND
        assert wrong.fetch("/healthz")[0] == HTTPStatus.OK
        assert wrong.fetch("/readyz")[0] == HTTPStatus.SERVICE_UNAVAILABLE
        until(lambda wrong=wrong: REFUSED.search(wrong.page("/readyz")), 40, "the reason")  # type: ignore[misc]
        assert "owns ledger partition" not in wrong.text
        assert wrong.terminate() == 0
    assert right.fetch("/readyz")[0] == HTTPStatus.OK
    town.subscriber.wait_new()
    assert max(value["tick"] for value in town.subscriber.values) <= town.now()
    verdict = settle(town, right)
    assert verdict.broken == []
    assert verdict.count("safe") > 0
