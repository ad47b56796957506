"""The tests of each promise. The site lists them in docs/guarantees.md.

A test that proves promise 5 has the marker `@pytest.mark.promise(5)`; `promise(5, 9)` names two.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

MARKER: Final = "pytest.mark.promise"

_PROMISE: Final = re.compile(r"^### (\d+)\. .*?(?=^##|\Z)", re.MULTILINE | re.DOTALL)


def collect_tests(root: Path) -> dict[int, list[str]]:
    """Return the tests of each promise, as pytest names them, without parameters."""
    promises: dict[int, list[str]] = defaultdict(list)
    for path in sorted((root / "tests").rglob("test_*.py")):
        file = path.relative_to(root).as_posix()
        for name, numbers in find_tests(ast.parse(path.read_text(encoding="utf-8")).body):
            for number in numbers:
                promises[number].append(file + name)
    return dict(promises)


def find_tests(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, list[int]]]:
    """Yield each test as ("::Class::test", the promises of its markers)."""
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from find_tests(node.body, f"{prefix}::{node.name}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield f"{prefix}::{node.name}", [each for marker in node.decorator_list for each in read_marker(marker)]


def read_marker(decorator: ast.expr) -> list[int]:
    """Return the numbers of a promise marker, none for another decorator."""
    if not (isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == MARKER):
        return []
    numbers: list[int] = [ast.literal_eval(argument) for argument in decorator.args]
    if not numbers or decorator.keywords or not all(type(number) is int for number in numbers):
        raise ValueError(f"line {decorator.lineno}: expected numbers of promises, found {ast.unparse(decorator)}")
    return numbers


def list_tests(page: str, promises: Mapping[int, list[str]]) -> str:
    """Return the text of docs/guarantees.md with a list of the tests at the end of each promise."""

    def add_list(found: re.Match[str]) -> str:
        tests = "".join(f"* `{test}`\n" for test in promises[int(found[1])])
        return f"{found[0]}**Tests.**\n\n{tests}\n"

    return _PROMISE.sub(add_list, page)
