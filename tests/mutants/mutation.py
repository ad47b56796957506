"""Run mutmut over monitor/privacy: `python tests/mutants/mutation.py [MODULE…]` (`make soak`).

It works on copies of the package and its tests in build/mutation. mutmut is installed there too, so that the virtual
environment stays as it is. With module names, such as `over_time`, only these modules are mutated, and only their own
tests run. The output ends with the list of survivors; docs/mutation.md explains each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
PLACE: Final = REPOSITORY / "build" / "mutation"
TOOL: Final = PLACE / "tool"
MUTMUT: Final = "mutmut==3.8.1"

# Modules without their own tests, and the modules whose tests cover them.
_TESTED_BY: Final = {"counts": ("mechanisms", "noisy_max", "sparse_vector")}

# The project's environment comes first on the path: mutmut brings another pytest.
_START: Final = f"import sys; sys.path.append({str(TOOL)!r}); from mutmut.__main__ import cli; cli()"

# The deselected tests read sources or documents that are not copied.
_CONFIG: Final = """\
[tool.mutmut]
source_paths = ["monitor"]
only_mutate = [{modules}]
pytest_add_cli_args_test_selection = [{tests}]
pytest_add_cli_args = [
    "-x", "-p", "no:cacheprovider", "--deselect", "tests/privacy/test_purity.py", "-k", "not as_the_theory_states",
]
use_git_change_detection = false

[tool.pytest.ini_options]
addopts = "-m 'not soak' --import-mode=importlib"
pythonpath = ["."]
markers = ["servers", "long", "soak", "promise"]
"""


def prepare(patterns: list[str]) -> None:
    """Install mutmut, copy the package and its tests, and write the settings."""
    TOOL.mkdir(parents=True, exist_ok=True)
    if not (TOOL / "mutmut").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", str(TOOL), MUTMUT], check=True)
    for old in ("monitor", "tests", "mutants"):
        shutil.rmtree(PLACE / old, ignore_errors=True)
    without_bytecode = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "monitor", PLACE / "monitor", ignore=without_bytecode)
    shutil.copytree(REPOSITORY / "tests" / "privacy", PLACE / "tests" / "privacy", ignore=without_bytecode)
    modules = ", ".join(f'"monitor/privacy/{pattern}.py"' for pattern in patterns or ["*"])
    tests = ", ".join(f'"{test}"' for test in _tests(patterns))
    (PLACE / "pyproject.toml").write_text(_CONFIG.format(modules=modules, tests=tests), encoding="utf-8")


def _tests(patterns: list[str]) -> list[str]:
    """Return the test files of the named modules, or the folder of all tests."""
    names = [name for pattern in patterns for name in _TESTED_BY.get(pattern, (pattern,))]
    paths = [path for name in names for path in sorted((PLACE / "tests" / "privacy").glob(f"test_{name}*.py"))]
    return [path.relative_to(PLACE).as_posix() for path in paths] or ["tests/privacy"]


def mutmut(*arguments: str) -> int:
    """Run mutmut on the copies and return its exit code."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-P", "-c", _START, *arguments], cwd=PLACE, env=environment, check=False
    ).returncode


def main() -> int:
    """Mutate, test, and list the survivors."""
    prepare(sys.argv[1:])
    code = mutmut("run")
    mutmut("results")
    return code


if __name__ == "__main__":
    sys.exit(main())
