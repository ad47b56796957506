"""Logs: one line an event with UTC times, and libraries that print what they send are kept quiet."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest

from monitor.operate.logs import set_up_logging


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Logging as pytest had it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in ("kafka", "redis")}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def test_a_line_tells_when_how_bad_where_and_what(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, in UTC, with nothing on standard output."""
    set_up_logging()
    logging.getLogger("monitor.release").warning("tick %d is late", 7)
    told = capsys.readouterr()
    assert told.out == ""
    line = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING monitor\.release: tick 7 is late\n"
    assert re.fullmatch(line, told.err)


def test_clients_say_nothing_of_what_they_send_also_in_verbose_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """At DEBUG kafka-python prints keys and values: visits, with person ids."""
    set_up_logging(logging.DEBUG)
    for name in ("kafka.producer.sender", "kafka.conn", "redis.connection"):
        for level in (logging.DEBUG, logging.INFO):
            logging.getLogger(name).log(level, "value=b'person p-17'")
    logging.getLogger("kafka.conn").warning("value=b'person p-17'")
    logging.getLogger("monitor").debug("a line of ours")
    told = capsys.readouterr().err
    assert "p-17" not in told
    assert "a line of ours" in told


def test_setting_up_twice_does_not_say_everything_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """There is one handler."""
    set_up_logging()
    set_up_logging()
    logging.getLogger("monitor").info("once")
    assert capsys.readouterr().err.count("once") == 1
