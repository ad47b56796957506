"""Read and apply known mutants: small changes of the code that break a promise.

Most are a table in a file of `known/`:

    [name-of-the-mutant]
    breaks = "the rule of docs/rules.md that the change breaks: what the changed code does"
    caught_by = ["tests/….py::test_…"]          # the tests that must fail
    servers = true                               # if they start servers

    [[name-of-the-mutant.change]]
    file = "monitor/privacy/over_time.py"
    function = "step"                            # or "Class.method"; "" for the level of the module
    find = "noisy_count < rule.threshold"        # an expression, or whole statements
    replace = "noisy_count <= rule.threshold"    # without `replace`, the statements are deleted

`mechanisms.toml` has those of the library and of the simulations, in a table for each mechanism:

    [[mechanism]]
    file = "monitor/onesided/noisy_max.py"
    function = "select"
    caught_by = ["tests/….py::test_…"]
    find = "noise.geometric(rule.noise_epsilon, exact.size)"
    without_noise = "0"                          # each other key is a mutant of this name, and what replaces `find`
    at_twice_epsilon = "noise.geometric(2 * rule.noise_epsilon, exact.size)"

A change of Python is found in the syntax tree, so layout, comments and other lines of the function may change freely.
It must be found exactly once in its function. In any other file, such as a Lua script, `find` is a quoted text that
must occur exactly once.
"""

from __future__ import annotations

import ast
import difflib
import textwrap
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_FOLDER: Final = Path(__file__).parent
_MECHANISM_KEYS: Final = {"file", "function", "caught_by", "find"}


@dataclass(frozen=True)
class Change:
    """A change of one file; `mutant` is the name of the mutant, which errors report."""

    mutant: str
    file: str
    find: str
    replace: str
    function: str


@dataclass(frozen=True)
class Mutant:
    """One known mutant: its name, what it breaks, the tests that catch it, its changes, whether tests start servers."""

    name: str
    breaks: str
    tests: tuple[str, ...]
    changes: tuple[Change, ...]
    servers: bool = False


def read_mutants() -> Iterator[Mutant]:
    """Read all known mutants."""
    for path in sorted((_FOLDER / "known").glob("*.toml")):
        for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
            yield _read_mutant(name, table)
    for table in tomllib.loads((_FOLDER / "mechanisms.toml").read_text(encoding="utf-8"))["mechanism"]:
        yield from _read_mechanism(table)


def _read_mutant(name: str, table: dict[str, Any]) -> Mutant:
    wrong = table.keys() - {"servers"} ^ {"breaks", "caught_by", "change"}
    assert not wrong, f"{name}: expected the keys breaks, caught_by and change; missing or unknown: {sorted(wrong)}"
    assert table["caught_by"], f"{name}: expected at least one test in caught_by"
    changes = tuple(_read_changes(name, table["change"]))
    return Mutant(name, table["breaks"], tuple(table["caught_by"]), changes, table.get("servers", False))


def _read_mechanism(table: dict[str, Any]) -> Iterator[Mutant]:
    file, function, find = table["file"], table["function"], table["find"]
    tests = tuple(table["caught_by"])
    kinds = table.keys() - _MECHANISM_KEYS
    assert tests, f"{function}: expected at least one test in caught_by"
    assert kinds, f"{function}: expected at least one mutant"
    for kind in sorted(kinds):
        name = f"{function} {kind}".replace("_", "-")
        yield Mutant(name, f"{function} of {file}", tests, (Change(name, file, find, table[kind], function),))


def _read_changes(name: str, tables: list[dict[str, str]]) -> Iterator[Change]:
    for table in tables:
        function = table.get("function", "")
        assert table.keys() | {"function", "replace"} == {"file", "function", "find", "replace"}, f"{name}: {table}"
        yield Change(name, table["file"], table["find"], table.get("replace", ""), function)


def is_named(test: str, names: Collection[str]) -> bool:
    """Return whether names of tests include one: with its parameters, or without any."""
    return test in names or test.partition("[")[0] in names


def apply_change(change: Change, root: Path) -> None:
    """Change a file below `root`.

    Raises:
        AssertionError: the place is not found exactly once. The message names the function and the most similar code.
    """
    path = root / change.file
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        path.write_text(f"{ast.unparse(change_tree(change, ast.parse(text)))}\n", encoding="utf-8")
        return
    _require_once(change, text.count(change.find), text.splitlines())
    path.write_text(text.replace(change.find, change.replace), encoding="utf-8")


def change_tree(change: Change, tree: ast.Module) -> ast.Module:
    """Return the tree of a module with the change. The given tree is changed."""
    scope = _find_scope(change, tree)
    wanted, new = _parse(change.find), _parse(change.replace)
    is_expression = len(wanted) == 1 and isinstance(wanted[0], ast.Expr)
    if is_expression and len(new) == 1 and isinstance(new[0], ast.Expr):
        _replace_expression(change, scope, wanted[0].value, new[0].value)  # type: ignore[attr-defined]  # checked above
    else:
        _replace_statements(change, scope, wanted, new)
    return ast.fix_missing_locations(tree)


def _parse(code: str) -> list[ast.stmt]:
    """Parse statements, which may be those of a function (`return`) or of a loop (`continue`)."""
    return ast.parse(textwrap.dedent(code)).body


def _find_scope(change: Change, tree: ast.Module) -> ast.AST:
    scope: ast.AST = tree
    for name in change.function.split(".") if change.function else ():
        body: list[ast.AST] = getattr(scope, "body", [])
        found = [node for node in body if getattr(node, "name", None) == name]
        assert len(found) == 1, (
            f"{change.mutant}: {change.file} has {len(found)} definitions of {change.function}: expected one. Change "
            "`function` to match the code"
        )
        scope = found[0]
    return scope


def _replace_expression(change: Change, scope: ast.AST, wanted: ast.expr, new: ast.expr) -> None:
    wanted_dump = _dump(wanted)
    places = [
        (parent, field, index)
        for parent in ast.walk(scope)
        for field, value in ast.iter_fields(parent)
        for index, node in enumerate(value if isinstance(value, list) else [value])
        if isinstance(node, ast.expr) and _dump(node) == wanted_dump
    ]
    _require_once(change, len(places), _list_code(scope, ast.expr))
    parent, field, index = places[0]
    value = getattr(parent, field)
    if isinstance(value, list):
        value[index] = new
    else:
        setattr(parent, field, new)


def _replace_statements(change: Change, scope: ast.AST, wanted: list[ast.stmt], new: list[ast.stmt]) -> None:
    dumps = [_dump(node) for node in wanted]
    places = [
        (body, start)
        for parent in ast.walk(scope)
        for _, body in ast.iter_fields(parent)
        if isinstance(body, list)
        for start in range(len(body) - len(dumps) + 1)
        if [_dump(node) for node in body[start : start + len(dumps)]] == dumps
    ]
    _require_once(change, len(places), _list_code(scope, ast.stmt))
    body, start = places[0]
    body[start : start + len(dumps)] = new
    if not body:
        body.append(ast.Pass())


def _dump(node: Any) -> str:
    """Return a node's structure, whether it is read or assigned."""
    dumped = ast.dump(node) if isinstance(node, ast.AST) else repr(node)
    return dumped.replace("ctx=Store()", "ctx=Load()")


def _list_code(scope: ast.AST, kind: type[ast.AST]) -> list[str]:
    return [ast.unparse(node) for node in ast.walk(scope) if isinstance(node, kind) and node is not scope]


def _require_once(change: Change, count: int, candidates: list[str]) -> None:
    near = difflib.get_close_matches(change.find.strip(), candidates, n=1, cutoff=0.0)
    where = f"{change.function} of {change.file}" if change.function else change.file
    assert count == 1, (
        f"{change.mutant} no longer applies: {where} contains this code {count} times, expected once:\n{change.find}\n"
        f"The most similar code there is now:\n{near[0] if near else 'nothing'}\n"
        "Change `find` and `replace` to match the code"
    )
