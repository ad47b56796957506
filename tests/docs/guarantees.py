"""Generate the lists of tests in docs/guarantees.md: `python -m tests.docs.guarantees --write`.

A test that proves promise 5 has the marker `@pytest.mark.promise(5)`; `promise(5, 9)` names two. Each promise of the
page lists its tests under "**Tests.**", sorted by file, in the order in which they are in the file.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "guarantees.md"
MARKER: Final = "pytest.mark.promise"

_PROMISE: Final = re.compile(r"^### (\d+)\. ", re.MULTILINE)
_LIST: Final = re.compile(r"(?<=^\*\*Tests\.\*\*\n\n)(?:\* `[^`\n]+`\n)+", re.MULTILINE)


def collect_tests(root: Path) -> dict[int, list[str]]:
    """Return the tests of each promise, as pytest names them, without parameters."""
    promises: dict[int, list[str]] = defaultdict(list)
    for path in sorted((root / "tests").rglob("test_*.py")):
        file = path.relative_to(root).as_posix()
        for name, numbers in find_marked_tests(ast.parse(path.read_text(encoding="utf-8")).body):
            for number in numbers:
                promises[number].append(file + name)
    return dict(promises)


def find_marked_tests(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, list[int]]]:
    """Yield each marked test as ("::Class::test", its promises)."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from find_marked_tests(node.body, f"{prefix}::{node.name}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            numbers = [number for decorator in node.decorator_list for number in read_marker(decorator)]
            if numbers:
                yield f"{prefix}::{node.name}", numbers


def read_marker(decorator: ast.expr) -> list[int]:
    """Return the numbers of a promise marker, none for another decorator."""
    if not (isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == MARKER):
        return []
    numbers: list[int] = [ast.literal_eval(argument) for argument in decorator.args]
    if not numbers or decorator.keywords or not all(type(number) is int for number in numbers):
        raise ValueError(f"line {decorator.lineno}: expected numbers of promises, found {ast.unparse(decorator)}")
    return numbers


def render(page: str, promises: Mapping[int, list[str]]) -> str:
    """Return the page with the lists of the given tests.

    Raises:
        ValueError: a marker names a promise that the page lacks, or a promise has no test or no list.
    """
    head, *parts = re.split(r"^(?=### \d+\. )", page, flags=re.MULTILINE)
    numbers = [int(number) for number in _PROMISE.findall(page)]
    if unknown := sorted(set(promises) - set(numbers)):
        raise ValueError(f"docs/guarantees.md has no promise {unknown[0]}: correct {promises[unknown[0]][0]}")
    rendered = [head]
    for number, part in zip(numbers, parts, strict=True):
        if number not in promises:
            raise ValueError(f"promise {number} has no test: mark one with @{MARKER}({number})")
        lines = "".join(f"* `{test}`\n" for test in promises[number])
        around = _LIST.split(part)
        if len(around) != 2:
            raise ValueError(
                f'promise {number}: expected one list of tests below "**Tests.**", found {len(around) - 1}'
            )
        rendered.append(lines.join(around))
    return "".join(rendered)


def main() -> int:
    """Write the page, or report that it is out of date."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs.guarantees", description="Lists of tests per promise.")
    parser.add_argument("--write", action="store_true", help="write docs/guarantees.md; without it, only compare")
    write = parser.parse_args().write
    page = PAGE.read_text(encoding="utf-8")
    rendered = render(page, collect_tests(ROOT))
    if write:
        PAGE.write_text(rendered, encoding="utf-8")
    elif rendered != page:
        print("docs/guarantees.md is out of date: python -m tests.docs.guarantees --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
