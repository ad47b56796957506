"""Dead letters tell what was refused, whole or cut, and why."""

from __future__ import annotations

import json

from monitor.contracts.dead_letters import DeadLetter, DeadLetterHeaders, Origin, encode_visit, make_dead_letter
from monitor.contracts.visits import Fault, Reason

FAULT = Fault(Reason.BAD_ID, "person_id: expected a string")
ORIGIN = Origin("visits", 3, 42)


def headers(letter: DeadLetter) -> dict[str, str]:
    named = {name: text.decode() for name, text in letter.headers}
    DeadLetterHeaders.model_validate(named)
    return named


def test_a_visit_is_told_with_its_place() -> None:
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


def test_a_whole_record_has_no_place_in_itself() -> None:
    assert headers(make_dead_letter(FAULT, b"\xff", ORIGIN, None, 100))["index"] == "-"


def test_what_exceeds_the_limit_is_cut_and_said_so() -> None:
    assert "truncated" not in headers(make_dead_letter(FAULT, b"12345", ORIGIN, 0, 5))
    cut = make_dead_letter(FAULT, b"123456", ORIGIN, 0, 5)
    assert cut.value == b"12345"
    assert headers(cut)["truncated"] == "true"


def test_a_payload_is_json_whatever_the_visit_is() -> None:
    assert json.loads(encode_visit({"person_id": "駅", "x": float("inf")})) == {"person_id": "駅", "x": "Infinity"}
    assert encode_visit(None) == b"null"
