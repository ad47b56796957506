"""The page of the paper's theorems is complete, and everything that it names exists. Also three counterexamples."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

from simulators.top_k import draw_thresholds

_TABLES = {"Definitions": ("Definition", 15), "Theorems": ("Theorem", 15), "Algorithms": ("Algorithm", 4)}
_NAME = re.compile(r"`((?:monitor|simulators)(?:\.\w+)+)`")
_TEST = re.compile(r"`tests/[\w/]+\.py(?:::\w+)+`")
_TESTS = re.compile(rf"{_TEST.pattern}(?:, {_TEST.pattern})*")
_OTHER_TEXTS = {"One-sided differential privacy": 28, "One-sided noise": 15, "Geometric tricks": 10}
"""The sections of the other texts, and the number of their rows."""


def find_object(name: str) -> object:
    """Return the object of a dotted name: the longest module in it, then attributes. Raise if there is none."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        module = ".".join(parts[:end])
        if _is_module(module):
            thing: object = importlib.import_module(module)
            for part in parts[end:]:
                thing = getattr(thing, part)
            return thing
    raise ModuleNotFoundError(name)


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def strip(thing: Any) -> Any:
    """Return the function of a method, of a property or of a decorated function; any other object as it is."""
    function = getattr(thing, "fget", None) or getattr(thing, "__func__", None) or thing
    return inspect.unwrap(function) if callable(function) else function


def list_names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in a function, and in the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from list_names(constant)


def find_module(thing: Any) -> str:
    """Return the name of a module, or of the module that defines a function, a class or the class of an object."""
    return str(thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", ""))


def find_used(test: object) -> list[Any]:
    """Return the functions, classes and modules of this repository that a test uses, also through helpers.

    A function uses the globals that it names. Of a module or a class, what is named anywhere is used. A test also uses
    the arguments of its marks, which may be objects of a class.
    """
    used, names, waiting = dict[int, Any](), {"__call__"}, [test]
    while waiting:
        thing = strip(waiting.pop())
        if isinstance(thing, list | tuple):
            waiting += thing
        if id(thing) in used or find_module(thing).partition(".")[0] not in {"monitor", "simulators", "tests"}:
            continue
        used[id(thing)] = thing
        if isinstance(thing, FunctionType):
            named = set(list_names(thing.__code__))
            names |= named
            waiting += [thing.__globals__[name] for name in named & thing.__globals__.keys()]
            waiting += [mark.args for mark in getattr(thing, "pytestmark", ())]
        elif not isinstance(thing, type | ModuleType):
            waiting.append(type(thing))
        spaces = [vars(each) for each in used.values() if isinstance(each, type | ModuleType)]
        waiting += [space[name] for space in spaces for name in names & space.keys()]
    return list(used.values())


def test_page_lists_the_whole_paper(named: dict[str, Any]) -> None:
    """The page lists every definition, theorem and algorithm of the paper."""
    for heading, (kind, most) in _TABLES.items():
        rows = list(named["docs/theorems.md"].rows(heading))
        assert [row[0] for row in rows] == [f"{kind} {number}" for number in range(1, most + 1)]


def test_each_row_names_code_and_test(named: dict[str, Any]) -> None:
    """Each row, also of the other texts, names code and a test, except for the theorem that the code does not use."""
    background = set()
    for heading in (*_TABLES, *_OTHER_TEXTS):
        rows = list(named["docs/theorems.md"].rows(heading))
        assert len(rows) == _OTHER_TEXTS.get(heading, len(rows))
        for name, says, here, test in rows:
            assert len(says) > 20, name
            if test == "background":
                background.add(name)
            else:
                assert _NAME.search(here) or (heading in _TABLES and here.startswith("as for")), name
                assert _TESTS.fullmatch(test), name
    assert background == {"Theorem 2"}


def test_each_caveat_has_a_counterexample(named: dict[str, Any]) -> None:
    """Each place at which the paper must be read with care has a test."""
    rows = list(named["docs/theorems.md"].rows("Where the paper must be read with care"))
    assert len(rows) > 10
    assert all(len(row) == 4 and _TESTS.fullmatch(row[3]) for row in rows)


def test_named_code_exists(named: dict[str, Any]) -> None:
    """Each module, function and class that the page names exists."""
    names = _NAME.findall(named["docs/theorems.md"].text)
    assert len(names) > 30
    assert all(find_object(name) is not None for name in names)


def test_named_tests_use_named_code(named: dict[str, Any]) -> None:
    """The tests that a row names use each function and class that it names, and something of each module."""
    lines = [line for page in ("theorems", "osdp") for line in named[f"docs/{page}.md"].text.splitlines()]
    rows = [line for line in lines if _NAME.search(line) and _TEST.search(line)]
    assert len(rows) > 80
    for row in rows:
        tests = [test.strip("`").replace(".py", "").replace("::", ".") for test in _TEST.findall(row)]
        used = [thing for test in tests for thing in find_used(find_object(test.replace("/", ".")))]
        for name in _NAME.findall(row):
            assert any(thing is strip(find_object(name)) or find_module(thing) == name for thing in used), (name, row)


def test_theory_page_shows_right_chances(named: dict[str, Any], root: Any) -> None:
    """The probabilities on the theory page and in its pictures are those of the formulas."""
    page = named["docs/theory.md"]
    rows = list(page.rows("ε: how much likelier with her than without"))
    for epsilon, ratio, belief in rows:
        likelier = math.exp(float(epsilon))
        assert float(ratio) == float(f"{likelier:.3g}")
        assert int(belief.removesuffix(" %")) == round(100 * likelier / (likelier + 9))
    alarms = {T: 1 - (1 - math.exp(-T)) ** (14 * 24) for T in (5, 6, 8, 10)}
    drawn = (root / "docs/pictures/theory-false-alarms.svg").read_text(encoding="utf-8")
    for threshold, chance in alarms.items():
        assert f"T = {threshold}: {100 * chance:.3g} %" in drawn
    compared = (root / "docs/pictures/theory-with-and-without.svg").read_text(encoding="utf-8")
    for there in (7, 6):
        assert f"{100 * (1 - math.exp(there - 10)):.1f} %" in compared
        for z in (10, 11, 12, 13):
            assert f"{100 * (1 - math.exp(-1)) * math.exp(there - z):.2f} %" in compared


def test_theorem_8_bound_is_reached() -> None:
    """The bound of Theorem 8 can be reached, and is 0 if δ is 0.

    At step i, the largest probability that (ε, δ)-DP allows is p_i = e^ε p_(i-1) + δ, with p_0 = 0. Each step satisfies
    the definition for both outputs in both directions. Here e^ε is exactly 2.
    """
    for delta in (Fraction(0), Fraction(1, 100)):
        chances = [Fraction(0)]
        for _ in range(5):
            chances.append(2 * chances[-1] + delta)
        assert chances == [delta * sum(2**i for i in range(k)) for k in range(6)]
        for low, high in pairwise(chances):
            for one, other in ((low, high), (1 - low, 1 - high)):
                assert one <= 2 * other + delta
                assert other <= 2 * one + delta


def test_threshold_from_counts_leaks() -> None:
    """A threshold that is computed from the counts makes the loss infinite.

    The counts are 2, 2 and, without one person, 2, 1; k = 1 and ε = 1. The threshold is the count at rank 1 plus k/ε.

    counts   threshold   P[the first is "below"]
    2, 2     3           1 - 1/e
    2, 1     2           0, because noise only adds
    """
    chances = []
    for counts in ((2.0, 2.0), (2.0, 1.0)):
        (threshold,) = draw_thresholds(np.array(counts), 1, 1, np.random.default_rng(1)) + 1
        chances.append(-math.expm1(-max(threshold - counts[0], 0.0)))
    assert chances == [pytest.approx(1 - 1 / math.e), 0.0]


def test_printed_two_sided_density_is_wrong() -> None:
    """The function that Definition 15 prints is not a density: for ε/Δ = 1 its integral from -1 to 1 is more than 1.

    With a minus sign in the exponent the integral is 1 - 1/e.
    """
    steps = np.linspace(-1, 1, 20_001)
    printed, meant = (np.exp(sign * np.abs(steps)) / 2 for sign in (1, -1))
    assert np.trapezoid(printed, steps) > 1.7
    assert np.trapezoid(meant, steps) == pytest.approx(1 - 1 / math.e)
