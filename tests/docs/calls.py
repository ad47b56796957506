"""Run tests, and write which functions of this repository each of them calls: `python -m tests.docs.calls OUT TEST…`.

OUT becomes a JSON object: the name of each test, without parameters, and its [file, qualified name] pairs. Each case of
a test ends after its first calls, because an enumeration repeats them.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[2]
_MOST_CALLS: Final = 50_000


class _EnoughError(BaseException):
    """A case of a test has made enough calls."""


class Calls:
    """The plugin of pytest that notes the functions that a test calls."""

    def __init__(self) -> None:
        self.by_test: dict[str, set[CodeType]] = defaultdict(set)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Trace the calls of one test. The trace returns nothing, so lines are not traced."""
        codes = self.by_test[item.nodeid.partition("[")[0]]
        left = _MOST_CALLS

        def note(frame: FrameType, _event: str, _argument: object) -> None:
            nonlocal left
            codes.add(frame.f_code)
            left -= 1
            if not left:
                raise _EnoughError

        sys.settrace(note)
        try:
            return (yield)
        except _EnoughError:
            return None
        finally:
            sys.settrace(None)


def main() -> int:
    """Run the tests and write the file."""
    out, *tests = sys.argv[1:]
    calls = Calls()
    code = pytest.main(["-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-m", "", "-x", *tests], plugins=[calls])
    found = {
        test: [(code.co_filename, code.co_qualname) for code in codes if code.co_filename.startswith(str(ROOT))]
        for test, codes in calls.by_test.items()
    }
    Path(out).write_text(json.dumps(found), encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
