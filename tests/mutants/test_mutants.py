"""Known ways to break a promise, each a small change of the code, and the tests that must catch it.

A mutant (see `tests.mutants.mutants`) is applied to a new process, which runs the tests that it names. Each of them
must fail. Without a mutant they pass there, so they fail because of the mutant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest

from tests.kit.programs import FORKS
from tests.mutants.in_memory import Report, Request, serve
from tests.mutants.mutants import Change, Mutant, is_named, read_mutants

pytestmark = pytest.mark.long

KNOWN: Final = tuple(read_mutants())
BROKEN: Final = ("ImportError", "ModuleNotFoundError", "NameError", "SyntaxError", "fixture ")
"""How the text of a failure begins if the mutant is no code that can run."""

Run = Callable[[Sequence[Change], Sequence[str]], list[Report]]


def list_one_for_each_file() -> list[str]:
    """Return of each file the named test with the shortest name, of those that start no servers."""
    named = sorted({test for mutant in KNOWN if not mutant.servers for test in mutant.tests}, key=len, reverse=True)
    return list({test.partition("::")[0]: test for test in named}.values())


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A function that runs tests with changes, in a new process, and returns their reports."""
    chosen = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    mutants = [spec.params["mutant"] for spec in chosen if spec]
    tests = {test for mutant in mutants for test in mutant.tests} | {*list_one_for_each_file()}
    requests, theirs = FORKS.Pipe()
    process = FORKS.Process(target=serve, args=(theirs, sorted(tests), tmp_path_factory.mktemp("mutants") / "tests"))
    process.start()
    theirs.close()

    def receive() -> list[Report] | str:
        received: list[Report] | str = requests.recv()
        return received

    def run_tests(changes: Sequence[Change], tests: Sequence[str]) -> list[Report]:
        requests.send(Request(changes, tests, tmp_path_factory.mktemp("changed")))
        reports = receive()
        assert not isinstance(reports, str), reports
        return reports

    error = receive()
    assert not error, error
    yield run_tests
    requests.close()
    process.join()


def mark(mutant: Mutant) -> object:
    return pytest.param(mutant, id=mutant.name, marks=[pytest.mark.servers] if mutant.servers else [])


@pytest.mark.promise(9, 21)
@pytest.mark.parametrize("mutant", [mark(mutant) for mutant in KNOWN])
def test_mutant_is_caught(mutant: Mutant, run: Run) -> None:
    """Every test that a mutant names fails on the code with the mutant, in the test itself and not in a fixture."""
    reports = run(mutant.changes, mutant.tests)
    failures = {report.test: report.text for report in reports if report.phase == "call"}
    missing = [name for name in mutant.tests if not any(is_named(test, [name]) for test in failures)]
    assert not missing, f"these tests did not run: {missing}"
    outcomes = {(report.phase, report.outcome) for report in reports}
    expected = {("setup", "passed"), ("call", "failed"), ("teardown", "passed")}
    assert outcomes == expected, f"a test does not catch the mutant that breaks {mutant.breaks}\n{reports}"
    for test, text in failures.items():
        errors = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
        assert errors, text
        assert not errors[0].startswith(BROKEN), f"{test} fails because the mutant cannot run\n{text}"


@pytest.mark.promise(37)
def test_tests_pass_without_mutant(run: Run) -> None:
    """A named test of each file passes in such a process without a mutant, so no test fails there for another reason.

    The run of its own file shows that every named test passes on this code.
    """
    tests = list_one_for_each_file()
    reports = run([], tests)
    assert {report.outcome for report in reports} == {"passed"}, reports
    assert {report.test.partition("::")[0] for report in reports} == {test.partition("::")[0] for test in tests}
