"""Known ways to break a promise, each a small change of the code, and the tests that must catch it.

A mutant (see `tests.mutants.mutants`) is applied to a process that has imported the code and collected the tests. The
tests that it names run there, and each of them must fail. Without a mutant they pass there, so they fail because of the
mutant.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pytest

from tests.mutants.mutants import Change, Mutant, is_named, read_mutants

REPOSITORY: Final = Path(__file__).parents[2]
SESSION: Final = Path(__file__).with_name("forked_session.py")
KNOWN: Final = tuple(read_mutants())
NAMED: Final = sorted({test for mutant in KNOWN for test in mutant.tests})
DEAR: Final = (
    "tests/privacy_service/test_service_loss.py::test_every_tick_matches_a_recount[2-1]",
    "tests/store/test_model.py::test_every_state_of_a_shard[in order]",
)
"""Tests that take many seconds. Their files have cheaper ones."""

CHEAP: Final = {test.partition("::")[0]: test for test in reversed(NAMED) if test not in DEAR}
"""A named test of each file."""

BROKEN: Final = ("ImportError", "ModuleNotFoundError", "NameError", "SyntaxError", "fixture ")
"""How the text of a failure begins if the mutant is no code that can run."""


class Session:
    """A session of pytest in another process, which forks for each mutant (`tests/mutants/forked_session.py`)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "log"
        self._requests = 0
        # numpy would start threads, and a process with threads must not fork. Options of this run, such as --costs or
        # -x, are not for the other one.
        changed = {"PYTHONPATH": str(REPOSITORY), "OPENBLAS_NUM_THREADS": "1", "PYTEST_ADDOPTS": ""}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(SESSION), str(folder / "tests"), *NAMED],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **changed},
                cwd=REPOSITORY,
            )
        self._with_kafka: list[str] = self._read()["kafka"]

    def needs_kafka(self, tests: Sequence[str]) -> bool:
        """Return whether one of the tests uses Kafka."""
        return any(is_named(test, tests) for test in self._with_kafka)

    def run(
        self, changes: Sequence[Change], tests: Sequence[str], kafka: str | None
    ) -> list[tuple[str, str, str, str]]:
        """Run tests with changes, on a broker. Return the reports: each test, its phase, the outcome and its text."""
        assert self._process.stdin is not None
        self._requests += 1
        request = {
            "changes": [asdict(change) for change in changes],
            "tests": list(tests),
            "folder": str(self._folder / f"scripts-{self._requests}"),
            "kafka": kafka,
        }
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        response = self._read()
        assert not response["error"], response["error"]
        return [tuple(report) for report in response["reports"]]

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the session has ended\n{self._log.read_text(encoding='utf-8')}"
        response: dict[str, Any] = json.loads(line)
        return response

    def close(self) -> None:
        """End the session."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait(60)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The session that has collected every test that a mutant names."""
    session = Session(tmp_path_factory.mktemp("mutants"))
    yield session
    session.close()


Run = Callable[[Sequence[Change], Sequence[str]], list[tuple[str, str, str, str]]]


@pytest.fixture
def run(session: Session, request: pytest.FixtureRequest) -> Run:
    """A function that runs tests with changes, and returns their reports. Kafka starts with the first that needs it."""

    def run_tests(changes: Sequence[Change], tests: Sequence[str]) -> list[tuple[str, str, str, str]]:
        needed = session.needs_kafka(tests)
        return session.run(changes, tests, request.getfixturevalue("kafka").bootstrap_servers if needed else None)

    return run_tests


@pytest.mark.promise(9, 21)
@pytest.mark.parametrize("mutant", KNOWN, ids=lambda mutant: mutant.name)
def test_mutant_is_caught(mutant: Mutant, run: Run) -> None:
    """Every test that a mutant names fails on the code with the mutant, in the test itself and not in a fixture."""
    reports = run(mutant.changes, mutant.tests)
    failures = {test: text for test, phase, _, text in reports if phase == "call"}
    missing = [name for name in mutant.tests if not any(is_named(test, [name]) for test in failures)]
    assert not missing, f"these tests did not run: {missing}"
    outcomes = {(phase, outcome) for _, phase, outcome, _ in reports}
    expected = {("setup", "passed"), ("call", "failed"), ("teardown", "passed")}
    assert outcomes == expected, f"a test does not catch the mutant that breaks {mutant.breaks}\n{reports}"
    for test, text in failures.items():
        errors = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
        assert errors, text
        assert not errors[0].startswith(BROKEN), f"{test} fails because the mutant cannot run\n{text}"


@pytest.mark.promise(37)
def test_tests_pass_without_mutant(run: Run) -> None:
    """A test of each file passes in the same session without a mutant, so no test fails there for another reason.

    The run of its own file shows that every named test passes on this code.
    """
    tests = list(CHEAP.values())
    assert CHEAP.keys() == {test.partition("::")[0] for test in NAMED}
    reports = run([], tests)
    assert {outcome for _, _, outcome, _ in reports} == {"passed"}, reports
    assert {test.partition("::")[0] for test, phase, _, _ in reports if phase == "call"} == CHEAP.keys()


def test_change_without_effect_is_refused(run: Run) -> None:
    """A change of a function that no named test has imported is an error, not a mutant that survives or is caught."""
    change = Change("some.toml", "tests/mutants/mutation.py", "run_mutmut('results')", "", "main")
    with pytest.raises(AssertionError, match=r"some.toml: main of tests/mutants/mutation.py is not imported"):
        run([change], ())
