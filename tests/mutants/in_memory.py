"""Run tests with changes of the code, in forks of a process that has collected these tests.

A function gets new code in place, so every module that has imported it calls the new code. The Lua scripts are read
from changed copies. The changes cannot be undone, so each of them is made in a fork of its own.
"""

from __future__ import annotations

import ast
import functools
import inspect
import io
import multiprocessing
import shutil
import traceback
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final, NamedTuple

import pytest

from monitor.store import redis_store
from tests.mutants.mutants import Change, apply_change, change_tree, is_named

REPOSITORY: Final = Path(__file__).parents[2]
_LUA: Final = Path("monitor/store")
_IMPORTED: Final = "ignore::pytest.PytestAssertRewriteWarning"  # the parent process has imported plugins already
_WITHOUT: Final = ("cacheprovider", "xdist", "anyio", "valkey", "rerunfailures")
_OPTIONS: Final = (*(word for name in _WITHOUT for word in ("-p", f"no:{name}")), "-q", "-m", "", "-W", _IMPORTED)


class Request(NamedTuple):
    """Changes of the code, the tests that run with them, and a folder for changed scripts."""

    changes: Sequence[Change]
    tests: Sequence[str]
    folder: Path


class Report(NamedTuple):
    """The outcome of a phase (`setup`, `call`, `teardown`) of a test, and the text of its failure."""

    test: str
    phase: str
    outcome: str
    text: str


def serve(requests: Connection, tests: Sequence[str], folder: Path) -> None:
    """Collect tests, and answer each `Request` with a list of `Report`, or with the text of an error.

    The first message is the error of the collection, which is empty if there is none. The folder is for the temporary
    files of tests.
    """
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        words = [*_OPTIONS, f"--rootdir={REPOSITORY}", f"--basetemp={folder}", *tests]
        if pytest.main(words, plugins=[_Server(requests)]):
            requests.send(output.getvalue())


class _Server:
    """A plugin of pytest that runs the collected tests when they are requested."""

    def __init__(self, requests: Connection) -> None:
        self._requests = requests
        self._reports: list[Report] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(Report(report.nodeid, str(report.when), report.outcome, report.longreprtext))

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed:
            return None  # so that pytest prints the errors of the collection
        self._requests.send("")
        while True:
            try:
                request = self._requests.recv()
            except EOFError:
                return True
            fork = multiprocessing.get_context("fork").Process(target=self._answer, args=(session, request))
            fork.start()
            fork.join()
            if fork.exitcode:
                self._requests.send(f"the process of the tests ended with {fork.exitcode}")

    def _answer(self, session: pytest.Session, request: Request) -> None:
        try:
            _replace_functions([change for change in request.changes if change.file.endswith(".py")])
            _replace_scripts([change for change in request.changes if not change.file.endswith(".py")], request.folder)
            items = [item for item in session.items if is_named(item.nodeid, request.tests)]
            for item, following in zip(items, [*items[1:], None], strict=True):
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        except AssertionError:
            self._requests.send(traceback.format_exc())
        else:
            self._requests.send(self._reports)


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
