"""Checking ids in bulk equals checking them one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.contracts.visits import is_identifier
from monitor.ingest.decode import check_identifiers

EDGES = [
    "",
    "a",
    "a" * 256,
    "a" * 257,
    "é" * 128,
    "é" * 129,
    "\n",
    "a\nb",
    "\x00",
    "\x7f",
    "\x80",
    "\x9f",
    "\xa0",
    " ",
    "駅",
    "\ud800",
]
EDGES += ["\u2028", "\u200b", "\ue000"]


@settings(max_examples=1_000, derandomize=True, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(EDGES), st.text(max_size=5), st.text("ab\n\x7f", max_size=3)), max_size=5))
def test_bulk_ids_equal_single(ids: list[str]) -> None:
    """Checking ids in bulk equals checking them one by one."""
    assert check_identifiers(ids).tolist() == [is_identifier(text) for text in ids]


def test_control_characters() -> None:
    """Control characters are those of Unicode category Cc."""
    bad = [code for code in range(0x3000) if not is_identifier(chr(code))]
    assert bad == [*range(0x20), *range(0x7F, 0xA0)]
