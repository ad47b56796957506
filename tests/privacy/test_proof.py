"""Coq checks the proofs in docs/proof, and the program that it extracts from them decides as `monitor.privacy` does."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.privacy import at_times, over_time
from monitor.privacy.at_times import AtTimesRule
from monitor.privacy.over_time import Mark, OverTimeRule
from monitor.privacy.payment_of_one_person import compute_most_answers
from monitor.privacy.published_numbers import TimeNumber
from tests.needed_programs import find_program

pytestmark = pytest.mark.long

PROOF: Final = Path(__file__).parents[2] / "docs" / "proof"

AXIOMS_OF_REALS: Final = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}
"""The axioms from which Coq's standard library builds the real numbers and e^x."""

OVER_TIME, AT_TIMES, PAYMENT, NUMBERS = range(4)
NONE = -1


class OverTimeCase(NamedTuple):
    """The arguments of `over_time.step`."""

    rule: OverTimeRule
    marks: tuple[Mark, ...]
    tick: int
    people: int | None
    noise: int
    lost_tick: int | None


class GivenSums:
    """Noise for `at_times.step`: one draw for each unmarked location, of which it asks first whether it is enough."""

    secure = False

    def __init__(self, draws: NDArray[np.int64]) -> None:
        self._draws = draws

    def reaches(self, _: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        self._rest = self._draws - gaps
        return self._rest >= 0

    def geometric(self, _: Fraction, size: int) -> NDArray[np.int64]:
        rest = self._rest[self._rest >= 0]
        assert rest.size == size
        return rest


def run(folder: Path, *words: str, text: str = "") -> str:
    """Run a program in a folder and return its output; fail if it fails."""
    ended = subprocess.run(words, cwd=folder, input=text, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the proofs, as Coq has checked them."""
    coq = find_program("coqc", "Coq", "make proof")
    folder = shutil.copytree(PROOF, tmp_path_factory.mktemp("proof"), dirs_exist_ok=True)
    for file in run(folder, "coqdep", "-Q", ".", "Kernel", "-sort", *(path.name for path in PROOF.glob("*.v"))).split():
        run(folder, coq, "-Q", ".", "Kernel", file)
    return folder


@pytest.fixture(scope="module")
def extracted(compiled: Path) -> Path:
    """The program that decides cases with the definitions of the proofs."""
    shutil.copy(Path(__file__).with_name("decide_cases.ml"), compiled)
    run(
        compiled,
        "ocamlfind",
        "ocamlopt",
        "-w",
        "-a",
        "kernel.mli",
        "kernel.ml",
        "decide_cases.ml",
        "-o",
        "decide_cases",
    )
    return compiled / "decide_cases"


def list_theorems() -> list[str]:
    """Return the theorems of all files, with their modules."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(PROOF.glob("*.v"))}
    assert not [module for module, text in texts.items() if re.search(r"\b(Axiom|Parameter|Admitted|admit)\b", text)]
    theorem = re.compile(r"^ *Theorem (\w+)", re.MULTILINE)
    return [f"{module}.{name}" for module, text in texts.items() for name in theorem.findall(text)]


@pytest.mark.promise(1, 2, 3, 4, 5, 10, 11, 12, 14, 19, 33)
def test_theorems_have_no_own_axioms(compiled: Path) -> None:
    """Coq accepts all proofs, and all theorems together follow from the axioms of Coq's real numbers alone."""
    theorems = list_theorems()
    assert len(theorems) > 10
    modules = " ".join(dict.fromkeys(name.partition(".")[0] for name in theorems))
    # Coq searches the proofs of the real numbers for each question, which takes a second. So it gets one question.
    together = f"From Kernel Require {modules}.\nDefinition all_theorems := ({', '.join(theorems)}).\n"
    (compiled / "Assumptions.v").write_text(f"{together}Print Assumptions all_theorems.\n", encoding="utf-8")
    heading, _, axioms = run(compiled, "coqc", "-Q", ".", "Kernel", "Assumptions.v").partition("\n")
    assert heading == "Axioms:"
    names = set(re.findall(r"^(\S+)", axioms, re.MULTILINE))
    print(f"{len(theorems)} theorems: {', '.join(sorted(names))}")
    assert "Classical_Prop.classic" in names, "the axioms of the real numbers must be seen"
    assert names <= AXIOMS_OF_REALS


def tiny_over_time() -> Iterator[OverTimeCase]:
    """Yield all cases of tiny rules, with marks of any ticks of the last four, of this rule or of a longer one."""
    for shape in product((1, 2), (0, 1), (1, 2), (1, 2)):
        window, max_lead, answers, threshold = shape
        rule = OverTimeRule(Fraction(1), answers, threshold, window, max_lead)
        for ticks in (chosen for size in range(3) for chosen in combinations(range(1, 6), size)):
            for longer, count, noise, lost in product((0, 2), (None, 0, 1, 2), (0, 1, 2), (None, 1, 3, 4, 5)):
                marks = tuple(
                    Mark(tick, 0, rule.answer_epsilon, tick + rule.mark_lifetime - 1 + longer) for tick in ticks
                )
                yield OverTimeCase(rule, marks, 5, count, noise, lost)


def random_rule(rng: np.random.Generator) -> tuple[OverTimeRule, list[Mark]]:
    """Return a rule, and marks around tick 20: of this rule, and of rules with another ε or another lifetime."""
    top, bottom, answers, threshold, window, max_lead = rng.integers(1, (9, 9, 6, 12, 9, 5)).tolist()
    rule = OverTimeRule(Fraction(top, bottom), answers, threshold, window, max_lead - 1)
    marks = []
    for tick in rng.integers(8, 22, 40).tolist():
        other, lifetime = rng.integers(1, (9, 16)).tolist()
        epsilon = rule.answer_epsilon if other % 3 else Fraction(1, other)
        marks.append(Mark(tick, 0, epsilon, tick - 1 + (lifetime if other % 2 else rule.mark_lifetime)))
    return rule, marks


def random_over_time(rng: np.random.Generator, number: int) -> Iterator[OverTimeCase]:
    """Yield random cases, a fifth of them without complete input, and a fifth after a loss of the ledger."""
    rules = [random_rule(rng) for _ in range(500)]
    numbers = rng.integers(0, (500, 7, 40, 5, 15, 15, 5, 12), (number, 8)).tolist()
    for chosen, size, first, complete, count, noise, lost, ago in numbers:
        rule, marks = rules[chosen]
        given = count if complete else None
        yield OverTimeCase(rule, tuple(marks[first : first + size]), 20, given, noise, None if lost else 20 - ago)


def write_over_time(case: OverTimeCase) -> str:
    """Return the numbers that the extracted program reads."""
    rule, marks, tick, count, noise, lost = case
    numbers = [
        *(OVER_TIME, rule.epsilon.numerator, rule.epsilon.denominator, rule.answers, rule.threshold, rule.window),
        *(rule.max_lead, tick, NONE if count is None else count, noise, NONE if lost is None else lost, len(marks)),
    ]
    for mark in marks:
        numbers += (mark.tick, mark.epsilon.numerator, mark.epsilon.denominator, mark.until)
    return " ".join(map(str, numbers))


def decide_over_time(case: OverTimeCase) -> str:
    """Return the service's answer, in the form that the extracted program writes."""
    rule, marks, tick, count, noise, lost = case
    answer = over_time.step(rule, marks, tick, count, noise, lost_tick=lost)
    words: list[str] = [answer.status]
    running = list(answer.marks)
    if answer.noisy_count is not None:
        new = running.pop()
        assert new.noisy_count == answer.noisy_count
        epsilon = f"{new.epsilon.numerator}/{new.epsilon.denominator}"
        words += (str(new.tick), str(new.noisy_count), epsilon, str(new.until))
    if answer.resumes_at is not None:
        words.append(str(answer.resumes_at))
    if answer.counted_since is not None:
        words += ("since", str(answer.counted_since))
    return " ".join([*words, *(f"{mark.tick}-{mark.until}" for mark in running)])


def compare(extracted: Path, cases: Iterable[str], expected: Sequence[str]) -> int:
    """Compare the extracted program's answers with the expected ones, and return the number of cases."""
    lines = list(cases)
    decided = run(extracted.parent, str(extracted), text="\n".join(lines)).splitlines()
    assert len(decided) == len(lines)
    for case, answer, wanted in zip(lines, decided, expected, strict=True):
        assert answer == wanted, case
    return len(lines)


@pytest.mark.parametrize("drawn", [60_000, pytest.param(300_000, marks=pytest.mark.soak)])
def test_over_time_decides_as_proven(extracted: Path, drawn: int) -> None:
    """Algorithm 3 gives the proven answers and marks, in all tiny cases and in many random ones."""
    cases = [*tiny_over_time(), *random_over_time(np.random.default_rng(31), drawn)]
    expected = [decide_over_time(case) for case in cases]
    assert {answer.partition(" ")[0] for answer in expected} == {"safe", "noisy_count", "paused", "unknown"}
    print(f"{compare(extracted, map(write_over_time, cases), expected)} cases of Algorithm 3")


def decide_at_times(threshold: int, cases: NDArray[np.int64]) -> Iterator[str]:
    """Yield the service's answers for the rows (marked, count, noise), in the form of the extracted program."""
    marked = cases[:, 0] == 1
    rule = AtTimesRule(Fraction(1), threshold)
    rows, noisy = at_times.step(rule, marked, cases[:, 1], GivenSums(cases[~marked, 2]))
    listed = dict(zip(rows.tolist(), noisy.tolist(), strict=True))
    return (str(listed.get(row, "-")) for row in range(len(cases)))


def test_at_times_decides_as_proven(extracted: Path) -> None:
    """Algorithm 4 lists the proven locations, in all tiny cases and in 210,000 random ones."""
    rng = np.random.default_rng(4)
    tiny = np.array(list(product((0, 1), range(5), range(5))))
    lines: list[str] = []
    expected: list[str] = []
    for threshold in (1, 2, 3, 4, 7, 15, 1000):
        cases = np.concatenate([tiny, rng.integers(0, (2, 2 * threshold, 2 * threshold), (30_000, 3))])
        lines += [f"{AT_TIMES} {threshold} {marked} {count} {noise}" for marked, count, noise in cases.tolist()]
        expected += decide_at_times(threshold, cases)
    print(f"{compare(extracted, lines, expected)} cases of Algorithm 4")


def test_marks_at_times_are_as_proven(extracted: Path) -> None:
    """A location is marked, and its count begins, as proven, after all tiny sequences of numbers and random ones."""
    rng, half = np.random.default_rng(12), Fraction(1, 2)
    tiny = [
        (AtTimesRule(epsilon, 1, answers), tuple(map(TimeNumber, ticks, ticks, epsilons)), 4)
        for epsilon, answers, size in product((half, Fraction(1), Fraction(3, 2)), (1, 2, 3), range(4))
        for ticks in product(range(1, 6), repeat=size)
        for epsilons in product((None, half, Fraction(1, 3)), repeat=size)
    ]
    random = [
        (AtTimesRule(Fraction(top, 7), 1, answers), tuple(TimeNumber(tick, 1, Fraction(1, part)) for tick in ticks), 20)
        for top, answers, part, *ticks in rng.integers(1, (40, 9, 30, *[21] * 5), (20_000, 8)).tolist()
    ]
    lines, expected = [], []
    for rule, numbers, tick in (*tiny, *random):
        words = [NUMBERS, *rule.epsilon.as_integer_ratio(), rule.answers, tick, len(numbers)]
        for number in numbers:
            words += [number.tick, *(number.epsilon or rule.epsilon).as_integer_ratio()]
        lines.append(" ".join(map(str, words)))
        start = at_times.find_count_start(numbers)
        decision = "may" if at_times.may_answer(rule, numbers, tick) else "marked"
        expected.append(decision if start is None else f"{decision} {start}")
    assert {line.partition(" ")[0] for line in expected} == {"may", "marked"}
    print(f"{compare(extracted, lines, expected)} sequences of numbers")


def test_payment_is_the_proven_bound(extracted: Path) -> None:
    """The number of answers that the service charges is the proven bound, for k, W and H up to 12 and F up to 5."""
    cases = list(product(range(1, 13), range(1, 13), range(6), range(1, 13)))
    expected = [str(compute_most_answers(*case)) for case in cases]
    compare(extracted, [" ".join(map(str, (PAYMENT, *case))) for case in cases], expected)
