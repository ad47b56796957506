"""Run tests with changes of the code, in a process that has already imported it.

A function gets new code in place, so every module that has imported it calls the new code. The Lua scripts are read
from changed copies. The changes cannot be undone, so each call of `run_changed` needs a process of its own.
"""

from __future__ import annotations

import ast
import functools
import inspect
import io
import shutil
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final, NamedTuple

import pytest

from monitor.store import redis_store
from tests.mutants.mutants import Change, apply_change, change_tree

REPOSITORY: Final = Path(__file__).parents[2]
_LUA: Final = Path("monitor/store")
_IMPORTED: Final = "ignore::pytest.PytestAssertRewriteWarning"  # the parent process has imported plugins already
_WITHOUT: Final = ("cacheprovider", "xdist", "anyio", "valkey", "rerunfailures")
_OPTIONS: Final = (*(word for name in _WITHOUT for word in ("-p", f"no:{name}")), "-q", "-m", "", "-W", _IMPORTED)


class Report(NamedTuple):
    """The outcome of a phase (`setup`, `call`, `teardown`) of a test, and the text of its failure."""

    test: str
    phase: str
    outcome: str
    text: str


class _Reports:
    """A plugin of pytest that keeps all reports."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(Report(report.nodeid, str(report.when), report.outcome, report.longreprtext))


def run_changed(changes: Sequence[Change], tests: Sequence[str], folder: Path) -> list[Report]:
    """Change this process, run tests in it, and return their reports. The folder is for temporary files.

    Raises:
        AssertionError: a change is not possible.
    """
    _replace_functions([change for change in changes if change.file.endswith(".py")])
    _replace_scripts([change for change in changes if not change.file.endswith(".py")], folder)
    kept = _Reports()
    with redirect_stdout(io.StringIO()):
        pytest.main([*_OPTIONS, f"--rootdir={REPOSITORY}", f"--basetemp={folder / 'tests'}", *tests], plugins=[kept])
    return kept.reports


def _replace_functions(changes: Sequence[Change]) -> None:
    trees: dict[str, ast.Module] = {}
    for change in changes:
        tree = trees.get(change.file) or ast.parse((REPOSITORY / change.file).read_text(encoding="utf-8"))
        trees[change.file] = change_tree(change, tree)
    for change in {(change.file, change.function): change for change in changes}.values():
        compiled = compile(trees[change.file], str(REPOSITORY / change.file), "exec", dont_inherit=True)
        (code,) = (code for code in _find_nested_codes(compiled) if code.co_qualname == change.function)
        function = _find_function(change)
        assert function.__code__ != code, f"{change.mutant}: only changes within the body of a function are possible"
        function.__code__ = code


def _find_function(change: Change) -> FunctionType:
    """Return the function itself, also of a property, a class method or a decorated function."""
    found: object = import_module(change.file.removesuffix(".py").replace("/", "."))
    for name in change.function.split("."):
        found = inspect.getattr_static(found, name)
    match found:
        case property(fget=function) | functools.cached_property(func=function):
            found = function
        case staticmethod(__func__=function) | classmethod(__func__=function):
            found = function
    unwrapped = inspect.unwrap(found)  # type: ignore[arg-type]  # checked in the next line
    assert isinstance(unwrapped, FunctionType), f"{change.mutant}: {change.function} is not a function"
    return unwrapped


def _find_nested_codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _find_nested_codes(constant)


def _replace_scripts(changes: Sequence[Change], folder: Path) -> None:
    """Let the service read its Lua scripts from copies with the changes, also if there are none."""
    copies = folder / _LUA
    shutil.copytree(REPOSITORY / _LUA, copies, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for change in changes:
        apply_change(change, folder)
    redis_store.files = lambda _package: copies  # type: ignore[assignment,attr-defined]  # an imported name
    redis_store.load_script.cache_clear()
