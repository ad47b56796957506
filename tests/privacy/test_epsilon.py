"""Reading and writing of ε."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from monitor.errors import EpsilonError, MonitorError
from monitor.privacy.epsilon import SMALLEST, format_epsilon, parse_epsilon, parse_recorded, require_drawable


@pytest.mark.parametrize(
    ("written", "exact", "reduced"),
    [
        ("1/2", Fraction(1, 2), "1/2"),
        ("0.5", Fraction(1, 2), "1/2"),
        ("0.1", Fraction(1, 10), "1/10"),
        ("3", Fraction(3), "3"),
        (3, Fraction(3), "3"),
        ("6/4", Fraction(3, 2), "3/2"),
        (Fraction(2, 6), Fraction(1, 3), "1/3"),
        ("0.000000000001", SMALLEST, "1/1000000000000"),
        (10**12, Fraction(10**12), "1000000000000"),
        ("0." + "5" + "0" * 37, Fraction(1, 2), "1/2"),
    ],
)
def test_epsilon_is_exact_and_reduced(written: int | str | Fraction, exact: Fraction, reduced: str) -> None:
    """Decimals are read exactly, not as the nearest binary float, and a written ε is read back as the same number."""
    assert parse_epsilon(written) == exact
    assert format_epsilon(exact) == reduced
    assert parse_epsilon(reduced) == exact


@pytest.mark.parametrize(
    "value",
    [
        0.5, 1.0, float("nan"), float("inf"), True, False, None, [1], b"1",
        0, -1, "0", "0.0", "0/5", "1/0", "-1", "+1", "-1/2", "1/-2",
        "1e3", "1E-3", "nan", "inf", "Infinity", "", " 1", "1 ", "1 / 2", "1_000", ".5", "5.", "1/2/3", "0.5/2", "0x1",
        "½", "١", "１", "1\n", "9" * 41, "0." + "1" * 100_000, "0.0000000000001", 10**13,
        pytest.param(10**5000, id="huge"), pytest.param(Fraction(1, 10**5000), id="tiny"),
    ],
)  # fmt: skip
def test_other_values_are_refused(value: Any) -> None:
    """Floats, booleans, exponents, signs, spaces, other digits, empty, long and out-of-range values are refused."""
    with pytest.raises(EpsilonError, match=r"write an integer \(1\) or a quoted decimal or fraction") as raised:
        parse_epsilon(value)
    assert isinstance(raised.value, MonitorError)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.5, "ε is 0.5 (a float)"),
        (None, "ε is a NoneType"),
        ([1], "ε is a list"),
        ("1e3", "ε is '1e3':"),
        (0, "ε is 0:"),
        ("9" * 40, f"ε is '{'9' * 40}':"),
        ("9" * 41, f"ε is '{'9' * 40}' (41 characters)"),
        (Fraction(1, 10**5000), "ε is a number of very many digits"),
    ],
)
def test_error_shows_the_value_cut(value: Any, shown: str) -> None:
    """The error shows the value, and cuts a long one."""
    with pytest.raises(EpsilonError) as raised:
        parse_epsilon(value)
    assert str(raised.value).startswith(shown)


def test_smallest_drawable_epsilon() -> None:
    """A share below the smallest ε is refused with its meaning and the remedy."""
    require_drawable(SMALLEST, "ε of one answer")
    with pytest.raises(EpsilonError, match=r"^ε of one answer is 1/2000000000000: expected at least 1/1000000000000,"):
        require_drawable(SMALLEST / 2, "ε of one answer")


@pytest.mark.parametrize("text", ["1", "3/2", "1" * 150 + "/" + "3" * 150])
def test_recorded_epsilon_may_be_longer(text: str) -> None:
    """A recorded share by weights has the digits of all weights and is accepted."""
    assert parse_recorded(text) == Fraction(text)


@pytest.mark.parametrize("text", ["", "0", "0.5", "1/0", "-1", "01", "1/", " 1", "1" * 401, "1/" + "9" * 300, "½"])
def test_invalid_recorded_epsilon_is_refused(text: str) -> None:
    """Decimals, zero, out-of-range values, and too many digits are refused in a record."""
    with pytest.raises(EpsilonError, match=r"^ε is .*: expected a ") as raised:
        parse_recorded(text)
    assert len(str(raised.value)) < 300
