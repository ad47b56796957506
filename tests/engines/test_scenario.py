"""What makes a scenario fail. The service is a stand-in whose answers are computed; a tick is a second."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.engines.answers import Ticks
from tests.engines.scenario import Step, StepError, run


class Answering:
    """A service that has answered at each tick of the last ten seconds and since, except at the lost ones."""

    ticks = Ticks(1, ("a",))

    def __init__(self) -> None:
        self.start = int(time.time()) - 10
        self.lost: set[int] = set()

    def read_answers(self) -> dict[int, dict[str, str]]:
        """Return the status by tick and place."""
        return {at: {"a": "safe"} for at in range(self.start, int(time.time()) + 1) if at not in self.lost}

    def describe(self) -> str:
        """Return the state of the stand-in."""
        return "a stand-in"


def lose(service: Answering) -> None:
    """Lose one tick that is over."""
    service.lost.add(service.start + 5)


def do_nothing(_: Answering) -> None:
    """Do nothing."""


def fail(_: Answering) -> None:
    """Fail as a step does."""
    raise StepError("expected: success")


@pytest.mark.parametrize(
    ("steps", "passed"),
    [
        ([Step("nothing", do_nothing), Step("again", do_nothing)], True),
        ([Step("lost", lose)], False),
        ([Step("lost, as expected", lose, loses=True)], True),
        ([Step("nothing", do_nothing), Step("failed", fail), Step("nothing", do_nothing)], False),
        ([Step("failed", fail)], False),
    ],
)
def test_lost_tick_fails_scenario(steps: list[Step[Answering]], passed: bool) -> None:
    """A scenario fails if a step fails or loses a tick, unless the step may lose ticks."""
    assert run(Answering(), steps) == passed


@pytest.mark.parametrize(("first", "expected"), [(do_nothing, 4), (fail, 3)])
def test_failed_installation_ends_scenario(
    first: Callable[[Answering], None], expected: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a first step that fails there is no service, so no other step runs."""
    run(Answering(), [Step("first", first), Step("second", do_nothing)])
    table = capsys.readouterr().out.rpartition("\n\n")[2]
    assert len(table.splitlines()) == expected
