"""Dead letters on a real Kafka are exported, corrected and sent again; what would be refused again is not sent."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from monitor.records.visit_contract import Reason
from tests.operate.dead_letters.refused import PERSON, Refused, run


def write_lines(path: Path, *lines: object) -> Path:
    """Write one JSON text per line."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.promise(22)
def test_corrected_visits_are_sent(refused: Refused, tmp_path: Path) -> None:
    """
    An exported dead letter is corrected and sent, and the command prints from when on the visit counts.

    The location "in" is corrected to "inn". The record has the visit only, without the notes of the export.
    """
    refused.put(Reason.UNKNOWN_LOCATION, refused.visit("in"))
    file = tmp_path / "letters.jsonl"
    assert "1 dead letters in" in run(refused, "--export", file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    line = json.loads(file.read_text())
    assert line["dead_letter"]["reason"] == "unknown_location"
    line["visits"][0]["location_id"] = "inn"
    output = run(refused, "--resend", write_lines(file, line))
    assert refused.sent() == [{"visits": [refused.visit("inn")]}]
    assert "1 of 1 visits were sent" in output
    assert "so they count from the tick at" in output
    assert "Earlier answers are not revised." in output


def test_uncorrected_visits_are_not_sent(refused: Refused, tmp_path: Path) -> None:
    """Visits that would be refused again are not sent, the others are; equal reasons are one line with all numbers."""
    file = write_lines(
        tmp_path / "letters.jsonl",
        {"visits": [refused.visit("inn"), refused.visit("in")]},
        {"visits": [refused.visit("inn", hours_ago=-3)]},
        {"visits": [refused.visit("inn", left_at="soon")]},
        {"dead_letter": {}, "value": PERSON, "visits": []},
        [PERSON],
        *[refused.visit("in")] * 33,
    )
    output = run(refused, "--resend", file, "--dry-run", code=1)
    assert refused.sent() == []
    assert run(refused, "--resend", file, code=1).startswith(output.partition("Correct")[0])
    assert refused.sent() == [{"visits": [refused.visit("inn")]}]
    for problem in (
        "34 not sent (unknown_location), lines 1, 6, 7, 8, 9, 10,",
        "23, 24 and 14 more: location_id",
        "1 not sent (too_far_ahead), lines 2: arrived_at",
        "1 not sent (bad_time), lines 3: left_at",
        "1 not sent (not_a_visit), lines 4: visits: expected at least one visit",
        "1 not sent (not_a_visit), lines 5: value",
        "Correct the refused lines",
        "1 of 39 visits would be sent",
    ):
        assert problem in output
    assert len(output.splitlines()) == 7  # five causes, what to do, and the amount


@pytest.mark.promise(24)
def test_late_visits_stay_too_late(refused: Refused, tmp_path: Path) -> None:
    """A visit that no window contains any more, or that nobody watches, is not sent but named; the exit code is 1."""
    file = write_lines(
        tmp_path / "letters.jsonl", refused.visit("inn", hours_ago=9), refused.visit("bath"), refused.visit("inn")
    )
    output = run(refused, "--resend", file, code=1)
    assert "1 of 3 visits were sent" in output
    assert "1 not sent (expired), lines 1: too late: no window or horizon" in output
    assert "1 not sent (not_watched), lines 2: no monitor of this configuration watches its place and time" in output
    assert refused.sent() == [{"visits": [refused.visit("inn")]}]


@pytest.mark.parametrize(
    ("value", "visits"),
    [(b"\xff{", []), (b'{"visits": [{"person_id": "p"}]}', [{"person_id": "p"}])],
    ids=["undecodable", "whole record"],
)
def test_whole_records_are_exported(refused: Refused, tmp_path: Path, value: bytes, visits: list[Any]) -> None:
    """A whole record is exported with its visits, or with its text if it has none that can be read."""
    refused.put(Reason.NOT_JSON, value)
    refused.write(PERSON.encode(), [])
    file = tmp_path / "letters.jsonl"
    run(refused, "--export", file)
    (line,) = map(json.loads, file.read_text().splitlines())
    assert line["visits"] == visits
    assert line.get("value") == (None if visits else "\\xff{")


def test_framed_record_is_sent_as_plain_json(refused: Refused, tmp_path: Path) -> None:
    """The visits of a refused record with a framing are exported, and sent without the framing."""
    refused.put(Reason.NOT_JSON, b"\0\0\0\0\7" + json.dumps(refused.visit()).encode())
    file = tmp_path / "letters.jsonl"
    run(refused, "--export", file)
    run(refused, "--resend", file)
    assert refused.sent() == [{"visits": [refused.visit()]}]


def test_export_overwrites_no_file(refused: Refused, tmp_path: Path) -> None:
    """An existing file is never overwritten; options that exclude each other are refused."""
    file = write_lines(tmp_path / "letters.jsonl", {})
    assert "the file exists" in run(refused, "--export", file, code=2)
    assert "exclude each other" in run(refused, "--export", file, "--resend", file, code=2)
    assert "requires --resend" in run(refused, "--dry-run", code=2)
