"""The records are compatible with those of the last release, and the comparison finds what would break others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.contracts.compatibility import CURRENT, RELEASED, find_breaks, load

Schemas = dict[str, Any]
Change = Callable[[Schemas], object]

SAFE: Final = "SafeAlert"


def test_records_are_compatible() -> None:
    """No field was removed or narrowed since the last release."""
    assert find_breaks(load(RELEASED), load(CURRENT)) == []


def plant(change: Change) -> list[str]:
    """Return what a change of the released schemas breaks."""
    released = load(RELEASED)
    current = copy.deepcopy(released)
    change(current["components"]["schemas"])
    return find_breaks(released, current)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda all_: all_[SAFE]["properties"].pop("threshold"), "threshold: the field was removed"),
        (lambda all_: all_[SAFE]["required"].remove("tick"), "tick: the field is no longer required"),
        (lambda all_: all_[SAFE]["properties"]["tick"].update(type="string"), "tick: the type was"),
        (lambda all_: all_[SAFE]["properties"]["threshold"].update(minimum=2), "minimum was 1 and is 2"),
        (lambda all_: all_[SAFE]["properties"]["as_of"].update(pattern="^.*$"), "as_of: pattern was"),
        (lambda all_: all_["Answer"]["properties"].pop("until"), "until: the field was removed"),
        (lambda all_: all_["OverTimeAlert"]["oneOf"].pop(), "the alternative UnknownAlert was removed"),
        (lambda all_: all_["AtTimesSnapshot"]["properties"]["status"]["enum"].pop(), "no longer allowed"),
        (lambda all_: all_["NoisyCount"]["required"].remove("tick"), "tick: the field is no longer required"),
        (lambda all_: all_["CloudEventHeaders"]["properties"].pop("ce_id"), "ce_id: the field was removed"),
        (lambda all_: all_["Visit"]["properties"].pop("consent"), "consent: the field was removed"),
        (lambda all_: all_["Visit"]["required"].append("consent"), "consent: the field is now required"),
        (lambda all_: all_["Visit"]["properties"]["person_id"].update(maxLength=8), "maxLength was 256 and is 8"),
        (lambda all_: all_["VisitBatch"].update(additionalProperties=False), "other fields are no longer allowed"),
    ],
)
def test_breaks_are_found(change: Change, expected: str) -> None:
    """A removed or narrowed field is found at any depth."""
    assert expected in "\n".join(plant(change))


@pytest.mark.parametrize(
    "change",
    [
        lambda all_: all_[SAFE]["properties"].update(note={"type": "string"}),
        lambda all_: all_["Reason"]["enum"].append("tombstone"),
        lambda all_: all_["Visit"]["properties"].update(note={"type": "string"}),
        lambda all_: all_["Visit"]["properties"]["person_id"].update(maxLength=512),
        lambda all_: all_["Visit"]["required"].remove("arrived_at"),
        lambda all_: all_[SAFE].update(description="Other words."),
    ],
)
def test_additions_are_allowed(change: Change) -> None:
    """New fields, new values of a list, and looser rules for visits break nothing."""
    assert plant(change) == []


def test_removed_message_is_found() -> None:
    """A removed message is found."""
    current = load(RELEASED)
    del current["components"]["messages"]["dwell"]
    assert find_breaks(load(RELEASED), current) == ["dwell: the message was removed"]
