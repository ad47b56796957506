"""The part of the page that decides in the browser what is known, in Node.js with stepped clocks."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

RUNNER: Final = Path(__file__).with_name("store.test.mjs")
LEAST: Final = 24


def test_store_cannot_mislead(node: str) -> None:
    """After sleep, on late or failing requests and with other settings, no answer is too old or of another time."""
    command = [node, "--test", "--test-reporter=tap", str(RUNNER)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    passed = int(next(line for line in result.stdout.splitlines() if line.startswith("# pass ")).split()[-1])
    assert passed >= LEAST
