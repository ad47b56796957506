"""The page with the public key of the service: it shows only signed answers."""

from __future__ import annotations

import html
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

import pytest

from monitor.client.topic_consumer import read_topic_id
from monitor.ledger.sign_ticks import SignedLog
from monitor.page import topic_reader
from monitor.time.instants import format_instant
from tests.conftest import Eventually
from tests.kit.signed import SIGNER
from tests.kit.topics import recreate_topic
from tests.page.conftest import OpenPage, Served, fail_once
from tests.page.test_metrics import request, scrape
from tests.page.world import FIRST, Town

SENTENCE: Final = '<p id="signed">'


def open_town_log(town: Town) -> None:
    """Sign what the town publishes from now on in a new log."""
    with closing(town.parts.kafka.create_admin()) as admin:
        town.signed = SignedLog(SIGNER, "demo", read_topic_id(admin, town.topic), 0)


def list_answers(page: Served) -> list[dict[str, Any]]:
    return [answer for place in page.list_places().values() for answer in place["answers"]]


def test_forged_tick_turns_page_unknown(
    town: Town, open_page: OpenPage, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page shows signed answers and the key. After a forged tick, every place is unknown, with the reason.

    This ends with another topic, which has a log of its own.
    """
    monkeypatch.setattr(topic_reader, "ASK_SECONDS", 0.2)
    monkeypatch.setattr(topic_reader, "RETRY_SECONDS", 0.2)
    open_town_log(town)
    town.publish(FIRST)
    town.publish(FIRST + 1)
    page = open_page(town, metrics_port=0)
    assert page.list_places()["clinic"]["state"] == "safe"
    assert (request(page, "/readyz")[0], scrape(page)["not_verified", ()]) == (200, 0)
    key = f"signed with the key {SIGNER.verifier}"
    assert key in html.unescape(page.read("index.html").decode())
    assert SENTENCE in page.read("index.html").decode()
    town.publish(FIRST + 2, {"market": 12})
    eventually(lambda: page.list_places()["market"]["state"] == "noisy_count")
    log, town.signed = town.signed, None
    town.publish(FIRST + 3)  # without a checkpoint
    town.signed = log
    town.publish(FIRST + 4)
    eventually(lambda: {answer["reason"] for answer in list_answers(page)} == {"not_verified"})
    status, why = request(page, "/readyz")
    assert (status, request(page, "/healthz")[0], scrape(page)["not_verified", ()]) == (503, 200, 1)
    assert "have no checkpoint, so its places are shown as unknown" in why
    assert {answer["state"] for answer in list_answers(page)} == {"unknown"}
    eventually(lambda: SENTENCE not in page.read("index.html").decode())
    recreate_topic(town.parts.kafka, town.topic)
    open_town_log(town)
    town.publish(FIRST + 5)
    eventually(lambda: page.list_places()["clinic"]["state"] == "safe")
    assert (request(page, "/readyz")[0], scrape(page)["not_verified", ()]) == (200, 0)


def test_page_begins_after_forged_tick(town: Town, open_page: OpenPage, eventually: Eventually) -> None:
    """With `since`, the page shows the ticks after a forged one, and nothing about the time before it.

    A designated time that was last answered before is unknown, so that its place is not safe. Until the first tick the
    page is not ready, and says why.
    """
    open_town_log(town)
    grid = town.parts.parameters.grid
    town.publish(FIRST, noon={"market": 12})
    log, town.signed = town.signed, None
    town.publish(FIRST + 1, noon={"market": 12})  # without a checkpoint
    town.signed = log
    town.parts = replace(town.parts, since=format_instant(grid.as_of(FIRST + 2)))
    town.publish(FIRST + 2)
    page = open_page(town, metrics_port=0)
    assert (request(page, "/readyz")[0], scrape(page)["not_verified", ()]) == (503, 1)
    assert f"no tick after {town.parts.since} is signed by {SIGNER.verifier.name}" in request(page, "/readyz")[1]
    assert {place["state"] for place in page.list_places().values()} == {"unknown"}
    town.publish(FIRST + 3)
    eventually(lambda: page.list_places()["clinic"]["state"] == "safe")
    assert (request(page, "/readyz")[0], scrape(page)["not_verified", ()]) == (200, 0)
    eventually(lambda: [one["as_of"] for one in page.read_json("ticks.json")["ticks"]])
    assert format_instant(grid.as_of(FIRST)) not in [one["as_of"] for one in page.read_json("ticks.json")["ticks"]]


def test_unconfirmed_tick_is_read_again(
    town: Town, open_page: OpenPage, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Kafka does not confirm the topic after a tick was read, the tick is read and verified again, and shown."""
    open_town_log(town)
    town.publish(FIRST)
    page = open_page(town)
    monkeypatch.setattr(topic_reader, "ASK_SECONDS", 60)  # it confirms only when it has read records
    monkeypatch.setattr(topic_reader, "RETRY_SECONDS", 0.01)
    failed = fail_once(monkeypatch)
    town.publish(FIRST + 1, {"market": 12})
    eventually(failed.is_set)
    eventually(lambda: page.list_places()["market"]["state"] == "noisy_count")
