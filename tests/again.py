"""Run server tests that failed in the parallel run once more, one after the other: `python -m tests.again CODE`.

Tests that start servers share the processor with each other in `make test`, and a machine that is too busy can make one
of them fail. Alone on the machine it must pass. Other tests do not depend on the load, so their failures are final, and
so are many failures at once. CODE is the exit code of the parallel run: only 1 means that tests failed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FAILED: Final = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
MOST: Final = 8
TESTS_FAILED: Final = 1


def read_failed(file: Path) -> list[str]:
    """Return the names of the tests that failed in the last run, from pytest's cache."""
    return sorted(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else []


def find_refusal(code: int, failed: Sequence[str], without_servers: int) -> str:
    """Return why the failures are final; empty if the tests are run again."""
    if code != TESTS_FAILED:
        return f"pytest ended with {code}, so the run itself failed"
    if not failed:
        return "no test is known to have failed, so the run itself failed"
    if len(failed) > MOST:
        return f"{len(failed)} tests failed, more than {MOST}"
    if without_servers:
        return f"{without_servers} of the failed tests start no servers, so they do not depend on the load"
    return ""


def _run_pytest(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def count_without_servers(failed: Sequence[str]) -> int:
    """Return how many of the tests start no servers."""
    listed = _run_pytest("--collect-only", "-q", "-m", "not servers", "-p", "no:cacheprovider", *failed).stdout
    return sum("::" in line and not line.startswith(("ERROR", "FAILED")) for line in listed.splitlines())


def main() -> int:
    """Run the failed tests again if they may be, and return the exit code."""
    failed = read_failed(FAILED)
    code = int(sys.argv[1])
    refusal = find_refusal(code, failed, count_without_servers(failed) if 0 < len(failed) <= MOST else 0)
    if refusal:
        print(f"make test: not run again: {refusal}", flush=True)
        return code
    print(f"make test: {len(failed)} server tests failed beside others. They run again, alone:", flush=True)
    for name in failed:
        print(f"  {name}", flush=True)
    return subprocess.run([sys.executable, "-m", "pytest", "-p", "no:xdist", *failed], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
