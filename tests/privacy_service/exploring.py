"""Every order of the steps of a plan: each reachable state is visited once, and the orders that lead to it are counted.

A step uses few parts of the state: a step of a reader uses the clock, the store and this reader. So a step from states
that have these parts in common is run once, and its result is put into the other states. Each run checks that the step
left all other parts as they were. Each 64th repetition runs the step again, which checks that it did not depend on
them. These are some thousand steps in each run of the tests.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

from tests.privacy_service.interleavings import Action, Observations, World
from tests.privacy_service.plans import Plan
from tests.privacy_service.states import State

_USED: Final = {
    "clock": ("moment", "owners"),
    "idle": ("moment", "store", "reader"),
    "poll": ("moment", "store", "reader"),
    "land": ("moment", "store", "reader"),
    "crash": ("moment", "reader", "zombies", "faults"),
    "zombie": ("moment", "store", "faults"),
    "look": ("moment", "store", "owner"),
    "decide": ("moment", "owner", "opens"),
    "open": ("moment", "store", "opens"),
    "takeover": ("moment", "owner", "faults"),
    "flush": ("store", "faults"),
    "replicate": ("store", "replica"),
    "failover": ("store", "replica", "faults"),
}
"""The parts of the state that a step reads or changes; "reader" and "owner" are those that the step names."""

_RUN_AGAIN: Final = 64


@dataclass(frozen=True)
class Explored:
    """The number of states, of steps between them, and of orders of steps; and the observations."""

    states: int
    steps: int
    orders: int
    observed: Observations


def explore(plan: Plan) -> Explored:
    """Visit every reachable state once; `orders` counts the ways from the first state to a final one.

    Steps that change nothing are not counted.
    """
    steps = _Steps(World(plan))
    first = steps.world.state()
    orders: dict[State, int] = {}
    after: dict[State, list[State]] = {}
    stack = [first]
    while stack:
        state = stack[-1]
        if state not in after:
            after[state] = steps.next_states(state)
            stack += [following for following in after[state] if following not in after]
            continue
        stack.pop()
        if state not in orders:
            assert all(following in orders for following in after[state]), "the states must not form a cycle"
            orders[state] = sum(orders[following] for following in after[state]) or 1
    return Explored(len(after), sum(map(len, after.values())), orders[first], steps.world.observed)


class _Steps:
    """The steps of a world, each run once for equal parts."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._actions: dict[State, list[tuple[Action, Hashable]]] = {}
        self._results: dict[Hashable, tuple[Any, ...]] = {}
        self._repeated = 0

    def next_states(self, state: State) -> list[State]:
        """Return the states after each step that changes something."""
        reached = (self._after(state, action, name) for action, name in self._actions_of(state))
        return [following for following in reached if following != state]

    def _actions_of(self, state: State) -> list[tuple[Action, Hashable]]:
        """Return the possible steps, each with a hashable name. They do not depend on the content of the store."""
        without_store = state._replace(store=(), replica=None if state.replica is None else ())
        if without_store not in self._actions:
            self.world.put(state)
            self._actions[without_store] = [(action, repr(action)) for action in self.world.actions()]
        return self._actions[without_store]

    def _after(self, state: State, action: Action, name: Hashable) -> State:
        used = _USED[action[0]]
        key = (name, *(_part(state, part, action) for part in used))
        known = self._results.get(key)
        if known is not None:
            self._repeated += 1
            after = _with_parts(state, used, action, known)
            if self._repeated % _RUN_AGAIN == 0:
                assert self._run(state, action) == after, "the step depends on other parts of the state"
            return after
        after = self._run(state, action)
        known = self._results[key] = tuple(_part(after, part, action) for part in used)
        assert _with_parts(state, used, action, known) == after, "the step changed other parts of the state"
        return after

    def _run(self, state: State, action: Action) -> State:
        self.world.put(state)
        self.world.do(action)
        return self.world.state()


def _part(state: State, part: str, action: Action) -> Any:
    if part == "reader":
        return state.readers[action[1]]
    return state.owners[action[1]] if part == "owner" else getattr(state, part)


def _with_parts(state: State, parts: tuple[str, ...], action: Action, values: tuple[Any, ...]) -> State:
    changed = dict(zip(parts, values, strict=True))
    for part, field in (("reader", "readers"), ("owner", "owners")):
        if part in changed:
            present = getattr(state, field)
            changed[field] = (*present[: action[1]], changed.pop(part), *present[action[1] + 1 :])
    return state._replace(**changed)
