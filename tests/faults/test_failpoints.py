"""SIGKILL at every named place between two steps: recovery is a start, and nothing is lost or said twice."""

from __future__ import annotations

import ast
import signal
from collections import Counter
from pathlib import Path

import pytest

import monitor
from monitor.failpoints import PLACES
from tests.faults.conftest import Scene
from tests.faults.oracles import judge

ROOT = Path(monitor.__file__).parent


def called_places() -> list[str]:
    """The argument of every call of `passing` in the product; what is no plain text is shown as code."""
    calls = (
        node.args[0]
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "passing"
    )
    return [ast.literal_eval(place) if isinstance(place, ast.Constant) else ast.unparse(place) for place in calls]


def test_every_place_that_is_passed_is_listed_and_every_listed_place_is_passed_at_one_line() -> None:
    assert Counter(called_places()) == Counter(PLACES)


def test_nothing_in_the_product_arms_a_place() -> None:
    """`arm` is defined in one module, and no other module of the product names that module but for `passing`."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "monitor.failpoints":
                assert [name.name for name in node.names] == ["passing"], path


# At which passing to die, once an instance has answered a tick or two; 1 elsewhere. With two ledger partitions an
# instance appends four times before its first tick (twice its owner record, twice the last tick's bytes).
LATER = {
    "reader.polled": 4,
    "reader.accepted": 5,
    "reader.written": 6,
    "tick.closed": 2,
    "tick.read": 2,
    "tick.decided": 2,
}
LATER |= {"ledger.begun": 6, "ledger.sent": 6, "ledger.committed": 5}


@pytest.mark.parametrize("place", PLACES)
def test_killed_at(place: str, module_scene: Scene) -> None:
    """Killed at the place, with no time to clean up: nothing false was said until then.

    The one that is killed at the next place is the one that recovers from this.
    """
    victim = module_scene.start("--at", f"{place}:{LATER.get(place, 1)}:kill")
    assert victim.wait(40) == -signal.SIGKILL, victim.text[-2_000:]
    assert judge(module_scene.town).broken == []


def test_after_all_kills_every_promise_holds(module_scene: Scene) -> None:
    """What was seen stands committed, every visit has its fate, and no planted id is anywhere."""
    instance = module_scene.start()
    module_scene.subscriber.wait_whole()
    verdict = module_scene.settle(instance)
    assert verdict.broken == []
    assert verdict.count("safe") > 0
    assert verdict.report.noisy > 0
