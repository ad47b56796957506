"""Apply the changes of a mutant to a process that has already imported the code.

A function gets new code in place, so every module that has imported it calls the new code. The Lua scripts are read
from changed copies. A change that has no effect on the imported code is refused. Use it in a forked process only: the
changes cannot be undone.
"""

from __future__ import annotations

import ast
import gc
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

from monitor.store import scripts
from tests.mutants.mutants import Change, apply_change, change_tree

REPOSITORY: Final = Path(__file__).parents[2]
_LUA: Final = "monitor/store"

Functions = Mapping[tuple[str, str], Sequence[FunctionType]]
"""The imported functions by file and qualified name, also those within wrappers."""


def find_functions() -> Functions:
    """Return all functions of this repository that exist in this process."""
    found = defaultdict(list)
    gc.unfreeze()  # tests/conftest.py has exempted them, and get_objects would leave them out
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(str(REPOSITORY)):
            found[each.__code__.co_filename, each.__code__.co_qualname].append(each)
    return found


def apply_changes(changes: Sequence[Change], functions: Functions, folder: Path) -> None:
    """Apply changes to this process. The changed Lua scripts are written into a folder.

    Raises:
        AssertionError: a change has no effect here.
    """
    _replace_functions([change for change in changes if change.file.endswith(".py")], functions)
    _replace_scripts([change for change in changes if not change.file.endswith(".py")], folder)


def _replace_functions(changes: Sequence[Change], functions: Functions) -> None:
    trees: dict[str, ast.Module] = {}
    for change in changes:
        tree = trees.get(change.file) or ast.parse((REPOSITORY / change.file).read_text(encoding="utf-8"))
        trees[change.file] = change_tree(change, tree)
    for change in {(change.file, change.function): change for change in changes}.values():
        file = str(REPOSITORY / change.file)
        compiled = compile(trees[change.file], file, "exec", dont_inherit=True)
        codes = [code for code in _find_nested_codes(compiled) if code.co_qualname == change.function]
        present = functions.get((file, change.function), ())
        where = f"{change.mutant}: {change.function} of {change.file}"
        assert present, f"{where} is not imported, or not a function"
        assert len(codes) == 1, f"{where} has {len(codes)} definitions"
        for function in present:
            assert function.__code__ != codes[0], f"{where} is unchanged: only changes within its body are possible"
            function.__code__ = codes[0]


def _find_nested_codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _find_nested_codes(constant)


def _replace_scripts(changes: Sequence[Change], folder: Path) -> None:
    """Let the service read its Lua scripts from copies with the changes, also if there are none."""
    copies = folder / _LUA
    copies.mkdir(parents=True)
    for script in (REPOSITORY / _LUA).glob("*.lua"):
        shutil.copy(script, copies)
    for change in changes:
        apply_change(change, folder)
    scripts.files = lambda _package: copies  # type: ignore[assignment,attr-defined]  # an imported name
    scripts._load_script.cache_clear()
