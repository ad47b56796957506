"""The page with the public key of the service: it shows only signed answers."""

from __future__ import annotations

import html
from contextlib import closing

from monitor.ticks.signed_log import SignedLog
from monitor.tools.client.subscriber import read_topic_id
from tests.conftest import Eventually
from tests.kit.signed import SIGNER
from tests.tools.page.conftest import OpenPage
from tests.tools.page.test_http import by_id, get
from tests.tools.page.world import FIRST, Town


def test_forged_tick_turns_page_unknown(town: Town, open_page: OpenPage, eventually: Eventually) -> None:
    """The page shows signed answers and the key. After a forged tick, every place is unknown, with the reason."""
    with closing(town.parts.kafka.create_admin()) as admin:
        town.signed = SignedLog(SIGNER, "demo", read_topic_id(admin, town.topic), 0)
    town.publish(FIRST)
    town.publish(FIRST + 1)
    page = open_page(town)
    assert by_id(page)["clinic"]["state"] == "safe"
    assert str(SIGNER.verifier) in html.unescape(get(page, "/").body.decode())
    town.publish(FIRST + 2, {"market": 12})
    eventually(lambda: by_id(page)["market"]["state"] == "noisy_count")
    log, town.signed = town.signed, None
    town.publish(FIRST + 3)  # without a checkpoint
    town.signed = log
    town.publish(FIRST + 4)
    eventually(lambda: by_id(page)["clinic"]["state"] == "unknown")
    answers = [answer for place in by_id(page).values() for answer in place["answers"]]
    assert {answer["reason"] for answer in answers} == {"not_verified"}
