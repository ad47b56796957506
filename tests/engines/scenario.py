"""Run the steps of a scenario on a service, and count the service's ticks in each: decided, lost and unknown."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from tests.engines.answers import Counted, Ticks

HEAD: Final = "| step | seconds | decided | lost | unknown |\n|---|---|---|---|---|"


class StepError(Exception):
    """A step did not do what it should. The message says what was expected."""


class Running(Protocol):
    """A service that an engine runs, such as Kubernetes. The steps do something to it."""

    @property
    def ticks(self) -> Ticks:
        """The ticks of the service."""

    def read_answers(self) -> Mapping[int, Mapping[str, str]]:
        """Return the status by tick and place."""

    def describe(self) -> str:
        """Return the state of the service's processes, for the message about a failed step."""


_Service = TypeVar("_Service", bound=Running)


@dataclass(frozen=True, slots=True)
class Step(Generic[_Service]):
    """What is done, and whether ticks may be lost meanwhile."""

    name: str
    do: Callable[[_Service], None]
    loses: bool = False


def expect(true: object, what: str) -> None:
    """Raise the error of a step unless something is true."""
    if not true:
        raise StepError(f"expected: {what}")


def wait_until(condition: Callable[[], object], what: str, seconds: float = 180) -> None:
    """Wait until a condition is true.

    Raises:
        StepError: it is not true in time.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise StepError(f"expected within {seconds:.0f} s: {what}")
        time.sleep(1)


def count(service: Running, after: int, *, loses: bool) -> tuple[int, Counted]:
    """Wait until the last tick of a step is decided. Return it, and the numbers of ticks since another one.

    While ticks may be lost, the last tick is the last that the service has decided.
    """
    ticks, last = service.ticks, service.ticks.find_last(time.time())
    if not loses:
        wait_until(lambda: max(service.read_answers()) >= last, f"an answer at {last}", 4 * ticks.slot)
    answers = service.read_answers()
    last = max(answers) if loses else last
    return last, ticks.count(answers, after or min(answers) - ticks.slot, last)


def run(service: _Service, steps: Sequence[Step[_Service]]) -> bool:
    """Run all steps, also after one that failed, and print the table. Return whether all is as it should be.

    If the first step fails there is no service, and nothing else is run.
    """
    rows, last, passed = [HEAD], 0, True
    for step in steps:
        start = time.monotonic()
        try:
            step.do(service)
            last, counted = count(service, last, loses=step.loses)
            result = " | ".join(map(str, counted))
            passed &= step.loses or counted.lost + counted.unknown == 0
        except StepError as error:
            print(f"{step.name}: {error}\n{service.describe()}", file=sys.stderr, flush=True)
            passed, result = False, "failed | |"
        rows.append(f"| {step.name} | {time.monotonic() - start:.0f} | {result} |")
        print(rows[-1], flush=True)
        if not last:
            break
    print("\n".join(("", *rows)), flush=True)
    return passed
