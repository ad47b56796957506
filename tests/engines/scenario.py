"""Run the steps of a scenario on a service, and count the service's ticks in each: decided, lost and unknown."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

HEAD: Final = "| step | seconds | decided | lost | unknown |\n|---|---|---|---|---|"


class StepError(Exception):
    """A step did not do what it should. The message says what was expected."""


class Ticks(NamedTuple):
    """The ticks of a service, whose times are multiples of the slot (seconds since 1970), and the watched places."""

    slot: int
    places: Sequence[str]


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


def run(service: _Service, steps: Sequence[Step[_Service]]) -> None:
    """Run the steps, and print a table of the ticks in each.

    Raises:
        StepError: a step failed, or lost a tick and may not.
    """
    print(HEAD, flush=True)
    last = 0
    for step in steps:
        start = time.monotonic()
        try:
            step.do(service)
            last = _count(service, step, last, start)
        except StepError as error:
            raise StepError(f"{step.name}: {error}\n{service.describe()}") from error


def _count(service: Running, step: Step[_Service], before: int, start: float) -> int:
    """Print a row about the ticks after the last one of the step before, and return the last one of this step.

    A tick is lost if a place has no answer at it. The last tick must be decided; while ticks may be lost, it is the
    last one with an answer.
    """
    (slot, places), wanted = service.ticks, {*service.ticks.places}
    last = int(time.time() // slot * slot)
    if not step.loses:
        wait_until(lambda: service.read_answers().get(last, {}).keys() >= wanted, f"answers at {last}", 4 * slot)
    answers = service.read_answers()
    last = max(answers) if step.loses else last
    times = range((before or min(answers) - slot) + slot, last + 1, slot)
    complete = [answers[at] for at in times if answers.get(at, {}).keys() >= wanted]
    unknown = sum("unknown" in {states[place] for place in places} for states in complete)
    lost = len(times) - len(complete)
    print(
        f"| {step.name} | {time.monotonic() - start:.0f} | {len(complete) - unknown} | {lost} | {unknown} |", flush=True
    )
    expect(step.loses or lost + unknown == 0, "neither a lost nor an unknown tick")
    return last
