"""Logs have one line per event with UTC times, and no output of client libraries below a minimum level."""

from __future__ import annotations

import json
import logging
import re

import pytest

from monitor.observe.logs import log_fields, set_up_logging


def test_line_has_all_parts(capsys: pytest.CaptureFixture[str]) -> None:
    """A line has UTC time, level, logger and message; standard output stays empty."""
    set_up_logging()
    logging.getLogger("monitor.ticks").warning("tick %d is late", 7)
    captured = capsys.readouterr()
    assert captured.out == ""
    line = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING monitor\.ticks: tick 7 is late\n"
    assert re.fullmatch(line, captured.err)


def test_json_has_fields_of_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    """A JSON line has time, level, logger, message, and the fields of the tick that the thread decides."""
    set_up_logging(log_format="json")
    with log_fields(ledger_partition=3), log_fields(tick="2026-01-05T01:00:00Z"):
        logging.getLogger("monitor.ticks").warning("tick %d is late", 7)
    logging.getLogger("monitor.ticks").info("no tick")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {
        "level": "WARNING",
        "logger": "monitor.ticks",
        "message": "tick 7 is late",
        "ledger_partition": 3,
        "tick": "2026-01-05T01:00:00Z",
    }
    assert "tick" not in second


def test_json_keeps_exception_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A traceback is a field, so that each event has one line."""
    set_up_logging(log_format="json")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("monitor").exception("failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert "ValueError: two" in json.loads(line)["exception"]


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
