"""Parsing times in bulk equals `parse_instant`, or leaves times to the contract."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.contracts.instants import format_instant, parse_instant
from monitor.errors import TimeError
from monitor.ingest.decode import parse_instants

FORMS = [
    "2026-11-20T08:15:00Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "1969-12-31T23:59:59Z",
    "2000-02-29T12:34:56Z",
    "2024-02-29T00:00:00+09:00",
    "2026-11-20T08:15:00.123Z",
    "2026-11-20T08:15:00.123456789-11:30",
    "2026-11-20T08:15:00+00:00",
    "2026-11-20t08:15:00z",
    "0001-01-01T00:00:00+23:59",
]
BAD = [
    "",
    "Z",
    "2026-11-20T08:15:00",
    "2026-02-29T00:00:00Z",
    "1900-02-29T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "2026-00-10T00:00:00Z",
    "2026-13-10T00:00:00Z",
    "2026-11-00T00:00:00Z",
    "2026-11-31T00:00:00Z",
    "2026-11-20T24:00:00Z",
    "2026-11-20T08:60:00Z",
    "2026-11-20T08:15:60Z",
    "2026-11-20 08:15:00Z",
    "2026/11/20T08:15:00Z",
    "2026-11-20T08:15:0:Z",
    "２026-11-20T08:15:00Z",
    "2026-11-20T08:15:00Z\n",
    "2026-11-20T08:15:00+9:00",
    "2026-11-20T08:15:00.Z",
    "20261120T081500Z",
]


def check(texts: list[str]) -> None:
    instants, fits = parse_instants(texts)
    assert len(instants) == len(fits) == len(texts)
    for text, instant, fit in zip(texts, instants.tolist(), fits.tolist(), strict=True):
        if fit:
            assert instant == parse_instant(text)


@pytest.mark.parametrize("text", FORMS[:5])
def test_common_form(text: str) -> None:
    """The common form is understood in bulk, also beside missing times."""
    instants, fits = parse_instants([text, FORMS[0], None])
    assert fits.tolist() == [True, True, False]
    assert instants[0] == parse_instant(text)


@pytest.mark.parametrize("text", BAD)
def test_invalid_times(text: str) -> None:
    """An invalid time is never understood."""
    with pytest.raises(TimeError):
        parse_instant(text)
    for neighbors in ([], [FORMS[0]], [FORMS[1]] * 3):
        _, fits = parse_instants([text, *neighbors])
        assert not fits[0]
        assert fits[1:].all()


def test_newline_in_a_text() -> None:
    """A newline in a text does not shift the times.

    Three texts whose joined rows are three other lines of 20 characters.
    """
    whole = FORMS[0]
    texts = [f"{whole}\n{whole}", whole[:9], whole[10:]]
    assert len("\n".join(texts)) == 3 * 21 - 1
    check(texts)
    _, fits = parse_instants(texts)
    assert not fits.any()


def test_every_day_of_400_years() -> None:
    """Every day of a cycle of the calendar is read correctly."""
    rng = random.Random(7)
    instants = [rng.randrange(-62_135_596_800, 253_402_300_800) * 1_000_000 for _ in range(5_000)]
    read, fits = parse_instants([format_instant(instant) for instant in instants])
    assert fits.all()
    assert read.tolist() == instants


_CHARACTERS = st.sampled_from("0123456789-+:.TZtz \n?é")
_MUTANTS = st.builds(
    lambda text, at, new, width: text[: at % 21] + new + text[at % 21 + width :],
    st.sampled_from(FORMS),
    st.integers(0, 30),
    st.text(_CHARACTERS, max_size=2),
    st.integers(0, 2),
)


@settings(max_examples=1_500, derandomize=True, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(FORMS), _MUTANTS, st.text(max_size=25)), max_size=4))
def test_bulk_equals_parse_instant(texts: list[str]) -> None:
    """An understood text has the instant that `parse_instant` returns."""
    check(texts)
