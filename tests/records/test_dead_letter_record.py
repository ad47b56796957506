"""Dead letters contain the refused record or visit, cut at the limit, and the reason."""

from __future__ import annotations

import json

from monitor.records.dead_letter_record import DeadLetter, DeadLetterHeaders, Origin, encode_visit, make_dead_letter
from monitor.records.visit_contract import Fault, Reason

FAULT = Fault(Reason.BAD_ID, "person_id: expected a string")
ORIGIN = Origin("visits", 3, 42)


def headers(letter: DeadLetter) -> dict[str, str]:
    named = {name: text.decode() for name, text in letter.headers}
    DeadLetterHeaders.model_validate(named)
    return named


def test_visit_has_its_index() -> None:
    """The dead letter of a visit has the visit's index in the record."""
    letter = make_dead_letter(FAULT, b"{}", ORIGIN, 7, 100)
    assert letter.value == b"{}"
    assert headers(letter) == {
        "reason": "bad_id",
        "error": "person_id: expected a string",
        "topic": "visits",
        "partition": "3",
        "offset": "42",
        "index": "7",
    }


def test_whole_record_has_no_index() -> None:
    """The dead letter of a whole record has the index "-"."""
    assert headers(make_dead_letter(FAULT, b"\xff", ORIGIN, None, 100))["index"] == "-"


def test_long_values_are_truncated() -> None:
    """A value beyond the limit is cut, and the header truncated is set."""
    assert "truncated" not in headers(make_dead_letter(FAULT, b"12345", ORIGIN, 0, 5))
    cut = make_dead_letter(FAULT, b"123456", ORIGIN, 0, 5)
    assert cut.value == b"12345"
    assert headers(cut)["truncated"] == "true"


def test_every_visit_encodes_as_json() -> None:
    """Any visit is encoded as JSON, also with an infinite number, and null."""
    assert json.loads(encode_visit({"person_id": "駅", "x": float("inf")})) == {"person_id": "駅", "x": "Infinity"}
    assert encode_visit(None) == b"null"
