"""Run mutmut over the privacy arithmetic and the library of one-sided privacy (`make soak`).

`python tests/mutants/mutation.py [PATTERN…]` mutates monitor/privacy and monitor/onesided.
It works in build/mutation, on copies of the package and of its tests. mutmut is installed there too, so the virtual
environment does not change. Patterns name modules, for example `over_time`. Only the tests of these modules run then.
Without a pattern, every module of both packages is mutated. The run ends with a list of the survivors.
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
PACKAGES: Final = ("privacy", "onesided")
MUTMUT: Final = "mutmut==3.8.1"

# Modules without a test file: the tests of the modules that use them run instead.
_TESTED_BY: Final = {"counts": ("mechanisms", "noisy_max", "sparse_vector")}

# The project's environment comes first on the path, because mutmut brings another pytest.
_START: Final = f"import sys; sys.path.append({str(TOOL)!r}); from mutmut.__main__ import cli; cli()"

# The deselected tests read the sources or the documents, which are not copied.
_CONFIG: Final = """\
[tool.mutmut]
source_paths = ["monitor"]
only_mutate = [{modules}]
pytest_add_cli_args_test_selection = [{tests}]
pytest_add_cli_args = [
    "-x", "-p", "no:cacheprovider", "--deselect", "tests/privacy/test_purity.py", "-k", "not matches_theory_page",
]
use_git_change_detection = false

[tool.pytest.ini_options]
addopts = "-m 'not soak' --import-mode=importlib"
pythonpath = ["."]
markers = ["servers", "long", "soak", "promise"]
"""


def prepare(patterns: list[str]) -> None:
    """Install the tool, and write fresh copies and the settings."""
    TOOL.mkdir(parents=True, exist_ok=True)
    if not (TOOL / "mutmut").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", str(TOOL), MUTMUT], check=True)
    for old in ("monitor", "simulators", "tests", "mutants"):
        shutil.rmtree(PLACE / old, ignore_errors=True)
    without_bytecode = shutil.ignore_patterns("__pycache__")
    for folder in ("monitor", "simulators"):  # tests of the library compare it with the simulations
        shutil.copytree(REPOSITORY / folder, PLACE / folder, ignore=without_bytecode)
    for package in PACKAGES:
        shutil.copytree(REPOSITORY / "tests" / package, PLACE / "tests" / package, ignore=without_bytecode)
    modules = ", ".join(f'"monitor/{package}/*{name}.py"' for package in PACKAGES for name in patterns or [""])
    tests = ", ".join(f'"{test}"' for test in _find_tests(patterns))
    (PLACE / "pyproject.toml").write_text(_CONFIG.format(modules=modules, tests=tests), encoding="utf-8")


def _find_tests(patterns: list[str]) -> list[str]:
    """Return the test files of the named modules, or the folders of all tests."""
    names = [name for pattern in patterns for name in _TESTED_BY.get(pattern, (pattern,))]
    files = [path for name in names for path in sorted((PLACE / "tests").rglob(f"test_{name}*.py"))]
    return [path.relative_to(PLACE).as_posix() for path in files] or [f"tests/{package}" for package in PACKAGES]


def run_mutmut(*arguments: str) -> int:
    """Run mutmut in the working folder and return its exit code."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-P", "-c", _START, *arguments], cwd=PLACE, env=environment, check=False
    ).returncode


def main() -> int:
    """Mutate, test, and list the survivors."""
    prepare(sys.argv[1:])
    code = run_mutmut("run")
    run_mutmut("results")
    return code


if __name__ == "__main__":
    sys.exit(main())
