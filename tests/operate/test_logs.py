"""Logs have one line per event with UTC times, and no output of client libraries below a minimum level."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest

from monitor.operate.logs import set_up_logging


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    """Restore pytest's logging."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in ("kafka", "redis")}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def test_line_has_time_level_logger_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    """A line has UTC time, level, logger and message; standard output stays empty."""
    set_up_logging()
    logging.getLogger("monitor.release").warning("tick %d is late", 7)
    captured = capsys.readouterr()
    assert captured.out == ""
    line = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING monitor\.release: tick 7 is late\n"
    assert re.fullmatch(line, captured.err)


@pytest.mark.promise(22)
def test_client_libraries_log_no_payloads(capsys: pytest.CaptureFixture[str]) -> None:
    """Client libraries log no payloads, not even with --verbose."""
    set_up_logging(logging.DEBUG)
    for name in ("kafka.producer.sender", "kafka.conn", "redis.connection"):
        for level in (logging.DEBUG, logging.INFO):
            logging.getLogger(name).log(level, "value=b'person p-17'")
    logging.getLogger("kafka.conn").warning("value=b'person p-17'")
    logging.getLogger("monitor").debug("a line of ours")
    log = capsys.readouterr().err
    assert "p-17" not in log
    assert "a line of ours" in log


def test_repeated_setup_does_not_duplicate_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Repeated set-up keeps a single handler."""
    set_up_logging()
    set_up_logging()
    logging.getLogger("monitor").info("once")
    assert capsys.readouterr().err.count("once") == 1
