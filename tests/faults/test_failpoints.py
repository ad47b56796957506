"""SIGKILL at every named place between two steps: recovery is a start, and nothing is lost or said twice."""

from __future__ import annotations

import ast
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import monitor
from monitor.failpoints import PLACES
from tests.faults.conftest import Scene
from tests.faults.oracles import judge
from tests.faults.processes import until
from tests.faults.steps import RUN_PLACES

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


def armings(source: str) -> list[str]:
    """Whatever names `arm`, or gets at the module of places otherwise than by `from … import passing`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=str(module)) if module.rpartition(".")[2] == "failpoints":
                found += [f"imports {alias.name}" for alias in node.names if not _plain(alias)]
            case ast.Import() | ast.ImportFrom():
                found += [f"imports {alias.name}" for alias in node.names if "failpoints" in alias.name.split(".")]
            case ast.Name(id="arm" | "_armed" as name) | ast.Attribute(attr="arm" | "_armed" | "failpoints" as name):
                found.append(f"names {name}")
            case ast.FunctionDef(name="arm") | ast.arg(arg="arm"):
                found.append("defines arm")
            case ast.Constant(value=str(text)) if "monitor.failpoints" in text or text in {"arm", "_armed"}:
                found.append(f"says {text!r}")
    return found


def _plain(alias: ast.alias) -> bool:
    return alias.name == "passing" and alias.asname is None


def test_nothing_in_the_product_arms_a_place() -> None:
    """`arm` is named in one module, and the others know of that module by `from monitor.failpoints import passing`."""
    modules = [path for path in ROOT.rglob("*.py") if path != ROOT / "failpoints.py"]
    found = {path.name: armed for path in modules if (armed := armings(path.read_text(encoding="utf-8")))}
    assert modules
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "from monitor.failpoints import arm",
        "from monitor.failpoints import passing, arm",
        "from monitor.failpoints import passing as harmless",
        "from monitor.failpoints import *",
        "from monitor import failpoints",
        "from monitor import failpoints as f; f.x",
        "from . import failpoints",
        "from .failpoints import arm",
        "import monitor.failpoints",
        "import monitor.failpoints as f",
        "import monitor; monitor.failpoints.passing('x')",
        "import importlib; importlib.import_module('monitor.failpoints')",
        "import sys; sys.modules['monitor.failpoints']",
        "getattr(something, 'arm')",
        "something._armed['x'] = print",
        "something.arm('x', print)",
        "arm('x', print)",
    ],
)
def test_each_way_to_arm_a_place_would_be_seen(source: str) -> None:
    assert armings(source)
    assert armings("from monitor.failpoints import passing\n\npassing('reader.polled')") == []


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


@pytest.mark.parametrize("place", RUN_PLACES)
def test_killed_at(place: str, module_scene: Scene) -> None:
    """Killed at the place, with no time to clean up: nothing false was said until then.

    The one that is killed at the next place is the one that recovers from this.
    """
    victim = module_scene.start("--at", f"{place}:{LATER.get(place, 1)}:kill")
    assert victim.wait(40) == -signal.SIGKILL, victim.text[-2_000:]
    assert judge(module_scene.town).broken == []


@pytest.mark.parametrize("place", ["reader.accepted", "ledger.sent"])
def test_told_to_stop_at(place: str, module_scene: Scene) -> None:
    """SIGTERM comes with a batch of visits, or a tick's answers, in hand: it ends in order, and another goes on.

    first  ├── at the place, waits ── SIGTERM ── goes on ──┤ exit code 0
    other                                                    ├── answers, with all visits ──
    """
    gate = module_scene.town.folder / f"gate-{place}"
    first = module_scene.start("--at", f"{place}:{LATER[place]}:hold", "--hold", str(gate))
    until(gate.with_name(f"{gate.name}.reached").exists, 40, "it is there")
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(first.terminate)
        until(lambda: "SIGTERM: finishing the work in progress" in first.text, 20, "it has heard")
        gate.touch()
        assert ended.result() == 0, first.text[-2_000:]
    other = module_scene.start()
    module_scene.subscriber.wait_whole(60)
    assert judge(module_scene.town).broken == []
    other.kill()


def test_after_all_kills_every_promise_holds(module_scene: Scene) -> None:
    """What was seen stands committed, every visit has its fate, and no planted id is anywhere."""
    instance = module_scene.start()
    module_scene.subscriber.wait_whole()
    verdict = module_scene.settle(instance)
    assert verdict.broken == []
    assert verdict.count("safe") > 0
    assert verdict.report.noisy > 0
