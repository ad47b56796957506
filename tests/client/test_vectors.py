"""The client agrees with the test vectors of docs/vectors/answers.json."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from monitor.client.answer_types import Answer, Known
from monitor.client.known_at_a_moment import KnownPlaces
from monitor.client.state_from_records import SubscriberView, keep_for
from monitor.kinds.locations import Registry
from monitor.time.instants import SECOND, parse_instant, to_instant

_FILE: Final = Path(__file__).parents[2] / "docs" / "vectors" / "answers.json"
VECTORS: Final[dict[str, dict[str, Any]]] = json.loads(_FILE.read_text(encoding="utf-8"))


def add(view: SubscriberView, record: dict[str, Any]) -> None:
    data = record["data"]
    value = data if isinstance(data, str) else json.dumps(data)
    view.add([("ce_type", record["type"].encode())], value.encode())


def describe(known: Known) -> dict[str, Any]:
    """Return what is known in the form of the vectors, with times as instants."""
    described = _describe_answer(known.current)
    return described | ({} if known.last_alarm is None else {"last_alarm": _describe_answer(known.last_alarm)})


def _describe_answer(answer: Answer) -> dict[str, Any]:
    others = {"last_alarm", "p_value", "strength"}  # the contract leaves the strength of an alarm to the client
    others |= {"since_at_most"} if answer.since_at_most is None else set()
    described = {name: value for name, value in asdict(answer).items() if name not in others}
    about = answer.about and {
        key: to_instant(value) if isinstance(value, datetime) else value
        for key, value in asdict(answer.about).items()
        if value is not None or key != "counted_since"
    }
    return described | {"about": about}


def parse_times(expected: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of a vector with its times as instants."""
    times = {"as_of", "valid_until", "start", "end", "resumes_at", "counted_since"}
    return {
        key: parse_times(value)
        if isinstance(value, dict)
        else parse_instant(value)
        if key in times and value
        else value
        for key, value in expected.items()
    }


@pytest.mark.promise(2)
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("name", VECTORS)
def test_client_passes(name: str, isolation: str) -> None:
    """The client knows what each vector expects, at each of its times, with both isolation levels."""
    vector = VECTORS[name]
    now = [0]
    slot, final_for = vector["slot_seconds"] * SECOND, vector["final_for_seconds"] * SECOND
    view = SubscriberView(Registry(tuple(vector["locations"]), 1), keep_for(slot, final_for))
    places = KnownPlaces(view, slot, lambda: now[0], final_for)
    for step in vector["steps"]:
        for record in step.get("records", ()):
            if isolation == "read_uncommitted" or not record.get("aborted"):
                add(view, record)
        now[0] = parse_instant(step["at"]) if "at" in step else now[0]
        for place, expected in step.get("known", {}).items():
            assert describe(places.get(place)) == parse_times(expected), (place, step.get("at"))
