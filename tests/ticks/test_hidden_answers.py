"""Answers that an open transaction of another producer hides from subscribers are reported."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from typing import Any, cast

import pytest

from monitor.kafka.connections import KafkaConnections
from monitor.ticks import hidden_answers
from monitor.ticks.hidden_answers import CHECK_SECONDS, OPEN_SECONDS, HiddenAnswers
from monitor.ticks.input_topic import InputTopic
from tests.conftest import Eventually
from tests.ticks.worlds import FakeInputTopic, World


def test_open_transaction_is_reported(
    connections: KafkaConnections,
    make_topic: Callable[..., tuple[str, str]],
    put: Callable[[str, int, int], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    A transaction that has been open for a minute is logged once, with its partition and offset, until it ends.

        offset            0  1  2
        partition 0       x  x
        partition 1       x  o  x      "o" is open: subscribers see one record
    """
    (ledger, ledger_id), (visits, visits_id) = make_topic("ledger", 2), make_topic("visits")
    seconds = [0.0]
    with (
        closing(InputTopic(connections, visits, visits_id, (ledger, ledger_id))) as input_topic,
        closing(connections.create_producer(transactional_id=f"{ledger}-open")) as producer,
        caplog.at_level(logging.INFO, hidden_answers.__name__),
    ):
        put(ledger, 0, 2)
        put(ledger, 1, 1)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(ledger, value=b"o", partition=1).get(timeout=10)
        put(ledger, 1, 1)
        hidden = HiddenAnswers(input_topic, 2, lambda: seconds[0])
        troubles = []
        for seconds[0] in (0, OPEN_SECONDS - CHECK_SECONDS, OPEN_SECONDS, OPEN_SECONDS + CHECK_SECONDS):
            hidden.check()
            troubles.append(hidden.trouble)
        assert troubles[:2] == ["", ""]
        assert troubles[2] == troubles[3]
        assert "subscribers cannot read ledger partition 1 beyond offset 1: a producer has an open" in troubles[2]
        producer.abort_transaction()
        while hidden.trouble:  # the marker may arrive a moment later
            seconds[0] += CHECK_SECONDS
            hidden.check()
    logged = [record.getMessage() for record in caplog.records if record.name == hidden_answers.__name__]
    assert logged == [
        troubles[2],
        "subscribers can read all ledger partitions again",
    ]


def test_transactions_of_ticks_are_not_reported() -> None:
    """
    If the last stable offset moves between two checks, no transaction was open all the time.

        seconds          0    60   120  180
        stable offset    5    8    8    -       the one at 8 is reported after a minute
    """
    topic, seconds, troubles = FakeInputTopic(), [0.0], []
    hidden = HiddenAnswers(cast("Any", topic), 1, lambda: seconds[0])
    for seconds[0], topic.hidden in ((0, {0: 5}), (60, {0: 8}), (120, {0: 8}), (180, {})):
        hidden.check()
        troubles.append(bool(hidden.trouble))
    assert troubles == [False, False, True, False]


def test_hidden_answers_make_instance_unready(
    run_world: Callable[..., World], eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The readiness contains the reason while answers are hidden, although all ticks are decided."""
    monkeypatch.setattr(hidden_answers, "OPEN_SECONDS", 0.0)
    monkeypatch.setattr(hidden_answers, "CHECK_SECONDS", 0.0)
    world = run_world()
    world.input.hidden = {0: 7}
    eventually(lambda: world.loop.trouble.startswith("subscribers cannot read ledger partition 0 beyond offset 7"))
    world.input.hidden = {}
    eventually(lambda: not world.loop.trouble)
